/* The dense sm_90 GEMM of F8_ROW. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_gemm_sm90_fp8(const ln_gemm_args &args, cudaStream_t stream) {
    return launch_layout<LN_LAYOUT_F8_ROW>(args, stream);
}
