/* Linears of BF16 for many rows of x. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_gemm_sm90(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    switch (kind) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(args, stream);
    case LN_LAYOUT_F8_ROW: return ln_gemm_sm90_fp8(args, stream);
    case LN_LAYOUT_INT8_ROW: return ln_gemm_sm90_n256(kind, args, stream);
    case LN_LAYOUT_INT8:
    case LN_LAYOUT_INT4: return ln_gemm_sm90_int(kind, args, stream);
    default: return ln_gemm_sm90_f16(kind, args, stream);
    }
}
