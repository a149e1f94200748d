#include "backend/cpu/prepare.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"

static size_t count_panels(size_t n_rows) {
    return (n_rows + LN_PANEL_ROWS - 1) / LN_PANEL_ROWS;
}

ln_status ln_cpu_plan_weight(const ln_weight_request *request, ln_pack pack, size_t *bytes,
                             ln_error *err) {
    size_t panel_bytes;
    if (pack == LN_PACK_NONE)
        return ln_weight_plan_rows(request, bytes, err);
    LN_TRY(ln_weight_check_sources(request, bytes, err));
    if (!ln_pack_panel_bytes(pack, request->n_cols, &panel_bytes) ||
        !ln_mul(panel_bytes, count_panels(ln_weight_n_rows(request)), bytes))
        return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows",
                       request->sources[0].tensor->name);
    return LINNET_OK;
}

bool ln_cpu_can_read(const ln_weight_request *request) {
    const ln_weight_source *source = &request->sources[0];
    return request->n_sources == 1 && source->tensor->map != NULL &&
           ln_weight_source_is_plain(source) && source->n_rows <= source->run_rows;
}

ln_status ln_cpu_panel_source(const ln_weight_request *request, ln_pack pack,
                              ln_panel_packer packer, ln_panel_source *source, ln_error *err) {
    const ln_weight_source *from = &request->sources[0];
    *source = (ln_panel_source){.map = from->tensor->map,
                                .offset = from->tensor->file_offset,
                                .dtype = ln_weight_source_dtype(from),
                                .n_rows = ln_weight_n_rows(request),
                                .n_cols = request->n_cols,
                                .packer = packer};
    if (!ln_dtype_row_bytes(source->dtype, source->n_cols, &source->row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole number of blocks",
                       from->tensor->name);
    if (!ln_pack_panel_bytes(pack, source->n_cols, &source->panel_bytes))
        return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows", from->tensor->name);
    source->offset += from->row_begin * source->row_bytes;
    return LINNET_OK;
}

size_t ln_panel_source_bytes(const ln_panel_source *source) {
    return count_panels(source->n_rows) * source->panel_bytes;
}

bool ln_panel_source_read(const ln_panel_source *source, size_t panel, size_t n_panels,
                          uint8_t *rows, uint8_t *out) {
    size_t row_bytes = source->row_bytes, first = panel * LN_PANEL_ROWS;
    size_t left = source->n_rows - first, n_rows = n_panels * LN_PANEL_ROWS;
    n_rows = left < n_rows ? left : n_rows;
    if (ln_file_map_read(source->map, source->offset + first * row_bytes, rows,
                         n_rows * row_bytes) != LINNET_OK)
        return false;
    for (size_t i = 0; i < n_panels; i++, out += source->panel_bytes) {
        const uint8_t *lanes[LN_PANEL_ROWS];
        for (size_t lane = 0; lane < LN_PANEL_ROWS; lane++) {
            size_t row = i * LN_PANEL_ROWS + lane;
            lanes[lane] = row < n_rows ? rows + row * row_bytes : NULL;
        }
        source->packer(source->dtype, lanes, source->n_cols, out);
    }
    return true;
}

/* Packing a matrix, panels shared out among the threads. */
typedef struct packing {
    const ln_weight_request *request;
    ln_panel_source source; /* its map and offset do not count */
    size_t n_workers;
    /* [n_workers][scratch_bytes], of 16 rows each, with a source whose rows are assembled */
    uint8_t *scratch;
    size_t scratch_bytes;
    uint8_t *out;
} packing;

static void pack_share(void *context, size_t worker) {
    const packing *p = context;
    const ln_panel_source *source = &p->source;
    size_t n_panels = count_panels(source->n_rows), row_bytes = source->row_bytes;
    size_t end = n_panels * (worker + 1) / p->n_workers;
    for (size_t panel = n_panels * worker / p->n_workers; panel < end; panel++) {
        const uint8_t *rows[LN_PANEL_ROWS];
        for (size_t lane = 0; lane < LN_PANEL_ROWS; lane++) {
            size_t row = panel * LN_PANEL_ROWS + lane;
            uint8_t *scratch = p->scratch;
            if (scratch != NULL)
                scratch += worker * p->scratch_bytes + lane * row_bytes;
            rows[lane] = row < source->n_rows
                             ? ln_weight_find_row(p->request, row, scratch, row_bytes)
                             : NULL;
        }
        source->packer(source->dtype, rows, source->n_cols, p->out + panel * source->panel_bytes);
    }
}

static ln_status pack_weight(const ln_weight_request *request, ln_pack pack,
                             const ln_cpu_preparer *preparer, uint8_t *memory, ln_error *err) {
    packing p = {.request = request, .n_workers = ln_pool_size(preparer->pool), .out = memory};
    LN_TRY(ln_cpu_panel_source(request, pack, preparer->packer, &p.source, err));
    bool any_assembled = false;
    for (size_t i = 0; i < request->n_sources; i++)
        any_assembled |= !ln_weight_source_is_plain(&request->sources[i]);
    uint8_t *own = NULL;
    p.scratch_bytes = LN_PANEL_ROWS * p.source.row_bytes;
    if (any_assembled && preparer->room_bytes >= p.scratch_bytes) {
        p.scratch = preparer->room;
        p.scratch_bytes = preparer->room_bytes;
    } else if (any_assembled) {
        p.scratch = own = calloc(p.n_workers, p.scratch_bytes);
        if (own == NULL)
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory packing tensor %s",
                           request->sources[0].tensor->name);
    }
    ln_pool_run(preparer->pool, pack_share, &p);
    free(own);
    return LINNET_OK;
}

