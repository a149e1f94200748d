/* Linears of the fused decode kernel: mma.sync, of F8_ROW WGMMA, on weight tiles from the pipeline,
 * split-K over the eight warps of a group, reduction through shared memory, epilogue.
 *
 * The order of sums is that of gemm/mma_small_m.cuh and gemm/sm90_small_m_fp8.cu, whose functions
 * it shares (gemm/mma_fragments.cuh, ptx/wgmma_fp8_splits.cuh); the loop around them differs, as
 * tiles come from a pipeline that runs across linears. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_LINEAR_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_LINEAR_CUH

#include "backend/cuda/fused/decode_args.cuh"
#include "backend/cuda/fused/decode_mma.cuh"
#include "backend/cuda/fused/decode_pipeline.cuh"
#include "backend/cuda/ptx/wgmma_fp8_splits.cuh"

/* ---- products -------------------------------------------------------------------------------- */

/* Accumulates the next n tiles of the pipeline; kind: their own; is_last: of the task. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_mma_stage(const ln_decode_args &p, const ln_decode_weight_tiles *weights, PIPELINE *r,
                    int kind, unsigned n, const ln_act_view &x, const unsigned rows[3],
                    unsigned first_tile, bool precise, bool is_last, float sum[4]) {
    constexpr unsigned PER_TILE = ln_weight_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    const uint8_t *tiles = r->stages + r->stage * ln_decode_stage_bytes(KIND);
    ln_stage_wait(&r->barriers[r->stage], r->parity);
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        ln_decode_mma_f16_tiles(kind, tiles, n, x, rows[0], first_tile, sum);
    else
        ln_decode_mma_tiles<KIND>(tiles, n, x, rows, first_tile * PER_TILE, precise, sum);
    ln_decode_release_stage<KIND>(p, weights, is_last, r);
}

/* Whether a single row is multiplied by ln_decode_mma_blocks. */
template <int KIND, bool ONE> static __device__ constexpr bool ln_decode_has_block_mma(void) {
    return ONE && ln_traits_of(KIND).acts == LN_ACT_TYPE_INT8_BLOCK;
}

/* ln_decode_mma_stage of INT8 and INT4 for one row of x, whose blocks in a tile are the columns of
 * B operands. Column n of a product is of use where the A operand is block n, too, so that lanes t
 * have what becomes of blocks 2 t and 2 t + 1, with an eighth of the scales to multiply by. They
 * add it to the sums of rows of tiles g and g + 8 one after another; lanes t = 3 have these. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_mma_blocks(const ln_decode_args &p, const ln_decode_weight_tiles *weights, PIPELINE *r,
                     const ln_act_view &x, unsigned tile, bool is_last, float sum[4]) {
    enum { BLOCKS = (int)ln_weight_tile_cols(KIND) / LN_SCALE_BLOCK, PAIRS = BLOCKS / 2 };
    static_assert(BLOCKS == 8, "columns of a product");
    unsigned lane = threadIdx.x % LN_WARP, g = lane / 4, t = lane % 4;
    const int8_t *values = x.int8 + tile * (unsigned)ln_weight_tile_cols(KIND);
    const uint2 own = *(const uint2 *)(values + g / 2 * 64 + t * 16 + g % 2 * 8);
    const float2 x_scales = *(const float2 *)(x.scales + tile * BLOCKS + 2 * t);
    /* blocks i and i + 4 share a product's columns */
    const uint2 none = make_uint2(0, 0);
    const uint2 low = g < PAIRS ? own : none, high = g < PAIRS ? none : own;
    const uint8_t *at = r->stages + r->stage * ln_weight_tile_bytes(KIND);
    ln_stage_wait(&r->barriers[r->stage], r->parity);
    const uint32_t *scales = (const uint32_t *)(at + ln_weight_tile_scale_at(KIND, g, 0)) + t;
    const uint32_t w_scales[2] = {scales[0], scales[32]}; /* of rows g and g + 8 */
    float c[PAIRS][4], v[4];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        float *to = c[block % PAIRS];
        uint4 a;
        if constexpr (KIND == LN_LAYOUT_INT8)
            a = ((const uint4 *)at)[block * LN_WARP + lane];
        else
            a = ln_unpack_int4(((const uint4 *)at)[block / 2 * LN_WARP + lane], block);
        if (block < PAIRS)
            ln_mma_m16n8k32_int8(to, a, low.x, low.y);
        else
            ln_mma_int8_acc(to, a, high.x, high.y);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float w = ln_f16((uint16_t)(w_scales[i / 2] >> i % 2 * 16));
        v[i] = fmaf(t % 2 ? c[2 + i % 2][i] : c[i % 2][i], w, -LN_INT_START * w);
    }
    ln_decode_release_stage<KIND>(p, weights, is_last, r);
