/* Linears of F8_ROW for many rows of x. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_tile_gemm_f8(const ln_tile_args &args, cudaStream_t stream) {
    return launch_kind<LN_TILE_F8_ROW>(args, stream);
}
