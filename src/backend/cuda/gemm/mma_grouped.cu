/* Grouped GEMM: Y = X W^T with its epilogue, one W for each group of rows (experts, heads), by
 * mma.sync (mma_small_m.cuh), and the choice of WGMMA (sm90_grouped.cu) where groups have many
 * rows. The order of every sum is that of mma_small_m.cu, however many rows a group has.
 *
 * Grid: rows of weight tiles, slot after slot of 8 * N8_TILES rows of a group, so that the matrices
 * of groups without rows are not read. Block: 8 warps, split-K. Bytes: W of the groups that have
 * rows, once for each slot. */
#include "backend/cuda/activations/convert.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/mma_small_m.cuh"
#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/weights/dispatch.cuh"

enum {
    SHORT_ROWS = 8, /* of weight tiles, of a block, where K is short; half where slots are few */
    SHORT_UNITS = 4 /* whose weights are under way there */
};

template <int N8_TILES>
static __device__ __forceinline__ void
find_rows(const ln_grouped_args &a, const ln_group_slot &slot, act_rows<N8_TILES> &rows) {
    unsigned lane = threadIdx.x % LN_WARP, cols = (unsigned)a.p.x.cols;
    unsigned per_x = (unsigned)a.p.rows_per_x, last = slot.n - 1;
#pragma unroll
    for (int n8 = 0; n8 < N8_TILES; n8++) {
        unsigned own = (unsigned)ln_slot_row(a.groups.rows, slot, min(n8 * 8 + lane / 4, last));
        rows.own[n8] = own / per_x * cols;
#pragma unroll
        for (int i = 0; i < 2; i++) /* of the lane that has the row */
            rows.scales[n8][i] =
                __shfl_sync(0xffffffffu, rows.own[n8], (int)(lane % 4 * 2 + i) * 4);
    }
}

/* A result of a gated linear without biases goes to where the next linear reads it. */
static __device__ __forceinline__ void finish_converted(const ln_grouped_args &a,
                                                        const ln_epilogue &e, size_t row,
                                                        size_t column, float up, float gate) {
    float y = ln_epilogue_value(e, up, gate, 0.0f, 0.0f, 0.0f);
    size_t at = row * a.p.to.cols + column;
    a.p.to.bf16[at] = __float2bfloat16_rn(y);
    if (a.p.to.lo != NULL)
        a.p.to.lo[at] = __float2bfloat16_rn(y - ln_round_to_bf16(y));
    if (!a.p.leaves_out)
        e.out[row * e.out_stride + column] = y;
}