#pragma unroll
    for (int turn = 0; turn < 4; turn++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            float before = __shfl_sync(0xffffffffu, sum[i], (t + 3) % 4, 4);
            sum[i] = fmaf(v[i + 1], x_scales.y, fmaf(v[i], x_scales.x, before));
        }
}

static_assert((int)LN_FP8_BEHIND == (int)LN_DECODE_FP8_BEHIND, "as the planner has it");

/* The K split [begin, end) of the pipeline's next F8_ROW tiles of n along K. The four warps of a
 * WGMMA go on together: those whose K splits are shorter multiply on, with their sums kept. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_wgmma_split(const ln_decode_args &p, const ln_decode_weight_tiles *weights, PIPELINE *r,
                      const ln_act_view &x, unsigned n, unsigned begin, unsigned end, bool is_last,
                      float own[4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    const unsigned n_rows = x.n_untiled, per_split = (n + LN_K_SPLITS - 1) / LN_K_SPLITS;
    const unsigned split_bytes = per_split * (unsigned)ln_weight_tile_cols(KIND) * n_rows;
    const unsigned first = threadIdx.x / LN_WARP % LN_K_SPLITS / LN_FP8_SPLITS * LN_FP8_SPLITS;
    const int8_t *from = x.int8 + first * split_bytes;
    constexpr unsigned TILES = ln_decode_tile_copy_of(KIND).tiles_per_copy;
    ln_fp8_tile w[TILES] = {};
    float sum[16] = {};
    for (unsigned first_tile = 0; first_tile * LN_K_SPLITS < n; first_tile += TILES) {
        if (begin + first_tile < end) {
            const uint8_t *at = r->stages + r->stage * ln_decode_stage_bytes(KIND);
            ln_stage_wait(&r->barriers[r->stage], r->parity);
#pragma unroll
            for (unsigned i = 0; i < TILES; i++)
#pragma unroll
                for (int k = 0; k < LN_FP8_STEPS; k++)
                    w[i].steps[k] = ln_fp8_take_step(at + i * ln_weight_tile_bytes(KIND), k);
            ln_decode_release_stage<KIND>(p, weights, is_last && begin + first_tile + TILES >= end,
                                          r);
        }
#pragma unroll
        for (unsigned i = 0; i < TILES; i++) {
            unsigned tile = first_tile + i;
            if (tile * LN_K_SPLITS >= n)
                break;
            ln_wgmma_fence();
            ln_fp8_add_tile(w[i], from, tile, n_rows, split_bytes, sum);
            ln_wgmma_commit();
            ln_fp8_finish_tile(w[i]);
            ln_wgmma_keep(sum);
            if (begin + tile + 1 == end)
                ln_fp8_select_own(sum, own);
        }
    }
#endif
}

/* ---- split-K reduction ----------------------------------------------------------------------- */

/* Split-K reduction in shared memory: the partial sums of a group's 8 warps, or of both groups with
 * a gate. Buffers have full and empty mbarriers: warps store partial sums and go on, the warp with
 * the epilogue waits until a buffer is full, and writers only until it is empty again. */
enum {
    LN_DECODE_GROUP_BUFFERS = 2,
    LN_DECODE_GATE_BUFFERS = 4,
    LN_DECODE_REDUCTIONS = LN_DECODE_GROUPS + 1 /* of teams, and of the block */
};

