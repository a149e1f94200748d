/* What gemm/select.cu asks of fuse.cu. */
#ifndef LN_BACKEND_CUDA_GEMM_FUSE_CUH
#define LN_BACKEND_CUDA_GEMM_FUSE_CUH

#include "backend/cuda/gemm/args.cuh"

/* Whether the result of the gated linear `ops` can be written in the form that the n_next linears
 * behind it read, *next, or, of F8_ROW, as rows of bf16 that are converted then. *only: whether in
 * no other form. */
bool ln_gemm_converts_result(const ln_op *ops, size_t n_next, const ln_cuda_step *step,
                             const ln_gemm_args &args, const ln_converted_act *x,
                             ln_converted_act *next, bool *only);

#endif
