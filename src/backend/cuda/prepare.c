#include "backend/cuda/prepare.h"

#include "backend/cpu/prepare.h"
#include "base/checked.h"
#include "base/layout.h"

enum { GROUP = 8 }; /* elements that kernels load at once */

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

ln_status ln_cuda_plan_weight(const ln_weight_request *request, size_t *bytes, ln_error *err) {
    size_t n_rows = 0, pitch;
    LN_TRY(ln_cpu_plan_weight(request, LN_PACK_NONE, bytes, err)); /* checks the request */
    for (size_t i = 0; i < request->n_sources; i++)
        n_rows += request->sources[i].n_rows;
    if (!row_pitch(request, prepared_dtype(request), &pitch) || !ln_mul(pitch, n_rows, bytes))
        return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows",
                       request->sources[0].tensor->name);
    return LINNET_OK;
}

ln_status ln_cuda_prepare_weight(const ln_weight_request *request, ln_cuda_upload *upload,
                                 ln_cuda_stream stream, void *memory, ln_weight *weight,
                                 ln_error *err) {
    const char *name = request->sources[0].tensor->name;
    ln_cpu_preparer preparer = {.pool = upload->pool};
    void *assembled = NULL;
    size_t host_bytes, pitch;
    LN_TRY(ln_cpu_plan_weight(request, LN_PACK_NONE, &host_bytes, err));
    LN_TRY(ln_reserve(host_bytes, name, &assembled, err));
    ln_status status =
        ln_cpu_prepare_weight(request, LN_PACK_NONE, &preparer, assembled, weight, err);
    if (status == LINNET_OK && !row_pitch(request, weight->dtype, &pitch))
        status = ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: its size overflows", name);
    if (status == LINNET_OK) {
        int code = ln_cuda_upload_rows(upload, memory, pitch, weight->data, weight->row_bytes,
                                       weight->n_rows, stream);
        if (code != 0)
            status = ln_fail(err, LINNET_ERR_COMPUTE, "tensor %s: its way to the GPU failed: %s",
                             name, ln_cuda_error_text(code));
        weight->data = memory;
        weight->row_bytes = pitch;
    }
    ln_unreserve(assembled, host_bytes);
    return status;
}