typedef struct ln_decode_reduction {
    uint64_t full[LN_DECODE_GATE_BUFFERS], empty[LN_DECODE_GATE_BUFFERS]; /* barriers */
} ln_decode_reduction;

/* Reductions that this warp has taken part in so far. */
typedef struct ln_decode_reduction_counts {
    unsigned by_group, by_block;
} ln_decode_reduction_counts;

/* Lanes of a warp that store partial sums: a lane has those of two rows. */
static __device__ __forceinline__ unsigned ln_decode_writer_lanes(unsigned n_rows) {
    return LN_WARP / 4 * ((n_rows + 1) / 2);
}

/* By one thread, before the block's first barrier. Every writer of partial sums arrives, and every
 * reader, so that race checkers can follow. */
static __device__ __forceinline__ void ln_decode_init_reductions(unsigned n_rows,
                                                                 ln_decode_reduction *reductions) {
    for (unsigned m = 0; m < LN_DECODE_REDUCTIONS; m++)
        for (unsigned i = 0; i < LN_DECODE_GATE_BUFFERS; i++) {
            unsigned n_warps = m == LN_DECODE_GROUPS ? LN_DECODE_WARPS : LN_K_SPLITS;
            ln_stage_init_for(&reductions[m].full[i], n_warps * ln_decode_writer_lanes(n_rows));
            ln_stage_init_for(&reductions[m].empty[i], n_rows * LN_WEIGHT_TILE_ROWS);
        }
}

/* Floats of the partial sums of all warps of a group. */
static __host__ __device__ __forceinline__ unsigned ln_decode_partial_floats(unsigned n_rows) {
    return LN_K_SPLITS * LN_WEIGHT_TILE_ROWS * (n_rows | 1);
}

/* Floats of all reduction buffers. */
static __host__ __device__ __forceinline__ unsigned ln_decode_reduction_floats(unsigned n_rows,
                                                                               bool has_gate) {
    return (has_gate ? 2 * LN_DECODE_GATE_BUFFERS : LN_DECODE_GROUPS * LN_DECODE_GROUP_BUFFERS) *
           ln_decode_partial_floats(n_rows);
}

/* Stores a warp's partial sums to a reduction buffer. */
template <int KIND, bool ONE>
static __device__ __forceinline__ void
ln_decode_store_partials(unsigned n_rows, float *sums, const float sum[4], uint64_t *full) {
    unsigned lane = threadIdx.x % LN_WARP, width = n_rows | 1, t = lane % 4;
    unsigned k_split = threadIdx.x / LN_WARP % LN_K_SPLITS;
    unsigned first = (ln_decode_has_block_mma<KIND, ONE>() ? 3 - t : t) * 2;
#pragma unroll
    for (int i = 0; i < 4; i += ONE ? 2 : 1) {
        unsigned column = lane / 4 + i / 2 * 8, row = first + i % 2;
        if (row < n_rows)
            sums[(k_split * LN_WEIGHT_TILE_ROWS + column) * width + row] = sum[i];
    }
    if (first < n_rows)
        ln_stage_arrive(full);
}

/* What the epilogue adds to a sum, loaded ahead of it. */
typedef struct ln_decode_epilogue {
    float bias, gate_bias, residual;
    float scale, gate_scale; /* of the output column */
} ln_decode_epilogue;

/* The scales of an output column, which lie behind the K tiles of its output tile, or 1. */
static __device__ __forceinline__ void ln_decode_load_scales(const ln_gemm_part &part,
                                                             unsigned n_tiles, unsigned output_tile,
                                                             ln_decode_epilogue *end) {
    const unsigned kind = part.kind, column = threadIdx.x % LN_WEIGHT_TILE_ROWS;
    end->scale = end->gate_scale = 1.0f;
    if (!ln_weight_tile_has_row_scales(kind))
        return;
    size_t at = output_tile * ln_weight_tile_row_bytes(kind, n_tiles);
    end->scale = ln_weight_tile_row_scales(kind, part.weight + at, n_tiles)[column];
    if (part.gate != NULL)
        end->gate_scale = ln_weight_tile_row_scales(kind, part.gate + at, n_tiles)[column];
}

