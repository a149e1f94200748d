/* The small-M sm_90 GEMM of BF16, INT8, INT4 and INT8_ROW; of the others sm90_small_m_f16.cu. */
#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/gemm/sm90_small_m.cuh"
#include "backend/cuda/weights/dispatch.cuh"

static constexpr bool is_not_dequantized(int layout) {
    return !ln_weight_tile_dequantizes_to_f16(layout) && layout != LN_LAYOUT_F8_ROW;
}

int ln_gemm_sm90_small_m(int layout, const ln_gemm_args &args, cudaStream_t stream) {
    if (ln_weight_tile_dequantizes_to_f16(layout))
        return ln_gemm_sm90_small_m_f16(layout, args, stream);
    return ln_dispatch_layout<is_not_dequantized>(
        layout, [&](auto l) { return launch_layout<decltype(l)::LAYOUT>(args, stream); });
}
