#include "ops/adapter_slots.h"

#include <stdlib.h>

#include "backend/adapter_tiles.h"
#include "base/half.h"

size_t whole_adapter_rows(size_t n) {
    return (n + LN_ADAPTER_ROWS - 1) / LN_ADAPTER_ROWS * LN_ADAPTER_ROWS;
}

static void scale(float *x, size_t n, float by) {
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

slot_data make_slot(size_t rank, size_t n_in, size_t n_out, float most) {
    size_t n_a = whole_adapter_rows(rank) * n_in, n_b = whole_adapter_rows(n_out) * rank;
    slot_data d = {
        .rank = rank, .n_in = n_in, .n_out = n_out, .a = noise_rows(n_a), .b = noise_rows(n_b)};
    for (size_t i = rank * n_in; i < n_a; i++)
        d.a[i] = 0.0f;
    scale(d.a, n_a, most);
    scale(d.b, n_b, most);
    return d;
}

void free_slot(slot_data *d) {
    free(d->a), free(d->b), free(d->multiply), free(d->after);
}

/* A and B of a slot as backends that want them so have them. */
static void put_tiles(side *s, const slot_data *d, ln_adapter_target *target) {
    size_t rank = d->rank, n_in = d->n_in, n_out = d->n_out;
    size_t n_a = ln_adapter_a_elems(rank, n_in), n_b = ln_adapter_b_elems(rank, n_out);
    uint16_t *a = calloc(n_a, sizeof *a), *b = calloc(n_b, sizeof *b);
    assert_true(a != NULL && b != NULL);
    for (size_t k = 0; k < rank; k++) {
        for (size_t i = 0; i < n_in; i++)
            a[ln_adapter_a_at(n_in, k, i)] = ln_bf16_from_f32(d->a[k * n_in + i]);
        for (size_t i = 0; i < n_out; i++)
            b[ln_adapter_b_at(rank, i, k)] = ln_bf16_from_f32(
                d->b[(i / LN_ADAPTER_ROWS * rank + k) * LN_ADAPTER_ROWS + i % LN_ADAPTER_ROWS]);
    }
    target->a_tiles = put_bytes(s, a, n_a * sizeof *a);
    target->b_tiles = put_bytes(s, b, n_b * sizeof *b);
    free(a);
    free(b);
}

void put_slots(side *s, const slot_data *slots, size_t n_slots, bool is_embedding,
               ln_weight *weight, ln_adapter_target *targets) {
    for (size_t slot = 0; slot < n_slots; slot++) {
        const slot_data *d = &slots[slot];
        size_t n_b = whole_adapter_rows(d->n_out);
        targets[slot] = (ln_adapter_target){.rank = d->rank};
        if (d->rank > 0 && !is_embedding && s->backend->has_adapter_tiles) {
            put_tiles(s, d, &targets[slot]);
        } else if (d->rank > 0) {
            targets[slot].a = put(s, d->a, whole_adapter_rows(d->rank) * d->n_in);
            targets[slot].b = put(s, d->b, n_b * d->rank);
        }
        if (d->multiply != NULL)
            targets[slot].multiply = put(s, d->multiply, n_b);
        if (d->after != NULL)
            targets[slot].multiply_after = put(s, d->after, n_b);
    }
    weight->adapters = targets;
    weight->device_adapters = NULL;
    if (s->backend->vtable->on_device)
        weight->device_adapters = put_bytes(s, targets, n_slots * sizeof *targets);
}

ln_adapter_rows sort_by_slot(const int32_t *slots, size_t n, size_t n_slots, int32_t *order,
                             ln_adapter_run *runs) {
    ln_adapter_rows rows = {.slots = slots, .order = order, .runs = runs};
    int32_t end = 0;
    for (int32_t slot = 0; slot < (int32_t)n_slots; slot++)
        for (size_t i = 0; i < n; i++) {
            ln_adapter_run *last = &runs[rows.n_runs];
            if (slots[i] != slot)
                continue;
            order[end++] = (int32_t)i;
            if (rows.n_runs > 0 && last[-1].slot == slot &&
                last[-1].end - last[-1].begin < LN_ADAPTER_RUN)
                last[-1].end = end;
            else
                runs[rows.n_runs++] = (ln_adapter_run){slot, end - 1, end};
        }
    return rows;
}
