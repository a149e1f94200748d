/* Linears of F8_ROW for many rows of x. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_gemm_sm90_fp8(const ln_gemm_args &args, cudaStream_t stream) {
    return launch_kind<LN_LAYOUT_F8_ROW>(args, stream);
}