static __device__ __forceinline__ void
ln_decode_load_epilogue(const ln_epilogue &e, size_t row, size_t column, ln_decode_epilogue *end) {
    end->bias = e.bias != NULL ? e.bias[column] : 0.0f;
    end->gate_bias = e.gate_bias != NULL ? e.gate_bias[column] : 0.0f;
    end->residual =
        e.residual != NULL ? ln_load_relaxed(e.residual + row * e.n_out + column) : 0.0f;
}

/* Epilogue of a sum u with its gate's g. handoff: where it is handed off, or NULL. */
static __device__ __forceinline__ void ln_decode_store_output(const ln_epilogue &e, float *handoff,
                                                              bool residual_is_handed_off,
                                                              size_t row, size_t column, float u,
                                                              float g, ln_decode_epilogue end) {
    while (residual_is_handed_off && ln_handoff_is_empty(end.residual))
        end.residual = ln_load_relaxed(e.residual + row * e.n_out + column);
    float y = ln_epilogue_value(e, u, g, end.bias, end.gate_bias, end.residual);
    if (handoff != NULL)
        ln_handoff_store(handoff + row * e.out_stride + column, y);
    if (e.out != NULL)
        e.out[row * e.out_stride + column] = y;
}

/* ---- a task ---------------------------------------------------------------------------------- */

/* An output tile of a warp's group, and the row of it whose epilogue is the warp's. */
typedef struct ln_decode_output_tile {
    unsigned part, column; /* of the part: this lane's */
    unsigned row;          /* whose epilogue is this warp's, if there is such a row */
    bool is_there, finishes, precise;
    uint8_t kind; /* of tiles */
    ln_decode_epilogue end;
} ln_decode_output_tile;

/* The part that an output tile is of; the tile becomes its number there. */
static __device__ __forceinline__ unsigned ln_decode_find_part(const ln_decode_linear &l,
                                                               unsigned *output_tile) {
    unsigned part = 0;
    for (; part + 1 < l.n_parts; part++) {
        unsigned n = ((unsigned)l.parts[part].epilogue.n_out + LN_WEIGHT_TILE_ROWS - 1) /
                     LN_WEIGHT_TILE_ROWS;
        if (*output_tile < n)
            break;
        *output_tile -= n;
    }
    return part;
}

/* n_reduced: reductions that the warp has taken part in. Warps alternate at epilogues, so that none
 * falls behind. */
template <int KIND>
static __device__ __forceinline__ ln_decode_output_tile ln_decode_begin_tile(
    const ln_decode_linear &l, unsigned n_rows, unsigned round, unsigned n_reduced) {
    ln_decode_output_tile at = {};
    const unsigned lane = threadIdx.x % LN_WARP;
    const bool has_gate = l.has_gate;
    unsigned output_tile = ln_decode_tile_of_round(has_gate, round);
    at.is_there = output_tile < l.n_output_tiles;
    if (!at.is_there)
        return at;
    at.part = ln_decode_find_part(l, &output_tile);
    const ln_gemm_part &part = l.parts[at.part];
    at.row = (threadIdx.x / LN_WARP - n_reduced) % (has_gate ? LN_DECODE_WARPS : LN_K_SPLITS);
    at.column = output_tile * LN_WEIGHT_TILE_ROWS + lane;
    at.finishes = at.row < n_rows && lane < LN_WEIGHT_TILE_ROWS && at.column < part.epilogue.n_out;
    at.precise = part.precise;
    at.kind = part.kind;
    if (at.finishes)
        ln_decode_load_epilogue(part.epilogue, at.row, at.column, &at.end);
    if (at.finishes && ln_weight_tile_has_act_row_scales(KIND))
        ln_decode_load_scales(part, l.k_tiles, output_tile, &at.end);
    return at;
}

