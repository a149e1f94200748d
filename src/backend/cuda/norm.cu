/* Norms, with the residual sum behind them.
 *
 * Grid: a block of 256 threads per row. x is read twice (three times by LayerNorm), the first time
 * from device memory: bytes moved are n_rows * dim * 4 * (2, or 3 with a residual). */
#include "backend/cuda/norm.cuh"

static __global__ void norm_rows(ln_norm norm, const int32_t *rows, const float *x,
                                 const float *residual, float scale, float *out) {
    __shared__ float shared[LN_MAX_WARPS];
    size_t row = blockIdx.x, from = rows != NULL ? (size_t)rows[row] : row;
    x += from * norm.dim;
    out += row * norm.dim;
    float mean, inverse;
    ln_norm_statistics(norm, x, shared, &mean, &inverse);
    for (size_t i = threadIdx.x; i < norm.dim; i += blockDim.x) {
        float y = ln_norm_apply(norm, x[i], i, mean, inverse);
        out[i] = residual != NULL ? residual[row * norm.dim + i] + scale * y : y;
    }
}

int ln_cuda_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_norm *p = &op->norm;
    if (p->n_rows == 0)
        return 0;
    const int32_t *rows = p->rows != NULL ? step->batch.logit_rows : NULL;
    norm_rows<<<(unsigned)p->n_rows, LN_NORM_THREADS, 0, stream>>>(*p->norm, rows, p->x,
                                                                   p->residual, p->scale, p->out);
    return cudaGetLastError();
}
