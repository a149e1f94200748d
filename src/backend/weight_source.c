#include "backend/weight_source.h"

#include <string.h>

#include "base/checked.h"
#include "format/quants.h"

size_t ln_weight_n_rows(const ln_weight_request *request) {
    size_t n_rows = 0;
    for (size_t i = 0; i < request->n_sources; i++)
        n_rows += request->sources[i].n_rows;
    return n_rows;
}

ln_status ln_weight_cut_rows(ln_weight_request *request, size_t begin, size_t n, ln_error *err) {
    ln_weight_source *source = &request->sources[0];
    size_t run = source->run_rows, first = begin / run, in_run = begin % run;
    LN_BUG_ON(request->n_sources != 1 || begin + n > source->n_rows);
    bool is_whole = in_run == 0 && n % run == 0, is_within = in_run + n <= run;
    if (!is_whole && !is_within)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: ranks would cut through its parts",
                       source->tensor->name);
    source->row_begin += first * source->run_stride + in_run;
    source->n_rows = n;
    if (!is_whole)
        source->run_rows = n;
    return LINNET_OK;
}

ln_status ln_weight_cut_columns(ln_weight_request *request, size_t begin, size_t n, ln_error *err) {
    ln_weight_source *source = &request->sources[0];
    size_t block = ln_dtype_block_elems(ln_weight_source_dtype(source));
    LN_BUG_ON(request->n_sources != 1 || begin + n > request->n_cols || source->whole_cols > 0);
    if (!source->transpose && (begin % block != 0 || n % block != 0))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "tensor %s: ranks would cut through its blocks of %zu columns",
                       source->tensor->name, block);
    if (source->packed.order != NULL || source->packed.n_turned > 0)
        return ln_fail(
            err, LINNET_ERR_UNSUPPORTED,
            "tensor %s: its columns are in an order of their own, which ranks cannot cut",
            source->tensor->name);
    if (source->transpose) {
        source->col_begin += begin;
    } else if (source->packed.kind != LN_PACKED_NONE) {
        source->packed.first_col = begin;
        source->packed.n_part_cols = n;
    } else {
        source->whole_cols = request->n_cols;
        source->col_begin = begin;
    }
    request->n_cols = n;
    return LINNET_OK;
}

/* Kernels read rows of 2 or 4-byte elements through typed pointers; GGUF and safetensors align
 * them in practice, but need not. */
static bool is_aligned(const ln_tensor *tensor) {
    size_t align =
        ln_dtype_block_elems(tensor->dtype) == 1 ? ln_dtype_block_bytes(tensor->dtype) : 1;
    return tensor->file_offset % align == 0;
}

bool ln_weight_is_mapped(const ln_weight_request *request) {
    const ln_weight_source *source = &request->sources[0];
    return !request->as_f32 && !request->copies && request->n_sources == 1 &&
           ln_weight_source_is_plain(source) && source->n_rows == source->run_rows &&
           is_aligned(source->tensor);
}

static ln_dtype row_dtype(const ln_weight_request *request) {
    return request->as_f32 ? LN_DTYPE_F32 : ln_weight_source_dtype(&request->sources[0]);
}

static ln_status check_source(const ln_weight_request *request, const ln_weight_source *source,
                              ln_error *err) {
    const ln_tensor *tensor = source->tensor;
    if (!request->as_f32 && ln_weight_source_dtype(source) != row_dtype(request))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "tensor %s: its type %s differs from the type %s of the part before it",
                       tensor->name, ln_dtype_name(tensor->dtype),
                       ln_dtype_name(row_dtype(request)));
    if (request->as_f32 && request->n_cols % ln_dtype_block_elems(tensor->dtype) != 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "tensor %s: a vector of type %s is not supported", tensor->name,
                       ln_dtype_name(tensor->dtype));
    if (source->transpose && ln_dtype_block_elems(tensor->dtype) != 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: type %s cannot be transposed",
                       tensor->name, ln_dtype_name(tensor->dtype));
    return LINNET_OK;
}

