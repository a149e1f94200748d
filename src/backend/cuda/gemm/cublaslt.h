/* Linears of large M by NVIDIA's cuBLASLt, for `--batch-invariant off`: the library chooses its
 * kernel, and with it the order of sums, by M.
 *
 * It serves matrices of LN_LAYOUT_BF16 at M of LN_CUBLASLT_MIN_ROWS and more, which have plain rows
 * behind their tiles (weights/plain_rows.h). Activations are rows of bf16, too; those of precise
 * linears are rounded as any other's. Which of the library's kernels serves a shape is measured
 * once, before the first run that may need it. */
#ifndef LN_BACKEND_CUDA_GEMM_CUBLASLT_H
#define LN_BACKEND_CUDA_GEMM_CUBLASLT_H

#include "backend/cuda/activations/converted.h"
#include "backend/cuda/runtime/device.h"
#include "backend/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LN_CUBLASLT_MIN_ROWS = 256 };

/* Opens the library. NULL: *problem says what is not there. */
ln_cublaslt *ln_cublaslt_create(const char **problem);
/* No kernel may be running. */
void ln_cublaslt_destroy(ln_cublaslt *blas);

/* Device memory for steps of so many tokens and columns; reserve takes it, in place of what it took
 * before. 0, or the runtime's error code. */
size_t ln_cublaslt_bytes(size_t max_tokens, size_t max_width);
int ln_cublaslt_reserve(ln_cublaslt *blas, size_t max_tokens, size_t max_width);

/* Remembers the shape of a matrix that was packed so, which lies there till the next run at least.
 */
void ln_cublaslt_add(ln_cublaslt *blas, const ln_weight *weight);
/* Chooses kernels for shapes that were added since, with x's memory for rows to write to; waits for
 * the stream. 0, or the runtime's error code. */
int ln_cublaslt_tune(ln_cublaslt *blas, const ln_converted_act *x, ln_cuda_stream stream);

/* Whether the library serves these linears, as the planner found them (plan/linears.c); `blas` may
 * be NULL. */
bool ln_cublaslt_takes(ln_cublaslt *blas, const ln_op *ops, size_t n_ops);
/* Runs them with x converted; that of the next linear is converted on the way where it can be.
 * cudaErrorNotSupported: the library refused one of them, and what they read is as it was. */
int ln_cublaslt_linears(ln_cublaslt *blas, const ln_op *ops, size_t n_ops, ln_converted_act *x,
                        ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
