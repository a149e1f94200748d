#include "backend/cpu/prepare.h"

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

ln_status ln_cpu_plan_weight(const ln_weight_request *request, size_t *bytes, ln_error *err) {
    *bytes = 0;
    if (is_mapped(request))
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
        if (source->transpose && ln_dtype_block_elems(source->tensor->dtype) != 1)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: type %s cannot be transposed",
                           source->tensor->name, ln_dtype_name(source->tensor->dtype));
    }
    size_t row_bytes;
    if (!ln_dtype_row_bytes(dtype, request->n_cols, &row_bytes) ||
        !ln_mul(row_bytes, total_rows(request), bytes))
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

ln_status ln_cpu_prepare_weight(const ln_weight_request *request, void *memory, ln_weight *weight,
                                ln_error *err) {
    size_t bytes;
    LN_TRY(ln_cpu_plan_weight(request, &bytes, err));
    const ln_weight_source *first = &request->sources[0];
    *weight = (ln_weight){
        .dtype = request->as_f32 ? LN_DTYPE_F32 : ln_weight_source_dtype(first),
        .n_rows = total_rows(request),
        .n_cols = request->n_cols,
        .data = memory,
    };
    if (!ln_dtype_row_bytes(weight->dtype, weight->n_cols, &weight->row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole number of blocks",
                       first->tensor->name);
    if (is_mapped(request)) {
        weight->data = first->tensor->data + first->row_begin * weight->row_bytes;
        return LINNET_OK;
    }
    uint8_t *out = memory;
    for (size_t i = 0; i < request->n_sources; i++)
        for (size_t row = 0; row < request->sources[i].n_rows; row++, out += weight->row_bytes)
            copy_row(request, &request->sources[i], row, out, weight->row_bytes);
    return LINNET_OK;
}
