/* Y = X W^T with its epilogue, W in packed weight tiles (weights/layout.h), by mma.sync
 * (mma_small_m.cuh): 1 to 8 rows of X on Hopper, any number elsewhere.
 *
 * Grid: (rows of weight tiles, rows of X by 8 * GROUPS). Block: 8 warps, split-K. The first weights
 * are prefetched to registers before the grid dependency on the kernel that makes X is resolved. */
#include "backend/cuda/gemm/mma_small_m.cuh"

enum { MAX_GROUPS = 8 };

/* Eights of rows that Hopper has kernels for here: more of them are in panels, but for linears that
 * no model has, which take turns of as many. */
template <int KIND>
static constexpr int HOPPER_GROUPS = KIND == LN_LAYOUT_INT8_ROW ? MAX_GROUPS : 1;

/* Offsets from the first row. */
template <int GROUPS>
static __device__ __forceinline__ void find_rows(const ln_gemm_args &p, size_t first,
                                                 lane_rows<GROUPS> &rows) {
    unsigned lane = threadIdx.x % LN_WARP, cols = (unsigned)p.x.cols;
    unsigned last = (unsigned)(p.n_rows - 1 - first), per_x = (unsigned)p.rows_per_x;
    unsigned skipped = (unsigned)(first % per_x);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        rows.own[group] = (min(group * 8 + lane / 4, last) + skipped) / per_x * cols;
#pragma unroll
        for (int i = 0; i < 2; i++)
            rows.scales[group][i] =
                (min(group * 8 + lane % 4 * 2 + i, last) + skipped) / per_x * cols;
    }
}

template <int KIND, int GROUPS, int AHEAD, bool GATE, bool PRECISE>
static __device__ __forceinline__ void multiply_tiles(const ln_gemm_args &p) {
    __shared__ slices<GROUPS> shared;
    ln_pdl_launch_dependents();
    float up_sum[GROUPS][4] = {}, gate_sum[GROUPS][4] = {};
    float up[(GROUPS + 1) / 2] = {}, gate[(GROUPS + 1) / 2] = {};
    size_t first = (size_t)blockIdx.y * 8 * GROUPS;
    unsigned tile_row = blockIdx.x;
    const ln_gemm_part &part = ln_gemm_find_part(p, LN_WEIGHT_TILE_ROWS, &tile_row);
    lane_slice<KIND, AHEAD, GATE> slice;
    begin_slice<KIND>(p, part.weight, part.gate, tile_row, slice);
    lane_rows<GROUPS> rows;
    find_rows<GROUPS>(p, first, rows);
    ln_act_view x = p.x;
    size_t x_at = first / p.rows_per_x * x.cols;
    x.bf16 += x_at, x.int8 += x_at, x.scales += x_at / LN_SCALE_BLOCK; /* these of blocks */
    if constexpr (PRECISE)
        x.rest += x_at;
    ln_pdl_wait();
    multiply_slice<KIND, GROUPS, AHEAD, GATE, PRECISE>(x, rows, part.precise, slice, up_sum,
                                                       gate_sum);
    merge<KIND, GROUPS>(shared, up_sum, up);
    if constexpr (GATE)
        merge<KIND, GROUPS>(shared, gate_sum, gate);
#pragma unroll
    for (int i = 0; i < (GROUPS + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * TILE_THREADS;
        size_t row = first + element / LN_WEIGHT_TILE_ROWS;
        size_t column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + element % LN_WEIGHT_TILE_ROWS;
        if (element >= 8 * GROUPS * LN_WEIGHT_TILE_ROWS || row >= p.n_rows ||
            column >= part.epilogue.n_out)
            continue;
        if constexpr (ln_weight_tile_has_act_row_scales(KIND)) {
            up[i] = scale_sum<KIND>(p, part.weight, tile_row, row, column, up[i]);
            if constexpr (GATE)
                gate[i] = scale_sum<KIND>(p, part.gate, tile_row, row, column, gate[i]);
        }
        ln_finish(part.epilogue, row, column, up[i], gate[i]);
    }
}

template <int KIND, int GROUPS, int AHEAD, bool GATE, bool PRECISE>
static __global__ void
__launch_bounds__(TILE_THREADS, GROUPS == 1 || (GROUPS == 2 && KIND == LN_LAYOUT_BF16) ? 2 : 1)
    tile_linear(const __grid_constant__ ln_gemm_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (GROUPS > HOPPER_GROUPS<KIND>)
        __trap();
    else
#endif
        multiply_tiles<KIND, GROUPS, AHEAD, GATE, PRECISE>(p);
}

/* ---- launching ------------------------------------------------------------------------------ */

template <int KIND, int GROUPS, bool GATE, bool PRECISE>
static int launch(const ln_gemm_args &args, cudaStream_t stream) {
    constexpr int AHEAD = units_ahead<KIND, GROUPS, GATE>();
    dim3 grid(ln_gemm_output_tiles(args, LN_WEIGHT_TILE_ROWS), ln_ceil_div(args.n_rows, 8 * GROUPS));
    return ln_pdl_launch(tile_linear<KIND, GROUPS, AHEAD, GATE, PRECISE>, grid, TILE_THREADS, 0, stream,
                     args);
}

template <int KIND, bool GATE, bool PRECISE>
static int launch_rows(const ln_gemm_args &args, cudaStream_t stream) {
    int most = ln_has_sm90a_code() ? HOPPER_GROUPS<KIND> : MAX_GROUPS;
    if (args.n_rows <= 8 || most == 1)
        return launch<KIND, 1, GATE, PRECISE>(args, stream);
    if (args.n_rows <= 16)
        return launch<KIND, 2, GATE, PRECISE>(args, stream);
    if (args.n_rows <= 32)
        return launch<KIND, 4, GATE, PRECISE>(args, stream);
    return launch<KIND, MAX_GROUPS, GATE, PRECISE>(args, stream);
}

template <int KIND> static int launch_kind(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (KIND == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch_rows<KIND, true, true>(args, stream)
                            : launch_rows<KIND, false, true>(args, stream);
    return has_gate ? launch_rows<KIND, true, false>(args, stream)
                    : launch_rows<KIND, false, false>(args, stream);
}

int ln_gemm_mma_small_m(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    switch (kind) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(args, stream);
    case LN_LAYOUT_INT8: return launch_kind<LN_LAYOUT_INT8>(args, stream);
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(args, stream);
    case LN_LAYOUT_Q5: return launch_kind<LN_LAYOUT_Q5>(args, stream);
    case LN_LAYOUT_Q6: return launch_kind<LN_LAYOUT_Q6>(args, stream);
    case LN_LAYOUT_F8: return launch_kind<LN_LAYOUT_F8>(args, stream);
    case LN_LAYOUT_MXFP4: return launch_kind<LN_LAYOUT_MXFP4>(args, stream);
    case LN_LAYOUT_I8: return launch_kind<LN_LAYOUT_I8>(args, stream);
    case LN_LAYOUT_INT8_ROW: return launch_kind<LN_LAYOUT_INT8_ROW>(args, stream);
    default: return launch_kind<LN_LAYOUT_INT4>(args, stream);
    }
}