/* The sums of a row of weight tiles become results. */
template <int LAYOUT, int N8_TILES, bool GATE>
static __device__ __forceinline__ void
finish_rows(const ln_grouped_args &a, const ln_group_slot &slot, const ln_gemm_part &part,
            unsigned tile_row, float *up, float *gate) {
#pragma unroll
    for (int i = 0; i < (N8_TILES + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * MMA_THREADS;
        size_t column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + element % LN_WEIGHT_TILE_ROWS;
        if (element / LN_WEIGHT_TILE_ROWS >= slot.n || column >= part.epilogue.n_out)
            continue;
        size_t row = ln_slot_row(a.groups.rows, slot, element / LN_WEIGHT_TILE_ROWS);
        if constexpr (ln_weight_tile_has_act_row_scales(LAYOUT)) {
            up[i] = scale_sum<LAYOUT>(a.p, part.weight, tile_row, row, column, up[i]);
            if constexpr (GATE)
                gate[i] = scale_sum<LAYOUT>(a.p, part.gate, tile_row, row, column, gate[i]);
        }
        if constexpr (GATE && LAYOUT == LN_LAYOUT_BF16) {
            if (a.p.converts) {
                finish_converted(a, part.epilogue, row, column, up[i], gate[i]);
                continue;
            }
        }
        ln_finish(part.epilogue, row, column, up[i], gate[i]);
    }
}

static __device__ __forceinline__ unsigned tile_rows_of(const ln_grouped_args &a) {
    return ((unsigned)a.p.parts[0].epilogue.n_out + LN_WEIGHT_TILE_ROWS - 1) / LN_WEIGHT_TILE_ROWS;
}

template <int LAYOUT, int N8_TILES, int AHEAD, bool GATE, bool PRECISE>
static __global__ void
__launch_bounds__(MMA_THREADS, N8_TILES == 1 || (N8_TILES == 2 && LAYOUT == LN_LAYOUT_BF16) ? 2 : 1)
    mma_grouped_gemm(const __grid_constant__ ln_grouped_args a) {
    __shared__ split_sums<N8_TILES> shared;
    ln_pdl_launch_and_wait();
    float up_sum[N8_TILES][4] = {}, gate_sum[N8_TILES][4] = {};
    float up[(N8_TILES + 1) / 2] = {}, gate[(N8_TILES + 1) / 2] = {};
    ln_gemm_part part = a.p.parts[0];
    unsigned tile_rows = tile_rows_of(a), tile_row = blockIdx.x % tile_rows;
    ln_group_slot slot =
        ln_find_slot<8 * N8_TILES>(a.groups.rows, a.p.n_rows, blockIdx.x / tile_rows);
    if (slot.n == 0)
        return;
    ln_take_group(a.groups, slot.group, part);
    weight_split<LAYOUT, AHEAD, GATE> split;
    begin_split<LAYOUT>(a.p, part.weight, part.gate, tile_row, split);
    act_rows<N8_TILES> rows;
    find_rows<N8_TILES>(a, slot, rows);
    multiply_split<LAYOUT, N8_TILES, AHEAD, GATE, PRECISE>(a.p.x, rows, part.precise, split, up_sum,
                                                           gate_sum);
    add_splits<LAYOUT, N8_TILES>(shared, up_sum, up);
    if constexpr (GATE)
        add_splits<LAYOUT, N8_TILES>(shared, gate_sum, gate);
    finish_rows<LAYOUT, N8_TILES, GATE>(a, slot, part, tile_row, up, gate);
}

typedef struct short_args {
    ln_grouped_args grouped;
    unsigned rows; /* of weight tiles, of a block */
} short_args;

/* The same where a warp's K split has no more than UNITS units: a block has several rows of
 * weight tiles one after the other, of which the weights of DEPTH are under way. */
template <int LAYOUT, int N8_TILES, int UNITS, bool PRECISE>
static __global__ void __launch_bounds__(MMA_THREADS, 2)
    mma_grouped_short(const __grid_constant__ short_args args) {
    enum { DEPTH = SHORT_UNITS / UNITS };
    const ln_grouped_args &a = args.grouped;
    __shared__ split_sums<N8_TILES> shared;
    ln_pdl_launch_and_wait();
    ln_gemm_part part = a.p.parts[0];
    unsigned tile_rows = tile_rows_of(a), n = args.rows, per_slot = (tile_rows + n - 1) / n;
    unsigned tile_row = blockIdx.x % per_slot * n, end = min(tile_row + n, tile_rows);
    ln_group_slot slot =
        ln_find_slot<8 * N8_TILES>(a.groups.rows, a.p.n_rows, blockIdx.x / per_slot);
    if (slot.n == 0)
        return;
    ln_take_group(a.groups, slot.group, part);
    weight_split<LAYOUT, UNITS, false> splits[DEPTH];
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
        if (tile_row + i < end)
            begin_split<LAYOUT>(a.p, part.weight, NULL, tile_row + i, splits[i]);
    act_rows<N8_TILES> rows;
    find_rows<N8_TILES>(a, slot, rows);
    for (; tile_row < end; tile_row += DEPTH)
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            unsigned at = tile_row + i;
            if (at >= end)
                break;
            float up_sum[N8_TILES][4] = {}, up[(N8_TILES + 1) / 2] = {},
                  gate[(N8_TILES + 1) / 2] = {};
            multiply_split<LAYOUT, N8_TILES, UNITS, false, PRECISE>(a.p.x, rows, part.precise,
                                                                    splits[i], up_sum, NULL);
            if (at + DEPTH < end)
                begin_split<LAYOUT>(a.p, part.weight, NULL, at + DEPTH, splits[i]);
            add_splits<LAYOUT, N8_TILES>(shared, up_sum, up);
            finish_rows<LAYOUT, N8_TILES, false>(a, slot, part, at, up, gate);
        }
}

