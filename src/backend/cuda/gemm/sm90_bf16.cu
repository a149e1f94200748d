/* The dense sm_90 GEMM of BF16, for prefill and large batches: kernel in sm90.cuh, mainloop in
 * sm90_mainloop_16.cuh, split-K in sm90_split_k.cuh. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_gemm_sm90_bf16(const ln_gemm_args &args, cudaStream_t stream) {
    return launch_layout<LN_LAYOUT_BF16>(args, stream);
}
