/* Linears of BF16 for many rows of x. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_tile_gemm(int kind, const ln_tile_args &args, cudaStream_t stream) {
    switch (kind) {
    case LN_TILE_BF16: return launch_kind<LN_TILE_BF16>(args, stream);
    case LN_TILE_F8_ROW: return ln_tile_gemm_f8(args, stream);
    case LN_TILE_INT8_ROW: return ln_tile_gemm_wide(kind, args, stream);
    case LN_TILE_INT8:
    case LN_TILE_INT4: return ln_tile_gemm_int(kind, args, stream);
    default: return ln_tile_gemm_narrow(kind, args, stream);
    }
}