/* Lists the slots of all groups, for kernels of activation tiles. Grid: a warp for each slot that
 * there may be. */
template <unsigned ROWS>
static __global__ void list_slots(const __grid_constant__ ln_grouped_args a) {
    ln_pdl_launch_and_wait();
    unsigned number = blockIdx.x * (MMA_THREADS / LN_WARP) + threadIdx.x / LN_WARP;
    if (number >= a.n_slots)
        return;
    ln_listed_slot listed = ln_find_in_list<ROWS>(a.groups.rows, a.p.n_rows, number);
    if (threadIdx.x % LN_WARP == 0)
        a.slots[number] = listed;
}

/* ---- launching ------------------------------------------------------------------------------ */

/* Of the types that small experts have. */
static constexpr bool has_short_kernel(int layout, int n8_tiles, bool gate) {
    return (layout == LN_LAYOUT_BF16 || layout == LN_LAYOUT_F8) && n8_tiles <= 2 && !gate;
}

template <int LAYOUT, int N8_TILES, int UNITS, bool PRECISE>
static int launch_short(const ln_grouped_args &grouped, size_t n_slots, cudaStream_t stream) {
    enum { FEW_SLOTS = 8 };
    unsigned rows = n_slots <= FEW_SLOTS ? SHORT_ROWS / 2 : SHORT_ROWS;
    short_args args = {grouped, rows};
    unsigned tile_rows = ln_gemm_output_tiles(grouped.p, LN_WEIGHT_TILE_ROWS);
    unsigned per_slot = ln_ceil_div(tile_rows, args.rows);
    return ln_pdl_launch(mma_grouped_short<LAYOUT, N8_TILES, UNITS, PRECISE>,
                         dim3((unsigned)n_slots * per_slot), MMA_THREADS, 0, stream, args);
}

template <int LAYOUT, int N8_TILES, bool GATE, bool PRECISE>
static int launch(const ln_grouped_args &args, cudaStream_t stream) {
    constexpr int AHEAD = units_in_flight<LAYOUT, N8_TILES, GATE>();
    size_t n_slots = ln_most_slots(args.groups.rows, args.p.n_rows, 8 * N8_TILES);
    size_t blocks = n_slots * ln_gemm_output_tiles(args.p, LN_WEIGHT_TILE_ROWS);
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if constexpr (has_short_kernel(LAYOUT, N8_TILES, GATE)) {
        constexpr unsigned PER_TILE = ln_weight_tile_cols(LAYOUT) / ln_lane_tile<LAYOUT>::UNIT;
        unsigned units = ln_ceil_div(args.p.n_tiles, LN_K_SPLITS) * PER_TILE;
        if (units == 1)
            return launch_short<LAYOUT, N8_TILES, 1, PRECISE>(args, n_slots, stream);
        if (units == 2)
            return launch_short<LAYOUT, N8_TILES, 2, PRECISE>(args, n_slots, stream);
    }
    return ln_pdl_launch(mma_grouped_gemm<LAYOUT, N8_TILES, AHEAD, GATE, PRECISE>,
                         dim3((unsigned)blocks), MMA_THREADS, 0, stream, args);
}

/* By the rows that a group has on average. */
template <int LAYOUT, bool GATE, bool PRECISE>
static int launch_rows(const ln_grouped_args &args, cudaStream_t stream) {
    size_t rows = args.p.n_rows / args.groups.rows.n_groups;
    if (rows <= 4)
        return launch<LAYOUT, 1, GATE, PRECISE>(args, stream);
    if (rows <= 24)
        return launch<LAYOUT, 2, GATE, PRECISE>(args, stream);
    return launch<LAYOUT, 8, GATE, PRECISE>(args, stream);
}

