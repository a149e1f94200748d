/* Y = X W^T with its epilogue, W in packed weight tiles (weights/layout.h), by mma.sync
 * (mma_small_m.cuh): M of 1 to 8 on Hopper (1: GEMV), any M elsewhere.
 *
 * Grid: (rows of weight tiles, rows of X by 8 * N8_TILES). Block: 8 warps, split-K. The first
 * weights are prefetched to registers before the grid dependency on the kernel that makes X is
 * resolved. */
#include "backend/cuda/gemm/mma_small_m.cuh"
#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/weights/dispatch.cuh"

/* Tiles of 8 rows (n8 of the MMA) of a CTA; on Hopper: more rows lie in activation tiles, but for
 * linears that no model has, which take turns of as many. */
enum { MAX_EIGHTS = 8, HOPPER_EIGHTS = 1 };

/* Offsets from the first row. */
template <int N8_TILES>
static __device__ __forceinline__ void find_rows(const ln_gemm_args &p, size_t first,
                                                 act_rows<N8_TILES> &rows) {
    unsigned lane = threadIdx.x % LN_WARP, cols = (unsigned)p.x.cols;
    unsigned last = (unsigned)(p.n_rows - 1 - first), per_x = (unsigned)p.rows_per_x;
    unsigned skipped = (unsigned)(first % per_x);
#pragma unroll
    for (int n8 = 0; n8 < N8_TILES; n8++) {
        rows.own[n8] = (min(n8 * 8 + lane / 4, last) + skipped) / per_x * cols;
#pragma unroll
        for (int i = 0; i < 2; i++)
            rows.scales[n8][i] = (min(n8 * 8 + lane % 4 * 2 + i, last) + skipped) / per_x * cols;
    }
}

template <int LAYOUT, int N8_TILES, int AHEAD, bool GATE, bool PRECISE>
static __device__ __forceinline__ void compute_tile(const ln_gemm_args &p) {
    __shared__ split_sums<N8_TILES> shared;
    ln_pdl_launch_dependents();
    float up_sum[N8_TILES][4] = {}, gate_sum[N8_TILES][4] = {};
    float up[(N8_TILES + 1) / 2] = {}, gate[(N8_TILES + 1) / 2] = {};
    size_t first = (size_t)blockIdx.y * 8 * N8_TILES;
    unsigned tile_row = blockIdx.x;
    const ln_gemm_part &part = ln_gemm_find_part(p, LN_WEIGHT_TILE_ROWS, &tile_row);
    weight_split<LAYOUT, AHEAD, GATE> split;
    begin_split<LAYOUT>(p, part.weight, part.gate, tile_row, split);
    act_rows<N8_TILES> rows;
    find_rows<N8_TILES>(p, first, rows);
    ln_act_view x = p.x;
    size_t x_at = first / p.rows_per_x * x.cols;
    x.bf16 += x_at, x.int8 += x_at, x.scales += x_at / LN_SCALE_BLOCK; /* these of blocks */
    if constexpr (PRECISE)
        x.lo += x_at;
    ln_pdl_wait();
    multiply_split<LAYOUT, N8_TILES, AHEAD, GATE, PRECISE>(x, rows, part.precise, split, up_sum,
                                                           gate_sum);
    add_splits<LAYOUT, N8_TILES>(shared, up_sum, up);
    if constexpr (GATE)
        add_splits<LAYOUT, N8_TILES>(shared, gate_sum, gate);
#pragma unroll
    for (int i = 0; i < (N8_TILES + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * MMA_THREADS;
        size_t row = first + element / LN_WEIGHT_TILE_ROWS;
        size_t column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + element % LN_WEIGHT_TILE_ROWS;
        if (element >= 8 * N8_TILES * LN_WEIGHT_TILE_ROWS || row >= p.n_rows ||
            column >= part.epilogue.n_out)
            continue;
        if constexpr (ln_weight_tile_has_act_row_scales(LAYOUT)) {
            up[i] = scale_sum<LAYOUT>(p, part.weight, tile_row, row, column, up[i]);
            if constexpr (GATE)
                gate[i] = scale_sum<LAYOUT>(p, part.gate, tile_row, row, column, gate[i]);
        }
        ln_finish(part.epilogue, row, column, up[i], gate[i]);
    }
}

template <int LAYOUT, int N8_TILES, int AHEAD, bool GATE, bool PRECISE>
static __global__ void
__launch_bounds__(MMA_THREADS, N8_TILES == 1 || (N8_TILES == 2 && LAYOUT == LN_LAYOUT_BF16) ? 2 : 1)
    mma_gemm(const __grid_constant__ ln_gemm_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N8_TILES > HOPPER_EIGHTS)
        __trap();
    else
#endif
        compute_tile<LAYOUT, N8_TILES, AHEAD, GATE, PRECISE>(p);
}

/* ---- launching ------------------------------------------------------------------------------ */

template <int LAYOUT, int N8_TILES, bool GATE, bool PRECISE>
static int launch(const ln_gemm_args &args, cudaStream_t stream) {
    constexpr int AHEAD = units_in_flight<LAYOUT, N8_TILES, GATE>();
    dim3 grid(ln_gemm_output_tiles(args, LN_WEIGHT_TILE_ROWS),
              ln_ceil_div(args.n_rows, 8 * N8_TILES));
    return ln_pdl_launch(mma_gemm<LAYOUT, N8_TILES, AHEAD, GATE, PRECISE>, grid, MMA_THREADS, 0,
                         stream, args);
}

template <int LAYOUT, bool GATE, bool PRECISE>
static int launch_rows(const ln_gemm_args &args, cudaStream_t stream) {
    int most = ln_has_sm90a_code() ? (int)HOPPER_EIGHTS : (int)MAX_EIGHTS;
    if (args.n_rows <= 8 || most == 1)
        return launch<LAYOUT, 1, GATE, PRECISE>(args, stream);
    if (args.n_rows <= 16)
        return launch<LAYOUT, 2, GATE, PRECISE>(args, stream);
    if (args.n_rows <= 32)
        return launch<LAYOUT, 4, GATE, PRECISE>(args, stream);
    return launch<LAYOUT, MAX_EIGHTS, GATE, PRECISE>(args, stream);
}

template <int LAYOUT> static int launch_layout(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch_rows<LAYOUT, true, true>(args, stream)
                            : launch_rows<LAYOUT, false, true>(args, stream);
    return has_gate ? launch_rows<LAYOUT, true, false>(args, stream)
                    : launch_rows<LAYOUT, false, false>(args, stream);
}

static constexpr bool is_mma_layout(int layout) {
    return layout != LN_LAYOUT_F8_ROW;
}

int ln_gemm_mma_small_m(int layout, const ln_gemm_args &args, cudaStream_t stream) {
    return ln_dispatch_layout<is_mma_layout>(
        layout, [&](auto l) { return launch_layout<decltype(l)::LAYOUT>(args, stream); });
}