ln_status ln_weight_check_sources(const ln_weight_request *request, size_t *bytes, ln_error *err) {
    size_t row_bytes;
    *bytes = 0;
    for (size_t i = 0; i < request->n_sources; i++)
        LN_TRY(check_source(request, &request->sources[i], err));
    if (!ln_dtype_row_bytes(row_dtype(request), request->n_cols, &row_bytes) ||
        !ln_mul(row_bytes, ln_weight_n_rows(request), bytes))
        return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows",
                       request->sources[0].tensor->name);
    return LINNET_OK;
}

ln_status ln_weight_plan_rows(const ln_weight_request *request, size_t *bytes, ln_error *err) {
    *bytes = 0;
    return ln_weight_is_mapped(request) ? LINNET_OK : ln_weight_check_sources(request, bytes, err);
}

/* Copies one row, as float32 when asked. */
static void copy_row(const ln_weight_request *request, const ln_weight_source *source, size_t row,
                     uint8_t *out, size_t row_bytes) {
    const ln_tensor *tensor = source->tensor;
    size_t from = ln_weight_source_row(source, row);
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
    size_t stored_bytes, begin_bytes;
    size_t stored_cols = source->whole_cols > 0 ? source->whole_cols : request->n_cols;
    size_t begin = source->whole_cols > 0 ? source->col_begin : 0;
    if (!ln_dtype_row_bytes(tensor->dtype, stored_cols, &stored_bytes) ||
        !ln_dtype_row_bytes(tensor->dtype, begin, &begin_bytes))
        return; /* check_source has checked it */
    const uint8_t *data = tensor->data + from * stored_bytes + begin_bytes;
    if (request->as_f32)
        ln_dequantize_row(tensor->dtype, data, (float *)(void *)out, request->n_cols);
    else
        memcpy(out, data, row_bytes);
}

const uint8_t *ln_weight_find_row(const ln_weight_request *request, size_t row, uint8_t *scratch,
                                  size_t row_bytes) {
    const ln_weight_source *source = request->sources;
    for (; row >= source->n_rows; source++)
        row -= source->n_rows;
    if (ln_weight_source_is_plain(source))
        return source->tensor->data + ln_weight_source_row(source, row) * row_bytes;
    copy_row(request, source, row, scratch, row_bytes);
    return scratch;
}

ln_status ln_weight_describe_rows(const ln_weight_request *request, void *memory, ln_weight *weight,
                                  ln_error *err) {
    const ln_weight_source *first = &request->sources[0];
    *weight = (ln_weight){
        .dtype = row_dtype(request),
        .n_rows = ln_weight_n_rows(request),
        .n_cols = request->n_cols,
        .data = memory,
    };
    if (!ln_dtype_row_bytes(weight->dtype, weight->n_cols, &weight->row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole number of blocks",
                       first->tensor->name);
    if (ln_weight_is_mapped(request))
        weight->data = first->tensor->data + first->row_begin * weight->row_bytes;
    return LINNET_OK;
}

void ln_weight_copy_rows(const ln_weight_request *request, size_t begin, size_t end,
                         size_t row_bytes, uint8_t *out) {
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
    ln_weight_copy_rows(a->request, a->n_rows * worker / a->n_workers,
                        a->n_rows * (worker + 1) / a->n_workers, a->row_bytes, a->out);
}

ln_status ln_weight_assemble(const ln_weight_request *request, ln_pool *pool, void *memory,
                             ln_weight *weight, ln_error *err) {
    size_t bytes;
    LN_TRY(ln_weight_plan_rows(request, &bytes, err));
    LN_TRY(ln_weight_describe_rows(request, memory, weight, err));
    if (ln_weight_is_mapped(request))
        return LINNET_OK;
    assembly a = {request, memory, weight->n_rows, weight->row_bytes, 1};
    if (pool != NULL)
        a.n_workers = ln_pool_size(pool);
    if (a.n_workers > 1)
        ln_pool_run(pool, assemble_share, &a);
    else
        assemble_share(&a, 0);
    return LINNET_OK;
}
