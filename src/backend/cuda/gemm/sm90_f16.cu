/* Linears of the kinds that become f16 for many rows of x. */
#include "backend/cuda/gemm/sm90.cuh"

int ln_gemm_sm90_f16(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    switch (kind) {
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(args, stream);
    case LN_LAYOUT_Q5: return launch_kind<LN_LAYOUT_Q5>(args, stream);
    case LN_LAYOUT_Q6: return launch_kind<LN_LAYOUT_Q6>(args, stream);
    case LN_LAYOUT_F8: return launch_kind<LN_LAYOUT_F8>(args, stream);
    case LN_LAYOUT_MXFP4: return launch_kind<LN_LAYOUT_MXFP4>(args, stream);
    default: return launch_kind<LN_LAYOUT_I8>(args, stream);
    }
}
