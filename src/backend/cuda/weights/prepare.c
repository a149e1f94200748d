#include "backend/cuda/weights/prepare.h"

#include "backend/cuda/weights/pack.h"
#include "backend/cuda/weights/plain_rows.h"
#include "base/checked.h"
#include "base/layout.h"

enum { GROUP = 8 }; /* elements of a kernel's load */

/* Bytes from one row to the next on the device. */
static bool row_pitch(const ln_weight_request *request, ln_dtype dtype, size_t *pitch) {
    size_t n_cols = request->n_cols;
    if (!request->as_f32 && ln_dtype_block_elems(dtype) == 1) {
        if (n_cols > SIZE_MAX - GROUP)
            return false;
        n_cols = (n_cols + GROUP - 1) / GROUP * GROUP;
    }
    return ln_dtype_row_bytes(dtype, n_cols, pitch);
}

static ln_dtype prepared_dtype(const ln_weight_request *request) {
    return request->as_f32 ? LN_DTYPE_F32 : ln_weight_source_dtype(&request->sources[0]);
}

/* Whether all values of a row are of this type of 8 bits with one scale, and are multiplied with
 * such activations. */
static bool is_8_bit_row(const ln_weight_request *request, ln_dtype dtype) {
    for (size_t i = 0; i < request->n_sources; i++) {
        const ln_packed *p = &request->sources[i].packed;
        bool is_stored = (p->kind == LN_PACKED_INT8 || p->kind == LN_PACKED_FP8) &&
                         ln_packed_dtype(p) == dtype && p->meets_8_bits &&
                         p->group_cols == p->n_cols && p->n_turned == 0;
        bool is_made = p->kind == LN_PACKED_ON_LOAD && p->on_load == dtype;
        if (!is_stored && !is_made)
            return false;
    }
    return true;
}

static ln_weight_layout layout_of(const ln_weight_request *request, const ln_cuda_use *use) {
    bool by_group = request->use == LN_USE_GROUPED;
    if (use->exact || request->as_f32 || (request->use != LN_USE_LINEAR && !by_group))
        return LN_LAYOUT_NONE;
    if (is_8_bit_row(request, LN_DTYPE_I8_G32))
        return LN_LAYOUT_INT8_ROW;
    if (is_8_bit_row(request, LN_DTYPE_F8_G32) && !by_group && ln_has_fp8_row_kernels())
        return LN_LAYOUT_F8_ROW;
    return ln_weight_layout_of(prepared_dtype(request), use->many_seqs && !by_group);
}

static ln_status fail_overflow(const ln_weight_request *request, ln_error *err) {
    return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows",
                   request->sources[0].tensor->name);
}

bool ln_cuda_has_plain_rows(const ln_weight_request *request, const ln_cuda_use *use) {
    return use->plain_rows && request->use == LN_USE_LINEAR &&
           layout_of(request, use) == LN_LAYOUT_BF16;
}

ln_status ln_cuda_plan_weight(const ln_weight_request *request, const ln_cuda_use *use,
                              size_t *bytes, ln_error *err) {
    size_t n_rows = ln_weight_n_rows(request), pitch;
    LN_TRY(ln_weight_plan_rows(request, bytes, err)); /* checks the request */
    ln_weight_layout layout = layout_of(request, use);
    bool fits;
    if (ln_cuda_has_plain_rows(request, use))
        fits = ln_plain_rows_matrix_bytes(n_rows, request->n_cols, bytes);
    else if (layout != LN_LAYOUT_NONE)
        fits = ln_weight_tiles_bytes(layout, n_rows, request->n_cols, bytes);
    else
        fits = row_pitch(request, prepared_dtype(request), &pitch) && ln_mul(pitch, n_rows, bytes);
    return fits ? LINNET_OK : fail_overflow(request, err);
}

/* Rows go to the device as they are, some at a time, and are packed there. */
static int upload_tiles(const ln_weight *weight, bool is_plain, ln_cuda_upload *upload,
                        ln_cuda_stream stream, void *memory) {
    size_t at_once =
        LN_UPLOAD_BUFFER_BYTES / weight->row_bytes / LN_WEIGHT_TILE_ROWS * LN_WEIGHT_TILE_ROWS;
    at_once = at_once > 0 ? at_once : LN_WEIGHT_TILE_ROWS;
    int code = 0;
    for (size_t row = 0; row < weight->n_rows && code == 0; row += at_once) {
        size_t n = weight->n_rows - row < at_once ? weight->n_rows - row : at_once;
        const uint8_t *from = (const uint8_t *)weight->data + row * weight->row_bytes;
        void *rows;
        code = ln_cuda_upload_to_pack(upload, from, weight->row_bytes, n, stream, &rows);
        if (code == 0)
            code = ln_cuda_pack_weight_tiles(weight, rows, row, n, memory, stream);
        if (code == 0 && is_plain)
            code = ln_cuda_pack_plain_rows(weight, rows, row, n, memory, stream);
        if (code == 0)
            code = ln_cuda_upload_pack_ends(upload, stream);
    }
    return code;
}

/* Sends what lies assembled at weight->data, and makes the weight say where it lies then. */
static ln_status send(const ln_weight_request *request, const ln_cuda_use *use,
                      ln_cuda_upload *upload, ln_cuda_stream stream, void *memory,
                      ln_weight *weight, ln_error *err) {
    ln_weight_layout layout = layout_of(request, use);
    size_t pitch;
    int code;
    if (!row_pitch(request, weight->dtype, &pitch))
        return fail_overflow(request, err);
    if (layout != LN_LAYOUT_NONE) {
        weight->layout = (uint32_t)layout;
        code = upload_tiles(weight, ln_cuda_has_plain_rows(request, use), upload, stream, memory);
    } else {
        code = ln_cuda_upload_rows(upload, memory, pitch, weight->data, weight->row_bytes,
                                   weight->n_rows, stream);
        weight->row_bytes = pitch;
    }
    weight->data = memory;
    return code == 0 ? LINNET_OK
                     : ln_fail(err, LINNET_ERR_COMPUTE, "tensor %s: its way to the GPU failed: %s",
                               request->sources[0].tensor->name, ln_cuda_error_text(code));
}

ln_status ln_cuda_prepare_weight(const ln_weight_request *request, const ln_cuda_use *use,
                                 ln_cuda_upload *upload, ln_cuda_stream stream, void *memory,
                                 ln_weight *weight, ln_error *err) {
    void *assembled = NULL;
    size_t host_bytes;
    LN_TRY(ln_weight_plan_rows(request, &host_bytes, err));
    LN_TRY(ln_reserve(host_bytes, request->sources[0].tensor->name, &assembled, err));
    ln_status status = ln_weight_assemble(request, upload->pool, assembled, weight, err);
    if (status == LINNET_OK)
        status = send(request, use, upload, stream, memory, weight, err);
    ln_unreserve(assembled, host_bytes);
    return status;
}
