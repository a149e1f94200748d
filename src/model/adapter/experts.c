#include "model/adapter/experts.h"

#include <stdlib.h>

#include "model/adapter/find.h"

/* B of one expert: of a stack's columns each n_experts-th, of its rows those of the role. */
static ln_status load_b(ln_adapter_loading *l, const ln_adapter_expert *expert, size_t which,
                        const ln_adapter_matrices *m, ln_error *err) {
    const ln_adapter_part *part = expert->part;
    size_t rank = part->rank, n_all = part->n_experts;
    float scale = (float)(part->scale * (double)l->scale);
    float *row = calloc(rank * n_all, sizeof *row);
    if (row == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < expert->n_out && status == LINNET_OK; i++) {
        size_t stored = expert->row_begin + i * expert->row_step;
        status = ln_adapter_read_row(l, part->b, stored, row, err);
        for (size_t k = 0; k < rank; k++)
            ln_adapter_put_b(m, i, k, scale * row[k * n_all + which]);
    }
    free(row);
    return status;
}

static ln_status load_a(ln_adapter_loading *l, const ln_adapter_expert *expert, size_t which,
                        const ln_adapter_matrices *m, ln_error *err) {
    const ln_adapter_part *part = expert->part;
    float *row = calloc(expert->n_in, sizeof *row);
    if (row == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    ln_status status = LINNET_OK;
    for (size_t k = 0; k < part->rank && status == LINNET_OK; k++) {
        status = ln_adapter_read_row(l, part->a, which * part->rank + k, row, err);
        for (size_t i = 0; i < expert->n_in; i++)
            ln_adapter_put_a(m, k, i, row[i]);
    }
    free(row);
    return status;
}

ln_status ln_adapter_load_expert(ln_adapter_loading *l, ln_tensor_id id, const ln_weight *weight,
                                 ln_adapter_target *target, ln_error *err) {
    ln_adapter_expert expert;
    ln_adapter_matrices m;
    if (id.encoder || !ln_adapter_find_experts(l->file, l->spec, id, &expert))
        return LINNET_OK;
    ln_adapter_part *part = expert.part;
    LN_TRY(ln_adapter_check_shape(l, part->a, part->rank * part->n_experts, weight->n_cols, err));
    LN_TRY(ln_adapter_take_matrices(l, part, part->rank, weight->n_cols, weight->n_rows, &m, err));
    LN_TRY(load_a(l, &expert, id.expert, &m, err));
    LN_TRY(load_b(l, &expert, id.expert, &m, err));
    l->n_linears += !part->is_taken;
    part->is_taken = true;
    *target = ln_adapter_target_of(&m);
    return LINNET_OK;
}

static ln_status mark(ln_adapter_loading *l, const ln_weight *experts, size_t n, ln_error *err) {
    static const ln_adapter_part none = {.module = "experts"};
    size_t slot = l->place->slot;
    ln_adapter_matrices m;
    if (experts == NULL || experts->adapters == NULL || experts->adapters[slot].rank > 0)
        return LINNET_OK;
    for (size_t i = 1; i < n; i++) {
        if (experts[i].adapters[slot].rank == 0)
            continue;
        LN_TRY(ln_adapter_take_matrices(l, &none, 1, experts->n_cols, experts->n_rows, &m, err));
        experts->adapters[slot] = ln_adapter_target_of(&m);
        break;
    }
    return LINNET_OK;
}

ln_status ln_adapter_mark_experts(ln_adapter_loading *l, ln_error *err) {
    for (size_t i = l->weights->first_layer; i < l->weights->end_layer; i++) {
        const ln_layer_weights *w = &l->weights->layers[i];
        const ln_layer_spec *spec = &l->spec->layers[i];
        size_t n = spec->ffn.moe.n_experts > 0 ? ln_layer_n_experts(spec) : 0;
        if (n == 0)
            continue;
        LN_TRY(mark(l, w->experts_gate, n, err));
        LN_TRY(mark(l, w->experts_up, n, err));
        LN_TRY(mark(l, w->experts_down, n, err));
    }
    return LINNET_OK;
}