template <int LAYOUT> static int launch_layout(const ln_grouped_args &args, cudaStream_t stream) {
    bool has_gate = args.p.parts[0].gate != NULL;
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args.p))
            return has_gate ? launch_rows<LAYOUT, true, true>(args, stream)
                            : launch_rows<LAYOUT, false, true>(args, stream);
    return has_gate ? launch_rows<LAYOUT, true, false>(args, stream)
                    : launch_rows<LAYOUT, false, false>(args, stream);
}

static constexpr bool is_mma_layout(int layout) {
    return layout != LN_LAYOUT_F8_ROW;
}

static int launch_mma(int layout, const ln_grouped_args &args, cudaStream_t stream) {
    return ln_dispatch_layout<is_mma_layout>(
        layout, [&](auto l) { return launch_layout<decltype(l)::LAYOUT>(args, stream); });
}

/* ---- many rows: activation tiles by group -----------------------------------------------------
 */

template <unsigned ROWS> static int list(const ln_grouped_args &args, cudaStream_t stream) {
    return ln_pdl_launch(list_slots<ROWS>, dim3(ln_ceil_div(args.n_slots, MMA_THREADS / LN_WARP)),
                         MMA_THREADS, 0, stream, args);
}

static int launch_sm90(const ln_op_linear *p, ln_grouped_args &args, const ln_converted_act &x,
                       cudaStream_t stream) {
    int layout = (int)p->weight->layout;
    args.p.x = ln_act_view_of(&x);
    int code = args.p.x.rows_per_tile == 64 ? list<64>(args, stream) : list<128>(args, stream);
    if (code == 0)
        code = ln_act_convert_groups(&x, args.groups.rows, args.slots, args.p.rows_per_x, stream);
    return code != 0 ? code : ln_gemm_sm90_grouped(layout, args, stream);
}

/* ---- any number ------------------------------------------------------------------------------ */

static ln_grouped_args make_args(const ln_op_linear *p) {
    ln_grouped_args args = {};
    int layout = (int)p->weight->layout;
    args.p.n_parts = 1;
    args.p.n_tiles = (unsigned)(ln_weight_tile_padded_cols(layout, p->weight->n_cols) /
                                ln_weight_tile_cols(layout));
    args.p.n_rows = p->n_rows;
    args.p.rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    args.p.parts[0] = ln_gemm_make_part(p);
    args.groups.rows.n_groups = (unsigned)p->groups.n_groups;
    args.groups.rows.order = p->groups.order;
    args.groups.rows.starts = p->groups.starts;
    ln_describe_matrices(p->weight, p->groups.n_groups, &args.groups.weight);
    ln_describe_matrices(p->gate, p->groups.n_groups, &args.groups.gate);
    return args;
}

int ln_cuda_grouped_gemm(const ln_cuda_launch *launch, const ln_op *ops, ln_cuda_stream stream) {
    const ln_op_linear *p = &ops[launch->first].linear;
    ln_grouped_args args = make_args(p);
    const ln_converted_act &x = launch->x;
    args.p.x = ln_act_view_of(&x);
    args.p.converts = launch->converts_to;
    args.p.leaves_out = launch->leaves_out;
    if (launch->converts_to)
        args.p.to = ln_act_view_of(&launch->to);
    if (x.by_group) {
        args.slots = (ln_listed_slot *)ln_split_k_view(x.workspace, x.n_sms).partial;
        args.n_slots = (unsigned)(x.n_rows / ln_act_tile_rows((int)p->weight->layout));
        return launch_sm90(p, args, x, stream);
    }
    int code = launch->converts_x ? ln_act_convert(&x, stream) : 0;
    return code != 0 ? code : launch_mma((int)p->weight->layout, args, stream);
}
