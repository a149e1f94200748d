/* The small-M sm_90 GEMM of layouts that are dequantised to f16. */
#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/gemm/sm90_small_m.cuh"
#include "backend/cuda/weights/dispatch.cuh"

int ln_gemm_sm90_small_m_f16(int layout, const ln_gemm_args &args, cudaStream_t stream) {
    return ln_dispatch_layout<ln_weight_tile_dequantizes_to_f16>(
        layout, [&](auto l) { return launch_layout<decltype(l)::LAYOUT>(args, stream); });
}
