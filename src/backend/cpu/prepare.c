#include "backend/cpu/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "format/quants.h"

static size_t total_rows(const ln_weight_request *request) {
    size_t n_rows = 0;
    for (size_t i = 0; i < request->n_sources; i++)
        n_rows += request->sources[i].n_rows;
    return n_rows;
}

/* Kernels read rows of 2 or 4-byte numbers through typed pointers; GGUF and safetensors align
 * them in practice, but need not. */
static bool is_aligned(const ln_tensor *tensor) {
    size_t align =
        ln_dtype_block_elems(tensor->dtype) == 1 ? ln_dtype_block_bytes(tensor->dtype) : 1;
    return tensor->file_offset % align == 0;
}

static bool is_mapped(const ln_weight_request *request) {
    const ln_weight_source *source = &request->sources[0];
    return !request->as_f32 && request->n_sources == 1 && !source->transpose &&
           source->packed.kind == LN_PACKED_NONE && source->n_rows == source->run_rows &&
           is_aligned(source->tensor);
}

ln_status ln_cpu_plan_weight(const ln_weight_request *request, ln_pack pack, size_t *bytes,
                             ln_error *err) {
    *bytes = 0;
    if (pack == LN_PACK_NONE && is_mapped(request))
        return LINNET_OK;
    const ln_tensor *tensor = request->sources[0].tensor;
    ln_dtype dtype = request->as_f32 ? LN_DTYPE_F32 : ln_weight_source_dtype(&request->sources[0]);
    for (size_t i = 0; i < request->n_sources; i++) {
        const ln_weight_source *source = &request->sources[i];
        if (!request->as_f32 && ln_weight_source_dtype(source) != dtype)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "tensor %s: its type %s differs from the type %s of the part before it",
                           source->tensor->name, ln_dtype_name(source->tensor->dtype),
                           ln_dtype_name(dtype));
        if (request->as_f32 && request->n_cols % ln_dtype_block_elems(source->tensor->dtype) != 0)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "tensor %s: a vector of type %s is not supported", source->tensor->name,
                           ln_dtype_name(source->tensor->dtype));
        if (source->transpose && ln_dtype_block_elems(source->tensor->dtype) != 1)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: type %s cannot be transposed",
                           source->tensor->name, ln_dtype_name(source->tensor->dtype));
    }
    size_t row_bytes, n_panels = (total_rows(request) + LN_PANEL_ROWS - 1) / LN_PANEL_ROWS;
    if (!ln_dtype_row_bytes(dtype, request->n_cols, &row_bytes) ||
        !ln_mul(row_bytes, total_rows(request), bytes) ||
        (pack != LN_PACK_NONE && (!ln_pack_panel_bytes(pack, request->n_cols, &row_bytes) ||
                                  !ln_mul(row_bytes, n_panels, bytes))))
        return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows", tensor->name);
    return LINNET_OK;
}

/* Row number `row` of what a source gives, as a row of its matrix. */
static size_t source_row(const ln_weight_source *source, size_t row) {
    return source->row_begin + row / source->run_rows * source->run_stride + row % source->run_rows;
}

/* Copies one row, as float32 when asked. */
static void copy_row(const ln_weight_request *request, const ln_weight_source *source, size_t row,
                     uint8_t *out, size_t row_bytes) {
    const ln_tensor *tensor = source->tensor;
    size_t from = source_row(source, row);
    if (source->packed.kind != LN_PACKED_NONE) {
        ln_packed_row(&source->packed, from, out);
        return;
    }
    if (source->transpose) {
        size_t item = ln_dtype_block_bytes(tensor->dtype);
        size_t stored_cols = (size_t)tensor->dims[tensor->n_dims - 1];
        for (size_t col = 0; col < request->n_cols; col++)
            memcpy(out + col * item,
                   tensor->data + ((source->col_begin + col) * stored_cols + from) * item, item);
        return;
    }
    size_t stored_bytes;
    if (!ln_dtype_row_bytes(tensor->dtype, request->n_cols, &stored_bytes))
        return; /* plan_weight has checked it */
    const uint8_t *data = tensor->data + from * stored_bytes;
    if (request->as_f32)
        ln_dequantize_row(tensor->dtype, data, (float *)(void *)out, request->n_cols);
    else
        memcpy(out, data, row_bytes);
}

/* Row number `row` of the whole matrix: where it is mapped, or assembled in `scratch`. */
static const uint8_t *find_row(const ln_weight_request *request, size_t row, uint8_t *scratch,
                               size_t row_bytes) {
    const ln_weight_source *source = request->sources;
    for (; row >= source->n_rows; source++)
        row -= source->n_rows;
    if (!source->transpose && source->packed.kind == LN_PACKED_NONE)
        return source->tensor->data + source_row(source, row) * row_bytes;
    copy_row(request, source, row, scratch, row_bytes);
    return scratch;
}