/* All output tiles of a group, `at` being the first. ONE: a single row, so accumulators of other
 * rows are not stored. */
template <int KIND, bool ONE, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_multiply_tiles(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                         const ln_decode_linear &l, const ln_act_view &x, float *all_sums,
                         ln_decode_reduction *reductions, PIPELINE *r,
                         ln_decode_reduction_counts *counts, ln_decode_output_tile at) {
    const unsigned lane = threadIdx.x % LN_WARP, group = threadIdx.x / LN_DECODE_GROUP_THREADS;
    const unsigned n_rows = ONE ? 1 : p.n_rows, last = n_rows - 1, cols = (unsigned)x.cols;
    const unsigned rows[3] = {min(lane / 4, last) * cols, min(lane % 4 * 2, last) * cols,
                              min(lane % 4 * 2 + 1, last) * cols};
    const unsigned per_sum = ln_decode_partial_floats(n_rows);
    const bool has_gate = l.has_gate;
    const unsigned buffers = has_gate ? LN_DECODE_GATE_BUFFERS : LN_DECODE_GROUP_BUFFERS;
    ln_decode_reduction &reduction = reductions[has_gate ? LN_DECODE_GROUPS : group];
    unsigned n_reduced = has_gate ? counts->by_block : counts->by_group, begin, end;
    ln_decode_k_range(l.k_tiles, &begin, &end);
    for (unsigned round = 0; at.is_there;) {
        const bool is_last = ln_decode_tile_of_round(has_gate, round + 1) >= l.n_output_tiles;
        float sum[4] = {};
        const unsigned step = ln_decode_find_tile_copy<KIND>(at.kind).tiles_per_copy;
        if constexpr (KIND == LN_LAYOUT_F8_ROW)
            ln_decode_wgmma_split<KIND>(p, weights, r, x, l.k_tiles, begin, end, is_last, sum);
        for (unsigned tile = begin; KIND != LN_LAYOUT_F8_ROW && tile < end; tile += step)
            if constexpr (ln_decode_has_block_mma<KIND, ONE>())
                ln_decode_mma_blocks<KIND>(p, weights, r, x, tile, is_last && tile + 1 == end, sum);
            else
                ln_decode_mma_stage<KIND>(p, weights, r, at.kind, min(step, end - tile), x, rows,
                                          tile, at.precise, is_last && tile + step >= end, sum);
        unsigned buffer = n_reduced % buffers, parity = n_reduced / buffers % 2;
        float *sums = all_sums + (has_gate ? 2 * buffer : group * buffers + buffer) * per_sum;
        ln_stage_wait(&reduction.empty[buffer], parity ^ 1);
        ln_decode_store_partials<KIND, ONE>(n_rows, sums + (has_gate ? group * per_sum : 0), sum,
                                            &reduction.full[buffer]);
        if (at.row < n_rows) {
            const ln_epilogue e = l.parts[at.part].epilogue; /* loaded ahead of the wait */
            float *const handoff = l.handoff[at.part];
            const bool residual_is_handed_off = l.residual_is_handed_off;
            ln_stage_wait(&reduction.full[buffer], parity);
            if (at.finishes) {
                float u = ln_decode_reduce<KIND>(sums, lane, at.row, n_rows | 1), g = 0.0f;
                if (has_gate)
                    g = ln_decode_reduce<KIND>(sums + per_sum, lane, at.row, n_rows | 1);
                if (ln_weight_tile_has_act_row_scales(KIND)) {
                    const float scale = x.scales[at.row];
                    u *= at.end.scale * scale, g *= at.end.gate_scale * scale;
                }
                ln_decode_store_output(e, handoff, residual_is_handed_off, at.row, at.column, u, g,
                                       at.end);
            }
            if (lane < LN_WEIGHT_TILE_ROWS)
                ln_stage_arrive(&reduction.empty[buffer]);
        }
        at = ln_decode_begin_tile<KIND>(l, n_rows, ++round, ++n_reduced);
    }
    *(has_gate ? &counts->by_block : &counts->by_group) = n_reduced;
}

#endif