ln_status ln_cpu_describe_weight(const ln_weight_request *request, ln_pack pack, void *memory,
                                 ln_weight *weight, ln_error *err) {
    size_t panel_bytes;
    LN_TRY(ln_weight_describe_rows(request, memory, weight, err));
    weight->layout = pack;
    if (pack == LN_PACK_NONE)
        return LINNET_OK;
    weight->data = memory;
    if (ln_pack_panel_bytes(pack, weight->n_cols, &panel_bytes))
        weight->row_bytes = panel_bytes / LN_PANEL_ROWS;
    return LINNET_OK;
}

/* Reading rows as they lie, bytes shared out among the threads. */
typedef struct reading {
    const ln_file_map *map;
    uint64_t offset;
    uint8_t *out;
    size_t bytes, n_workers;
    atomic_bool failed;
} reading;

static void read_share(void *context, size_t worker) {
    reading *r = context;
    size_t share = r->bytes / r->n_workers, begin = worker * share;
    size_t n = worker + 1 < r->n_workers ? share : r->bytes - begin;
    if (ln_file_map_read(r->map, r->offset + begin, r->out + begin, n) != LINNET_OK)
        atomic_store(&r->failed, true);
}

static ln_status read_rows(const ln_weight_request *request, const ln_cpu_preparer *preparer,
                           uint8_t *memory, ln_weight *weight, ln_error *err) {
    const ln_weight_source *source = &request->sources[0];
    LN_TRY(ln_weight_describe_rows(request, memory, weight, err));
    reading r = {.map = source->tensor->map,
                 .offset = source->tensor->file_offset + source->row_begin * weight->row_bytes,
                 .out = memory,
                 .bytes = weight->n_rows * weight->row_bytes,
                 .n_workers = 1};
    if (preparer->pool != NULL) {
        r.n_workers = ln_pool_size(preparer->pool);
        ln_pool_run(preparer->pool, read_share, &r);
    } else {
        read_share(&r, 0);
    }
    if (!atomic_load(&r.failed))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_IO, "tensor %s: its file cannot be read, or shrank",
                   source->tensor->name);
}

ln_status ln_cpu_prepare_weight(const ln_weight_request *request, ln_pack pack,
                                const ln_cpu_preparer *preparer, void *memory, ln_weight *weight,
                                ln_error *err) {
    size_t bytes;
    if (pack == LN_PACK_NONE && request->copies && ln_cpu_can_read(request))
        return read_rows(request, preparer, memory, weight, err);
    if (pack == LN_PACK_NONE)
        return ln_weight_assemble(request, preparer->pool, memory, weight, err);
    LN_TRY(ln_cpu_plan_weight(request, pack, &bytes, err));
    LN_TRY(ln_cpu_describe_weight(request, pack, memory, weight, err));
    return pack_weight(request, pack, preparer, memory, err);
}