bool ln_cpu_can_read(const ln_weight_request *request) {
    const ln_weight_source *source = &request->sources[0];
    return request->n_sources == 1 && source->tensor->map != NULL && !source->transpose &&
           source->packed.kind == LN_PACKED_NONE && source->n_rows <= source->run_rows;
}

ln_status ln_cpu_panel_source(const ln_weight_request *request, ln_pack pack,
                              ln_panel_packer packer, ln_panel_source *source, ln_error *err) {
    const ln_weight_source *from = &request->sources[0];
    *source = (ln_panel_source){.map = from->tensor->map,
                                .offset = from->tensor->file_offset,
                                .dtype = ln_weight_source_dtype(from),
                                .n_rows = total_rows(request),
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

static size_t count_panels(size_t n_rows) {
    return (n_rows + LN_PANEL_ROWS - 1) / LN_PANEL_ROWS;
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
    uint8_t *scratch; /* [n_workers][16][row_bytes], with a source whose rows are assembled */
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
                scratch += (worker * LN_PANEL_ROWS + lane) * row_bytes;
            rows[lane] =
                row < source->n_rows ? find_row(p->request, row, scratch, row_bytes) : NULL;
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
        any_assembled |=
            request->sources[i].transpose || request->sources[i].packed.kind != LN_PACKED_NONE;
    if (any_assembled) {
        p.scratch = calloc(p.n_workers * LN_PANEL_ROWS, p.source.row_bytes);
        if (p.scratch == NULL)
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory packing tensor %s",
                           request->sources[0].tensor->name);
    }
    ln_pool_run(preparer->pool, pack_share, &p);
    free(p.scratch);
    return LINNET_OK;
}

ln_status ln_cpu_describe_weight(const ln_weight_request *request, ln_pack pack, void *memory,
                                 ln_weight *weight, ln_error *err) {
    const ln_weight_source *first = &request->sources[0];
    *weight = (ln_weight){
        .dtype = request->as_f32 ? LN_DTYPE_F32 : ln_weight_source_dtype(first),
        .n_rows = total_rows(request),
        .n_cols = request->n_cols,
        .layout = pack,
        .data = memory,
    };
    if (!ln_dtype_row_bytes(weight->dtype, weight->n_cols, &weight->row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole number of blocks",
                       first->tensor->name);
    size_t panel_bytes;
    if (pack != LN_PACK_NONE && ln_pack_panel_bytes(pack, weight->n_cols, &panel_bytes))
        weight->row_bytes = panel_bytes / LN_PANEL_ROWS;
    else if (is_mapped(request))
        weight->data = first->tensor->data + first->row_begin * weight->row_bytes;
    return LINNET_OK;
}

void ln_cpu_copy_rows(const ln_weight_request *request, size_t begin, size_t end, size_t row_bytes,
                      uint8_t *out) {
    for (size_t row = begin; row < end; row++) {
        const ln_weight_source *source = request->sources;
        size_t own = row;
        for (; own >= source->n_rows; source++)
            own -= source->n_rows;
        copy_row(request, source, own, out + row * row_bytes, row_bytes);
    }
}

/* Putting the rows of all sources behind one another, shared out among the threads. */
typedef struct assembly {
    const ln_weight_request *request;
    uint8_t *out;
    size_t n_rows, row_bytes, n_workers;
} assembly;

static void assemble_share(void *context, size_t worker) {
    const assembly *a = context;
    ln_cpu_copy_rows(a->request, a->n_rows * worker / a->n_workers,
                     a->n_rows * (worker + 1) / a->n_workers, a->row_bytes, a->out);
}

ln_status ln_cpu_prepare_weight(const ln_weight_request *request, ln_pack pack,
                                const ln_cpu_preparer *preparer, void *memory, ln_weight *weight,
                                ln_error *err) {
    size_t bytes;
    LN_TRY(ln_cpu_plan_weight(request, pack, &bytes, err));
    LN_TRY(ln_cpu_describe_weight(request, pack, memory, weight, err));
    if (pack != LN_PACK_NONE)
        return pack_weight(request, pack, preparer, memory, err);
    if (is_mapped(request))
        return LINNET_OK;
    assembly a = {request, memory, weight->n_rows, weight->row_bytes, 1};
    if (preparer->pool != NULL)
        a.n_workers = ln_pool_size(preparer->pool);
    if (a.n_workers > 1)
        ln_pool_run(preparer->pool, assemble_share, &a);
    else
        assemble_share(&a, 0);
    return LINNET_OK;
}
