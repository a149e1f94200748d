#include "backend/cpu/lazy.h"

#include <stdlib.h>

enum { SHARES = 4 }; /* runs that pack everything together, once each matrix was used */

bool ln_lazy_can(const ln_weight_request *request) {
    return request->use == LN_USE_LINEAR && ln_cpu_can_read(request);
}

ln_status ln_lazy_add(ln_lazy_list *list, const ln_weight_request *request, ln_pack pack,
                      void *memory, ln_weight *weight, ln_error *err) {
    ln_lazy *lazy = calloc(1, sizeof *lazy);
    if (lazy == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for tensor %s",
                       request->sources[0].tensor->name);
    lazy->next = list->first;
    list->first = lazy;
    LN_TRY(ln_cpu_panel_source(request, pack, list->packer, &lazy->source, err));
    lazy->name = request->sources[0].tensor->name;
    lazy->memory = memory;
    list->n_unpacked++;
    list->total_bytes += ln_panel_source_bytes(&lazy->source);
    LN_TRY(ln_cpu_describe_weight(request, pack, memory, weight, err));
    weight->lazy = lazy;
    return LINNET_OK;
}

void ln_lazy_free(ln_lazy_list *list) {
    for (ln_lazy *lazy = list->first, *next; lazy != NULL; lazy = next) {
        next = lazy->next;
        free(lazy);
    }
    *list = (ln_lazy_list){0};
}

/* The run that begins multiplies with the matrix, and may pack *budget bytes more. One that it
 * multiplies with twice, maybe without a barrier in between, is left where it is. */
static void choose(const ln_lazy_list *list, const ln_weight *weight, size_t *budget) {
    ln_lazy *lazy = weight != NULL ? weight->lazy : NULL;
    if (lazy == NULL || lazy->is_packed)
        return;
    bool was_used = lazy->last_run > 0, is_again = lazy->last_run == list->n_runs;
    size_t bytes = ln_panel_source_bytes(&lazy->source);
    lazy->last_run = list->n_runs;
    lazy->packs_now = was_used && !is_again && *budget > 0;
    if (lazy->packs_now)
        *budget -= bytes < *budget ? bytes : *budget;
}

void ln_lazy_begin(ln_lazy_list *list, const ln_op *ops, size_t n_ops) {
    size_t budget = (list->total_bytes + SHARES - 1) / SHARES;
    if (list->n_unpacked == 0)
        return;
    list->n_runs++;
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].kind == LN_OP_LINEAR) {
            choose(list, ops[i].linear.weight, &budget);
            choose(list, ops[i].linear.gate, &budget);
        }
}

ln_status ln_lazy_end(ln_lazy_list *list, ln_error *err) {
    const ln_lazy *bad = NULL;
    if (list->n_unpacked == 0)
        return LINNET_OK;
    for (ln_lazy *lazy = list->first; lazy != NULL; lazy = lazy->next) {
        if (atomic_exchange(&lazy->was_cut_off, false)) {
            bad = lazy;
        } else if (lazy->packs_now) {
            lazy->is_packed = true;
            list->n_unpacked--;
        }
        lazy->packs_now = false;
    }
    if (bad == NULL)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_IO, "tensor %s: its file cannot be read, or shrank", bad->name);
}

size_t ln_lazy_room_bytes(size_t width) {
    enum { MOST_BYTES = 4 + 2 }; /* of a column: F32 in the file, and bf16 packed */
    return LN_LAZY_PANELS * LN_PANEL_ROWS * (width + LN_PACK_COLS) * MOST_BYTES;
}

const uint8_t *ln_lazy_read(ln_lazy *lazy, size_t panel, size_t n_panels, uint8_t *room) {
    const ln_panel_source *source = &lazy->source;
    uint8_t *rows = room + n_panels * source->panel_bytes;
    uint8_t *out = lazy->packs_now ? lazy->memory + panel * source->panel_bytes : room;
    if (!ln_panel_source_read(source, panel, n_panels, rows, out))
        atomic_store(&lazy->was_cut_off, true);
    return out;
}
