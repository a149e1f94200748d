/* y = x W^T with its epilogue, one W in tiles for each group of rows: experts and heads, on tensor
 * cores (mma_small_m.cuh). Every sum has the order of tile_linear, however many rows a group has.
 *
 * Grid: rows of tiles, slot after slot of 8 * GROUPS rows (groups.cuh), so that the matrices
 * of groups without rows are not read. Block: eight warps. Where groups have many rows WGMMA
 * multiplies (sm90_grouped.cu). */
#include "backend/cuda/gemm/groups.cuh"
#include "backend/cuda/gemm/mma_small_m.cuh"
#include "backend/cuda/launch.h"

template <int GROUPS>
static __device__ __forceinline__ void
find_rows(const ln_grouped_args &a, const ln_group_slot &slot, lane_rows<GROUPS> &rows) {
    unsigned lane = threadIdx.x % LN_WARP, cols = (unsigned)a.p.x.cols;
    unsigned per_x = (unsigned)a.p.rows_per_x, last = slot.n - 1;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        unsigned own = (unsigned)ln_slot_row(a.groups, slot, min(group * 8 + lane / 4, last));
        rows.own[group] = own / per_x * cols;
#pragma unroll
        for (int i = 0; i < 2; i++) /* of the lane that has the row */
            rows.scales[group][i] =
                __shfl_sync(0xffffffffu, rows.own[group], (int)(lane % 4 * 2 + i) * 4);
    }
}

template <int KIND, int GROUPS, int AHEAD, bool GATE, bool PRECISE>
static __global__ void
__launch_bounds__(TILE_THREADS, GROUPS == 1 || (GROUPS == 2 && KIND == LN_LAYOUT_BF16) ? 2 : 1)
    tile_group(const __grid_constant__ ln_grouped_args a) {
    __shared__ slices<GROUPS> shared;
    ln_pdl_launch_and_wait();
    float up_sum[GROUPS][4] = {}, gate_sum[GROUPS][4] = {};
    float up[(GROUPS + 1) / 2] = {}, gate[(GROUPS + 1) / 2] = {};
    ln_gemm_part part = a.p.parts[0];
    unsigned tile_rows = ((unsigned)part.epilogue.n_out + LN_WEIGHT_TILE_ROWS - 1) / LN_WEIGHT_TILE_ROWS;
    unsigned tile_row = blockIdx.x % tile_rows;
    ln_group_slot slot = ln_find_slot<8 * GROUPS>(a.groups, a.p.n_rows, blockIdx.x / tile_rows);
    if (slot.n == 0)
        return;
    ln_take_group(a.groups, slot.group, part);
    lane_slice<KIND, AHEAD, GATE> slice;
    begin_slice<KIND>(a.p, part.weight, part.gate, tile_row, slice);
    lane_rows<GROUPS> rows;
    find_rows<GROUPS>(a, slot, rows);
    multiply_slice<KIND, GROUPS, AHEAD, GATE, PRECISE>(a.p.x, rows, part.precise, slice, up_sum,
                                                       gate_sum);
    merge<KIND, GROUPS>(shared, up_sum, up);
    if constexpr (GATE)
        merge<KIND, GROUPS>(shared, gate_sum, gate);
#pragma unroll
    for (int i = 0; i < (GROUPS + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * TILE_THREADS;
        size_t column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + element % LN_WEIGHT_TILE_ROWS;
        if (element / LN_WEIGHT_TILE_ROWS >= slot.n || column >= part.epilogue.n_out)
            continue;
        size_t row = ln_slot_row(a.groups, slot, element / LN_WEIGHT_TILE_ROWS);
        if constexpr (ln_weight_tile_has_act_row_scales(KIND)) {
            up[i] = scale_sum<KIND>(a.p, part.weight, tile_row, row, column, up[i]);
            if constexpr (GATE)
                gate[i] = scale_sum<KIND>(a.p, part.gate, tile_row, row, column, gate[i]);
        }
        ln_finish(part.epilogue, row, column, up[i], gate[i]);
    }
}

/* Grid: a warp for each slot that there may be. */
template <unsigned ROWS>
static __global__ void list_slots(const __grid_constant__ ln_grouped_args a) {
    ln_pdl_launch_and_wait();
    unsigned number = blockIdx.x * (TILE_THREADS / LN_WARP) + threadIdx.x / LN_WARP;
    if (number >= a.n_slots)
        return;
    ln_listed_slot listed = ln_find_in_list<ROWS>(a.groups, a.p.n_rows, number);
    if (threadIdx.x % LN_WARP == 0)
        a.slots[number] = listed;
}

/* ---- launching ------------------------------------------------------------------------------ */

template <int KIND, int GROUPS, bool GATE, bool PRECISE>
static int launch(const ln_grouped_args &args, cudaStream_t stream) {
    constexpr int AHEAD = units_ahead<KIND, GROUPS, GATE>();
    size_t blocks = ln_most_slots(args.groups, args.p.n_rows, 8 * GROUPS) *
                    ln_gemm_output_tiles(args.p, LN_WEIGHT_TILE_ROWS);
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return ln_pdl_launch(tile_group<KIND, GROUPS, AHEAD, GATE, PRECISE>, dim3((unsigned)blocks),
                     TILE_THREADS, 0, stream, args);
}

/* By the rows that a group has on average. */
template <int KIND, bool GATE, bool PRECISE>
static int launch_rows(const ln_grouped_args &args, cudaStream_t stream) {
    size_t rows = args.p.n_rows / args.groups.n_groups;
    if (rows <= 4)
        return launch<KIND, 1, GATE, PRECISE>(args, stream);
    if (rows <= 24)
        return launch<KIND, 2, GATE, PRECISE>(args, stream);
    return launch<KIND, 8, GATE, PRECISE>(args, stream);
}

template <int KIND> static int launch_kind(const ln_grouped_args &args, cudaStream_t stream) {
    bool has_gate = args.p.parts[0].gate != NULL;
    if constexpr (KIND == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args.p))
            return has_gate ? launch_rows<KIND, true, true>(args, stream)
                            : launch_rows<KIND, false, true>(args, stream);
    return has_gate ? launch_rows<KIND, true, false>(args, stream)
                    : launch_rows<KIND, false, false>(args, stream);
}

