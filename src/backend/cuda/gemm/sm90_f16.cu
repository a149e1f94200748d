/* Linears of the kinds that become f16 for many rows of x. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_tile_gemm_narrow(int kind, const ln_tile_args &args, cudaStream_t stream) {
    switch (kind) {
    case LN_TILE_Q4: return launch_kind<LN_TILE_Q4>(args, stream);
    case LN_TILE_Q5: return launch_kind<LN_TILE_Q5>(args, stream);
    case LN_TILE_Q6: return launch_kind<LN_TILE_Q6>(args, stream);
    case LN_TILE_F8: return launch_kind<LN_TILE_F8>(args, stream);
    case LN_TILE_MXFP4: return launch_kind<LN_TILE_MXFP4>(args, stream);
    default: return launch_kind<LN_TILE_I8>(args, stream);
    }
}