static int launch_tiles(int kind, const ln_grouped_args &args, cudaStream_t stream) {
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

/* ---- many rows: panels by group -------------------------------------------------------------- */

template <unsigned ROWS> static int list(const ln_grouped_args &args, cudaStream_t stream) {
    return ln_pdl_launch(list_slots<ROWS>, dim3(ln_ceil_div(args.n_slots, TILE_THREADS / LN_WARP)),
                     TILE_THREADS, 0, stream, args);
}

static int multiply_panels(const ln_op_linear *p, ln_grouped_args &args, const ln_converted_act &x,
                           cudaStream_t stream) {
    int kind = (int)p->weight->layout;
    args.p.x = ln_act_view_of(&x);
    int code = args.p.x.panel == 64 ? list<64>(args, stream) : list<128>(args, stream);
    if (code == 0)
        code = ln_act_convert_groups(&x, args.groups, args.slots, args.p.rows_per_x, stream);
    return code != 0 ? code : ln_gemm_sm90_grouped(kind, args, stream);
}

/* ---- any number ------------------------------------------------------------------------------ */

static ln_grouped_args make_args(const ln_op_linear *p) {
    ln_grouped_args args = {};
    int kind = (int)p->weight->layout;
    args.p.n_parts = 1;
    args.p.n_tiles = (unsigned)(ln_weight_tile_padded_cols(kind, p->weight->n_cols) / ln_weight_tile_cols(kind));
    args.p.n_rows = p->n_rows;
    args.p.rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    args.p.parts[0] = ln_gemm_make_part(p);
    args.groups.n_groups = (unsigned)p->groups.n_groups;
    args.groups.order = p->groups.order;
    args.groups.starts = p->groups.starts;
    ln_describe_matrices(p->weight, p->groups.n_groups, &args.groups.weight);
    ln_describe_matrices(p->gate, p->groups.n_groups, &args.groups.gate);
    return args;
}

int ln_cuda_grouped_gemm(const ln_cuda_launch *launch, const ln_op *ops, ln_cuda_stream stream) {
    const ln_op_linear *p = &ops[launch->first].linear;
    ln_grouped_args args = make_args(p);
    const ln_converted_act &x = launch->x;
    args.p.x = ln_act_view_of(&x);
    if (x.by_group) {
        args.slots = (ln_listed_slot *)((float *)x.memory + LN_SPLIT_K_FLAGS);
        args.n_slots = (unsigned)(x.n_rows / ln_act_tile_rows((int)p->weight->layout));
        return multiply_panels(p, args, x, stream);
    }
    int code = launch->converts_x ? ln_act_convert(&x, stream) : 0;
    return code != 0 ? code : launch_tiles((int)p->weight->layout, args, stream);
}
