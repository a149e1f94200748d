/* What the experts of one token do, as parts of kernels of persistent CTAs (mixture.cu,
 * decode_mixture.cu): once a block knows the chosen experts it has output tiles of gate and up, of
 * one expert at a time, then hands the hidden rows on value by value (decode_handoff.cuh), and has
 * output tiles of down for all experts, whose results it sums. Each warp's pipeline brings the
 * weights in this order: a kernel says with ln_mixture_release_stage how its own goes on.
 *
 * Block 512: two groups of 8 warps, one for each K split. Of gate and up one group has up and the
 * other gate; of down the groups take turns with the experts. The order of every sum is that of
 * mma_grouped.cu, route and combine. */
#ifndef LN_BACKEND_CUDA_FUSED_MIXTURE_EXPERTS_CUH
#define LN_BACKEND_CUDA_FUSED_MIXTURE_EXPERTS_CUH

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/fused/decode_absmax.cuh"
#include "backend/cuda/fused/decode_handoff.cuh"
#include "backend/cuda/fused/decode_mma.cuh"
#include "backend/cuda/fused/decode_pipeline.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/route.cuh"

/* A linear of experts. */
typedef struct ln_mixture_linear {
    ln_gemm_part part; /* without matrices */
    ln_matrices weight, gate;
    unsigned n_cols, k_tiles, x_cols; /* as of ln_decode_linear */
    unsigned n_output_tiles;          /* of an expert */
} ln_mixture_linear;

/* All that happens from the choice on. What other blocks of the kernel hand off is polled; what
 * `combine` names is where it is read, and `out` where others read the sum, or NULL. */
typedef struct ln_mixture {
    ln_op_route route;
    const int32_t *token; /* its id */
    ln_op_group group;
    ln_mixture_linear up, down;
    float *hidden; /* [n_used][columns of down], handed off */
    ln_op_combine combine;
    bool residual_is_handed_off, shared_is_handed_off, shared_gate_is_handed_off;
    float *out_handoff; /* or NULL */
} ln_mixture;

enum { LN_MIXTURE_SUMS = LN_K_SPLITS * LN_WEIGHT_TILE_ROWS }; /* of an output tile: [8][16] */

/* Work memory; plan/mixture.c counts its bytes. */
typedef struct ln_mixture_memory {
    uint8_t *x, *hidden; /* activations: of gate and up, and of down */
    float *plain;        /* x in float32, until there are hidden rows; of a router's kernel */
    float *logits;       /* [n_experts], of a router's kernel */
    float *scores;       /* [ln_route_floats] */
    float *up_sums;      /* [2][up, gate][LN_MIXTURE_SUMS], by turns */
    float *down_sums;    /* [n_used][LN_MIXTURE_SUMS] */
    float *results;      /* [n_used][16] of down */
} ln_mixture_memory;

static __host__ __device__ __forceinline__ size_t ln_mixture_align(size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

/* has_router: the kernel makes the router's logits, too. */
static __device__ __forceinline__ ln_mixture_memory ln_mixture_find_memory(const ln_mixture &m,
                                                                           uint8_t *work, int kind,
                                                                           bool has_router) {
    const unsigned n_used = (unsigned)m.route.n_used;
    const size_t hidden_bytes =
        ln_decode_act_bytes(kind, n_used, m.down.n_cols, m.down.part.precise);
    const size_t plain_bytes = has_router ? m.up.n_cols * sizeof(float) : 0;
    ln_mixture_memory memory;
    memory.x = work;
    memory.hidden =
        work + ln_mixture_align(ln_decode_act_bytes(kind, 1, m.up.n_cols, m.up.part.precise));
    memory.plain = (float *)memory.hidden;
    memory.scores =
        (float *)(memory.hidden +
                  ln_mixture_align(hidden_bytes > plain_bytes ? hidden_bytes : plain_bytes));
    memory.logits = memory.scores + ln_route_floats(m.route);
    memory.up_sums = memory.scores + ln_mixture_align(ln_route_floats(m.route) +
                                                      (has_router ? m.route.n_experts : 0));
    memory.down_sums = memory.up_sums + 2 * LN_DECODE_GROUPS * LN_MIXTURE_SUMS;
    memory.results = memory.down_sums + n_used * LN_MIXTURE_SUMS;
    return memory;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Weight tiles of a K split. */
typedef struct ln_mixture_tiles {
    const uint8_t *from;
    unsigned bytes, most; /* most: bytes of a copy */
} ln_mixture_tiles;

/* The warp's K split of an output tile of a matrix. */
template <int KIND>
static __device__ __forceinline__ ln_mixture_tiles ln_mixture_tiles_of(const ln_mixture_linear &l,
                                                                       const ln_matrices &matrix,
                                                                       unsigned expert,
                                                                       unsigned output_tile) {
    const ln_decode_tile_copy size = ln_decode_find_tile_copy<KIND>(l.part.kind);
    unsigned begin, end;
    ln_decode_k_range(l.k_tiles, &begin, &end);
    return {ln_matrix_of_group(matrix, expert) +
                (size_t)output_tile * (l.k_tiles * size.tile_bytes + size.tail_bytes) +
                begin * size.tile_bytes,
            (end - begin) * size.tile_bytes, (unsigned)size.tiles_per_copy * size.tile_bytes};
}

/* Its K split number `round` of up or gate, or of down; none (0 bytes) behind the last one. */
template <int KIND>
static __device__ __forceinline__ ln_mixture_tiles ln_mixture_up_tiles(const ln_mixture &m,
                                                                       const int32_t *experts,
                                                                       unsigned round) {
    const ln_mixture_linear &l = m.up;
    const unsigned tile = blockIdx.x + round * gridDim.x, choice = tile / l.n_output_tiles;
    if (choice >= (unsigned)m.route.n_used)
        return {};
    return ln_mixture_tiles_of<KIND>(l, ln_mixture_group_of_warp() == 0 ? l.weight : l.gate,
                                     (unsigned)experts[choice], tile % l.n_output_tiles);
}

template <int KIND>
static __device__ __forceinline__ ln_mixture_tiles ln_mixture_down_tiles(const ln_mixture &m,
                                                                         const int32_t *experts,
                                                                         unsigned round) {
    const ln_mixture_linear &l = m.down;
    const unsigned group = ln_mixture_group_of_warp();
    const unsigned per_tile = ln_mixture_group_choices((unsigned)m.route.n_used, group);
    const unsigned tile = per_tile > 0 ? blockIdx.x + round / per_tile * gridDim.x : 0;
    if (per_tile == 0 || tile >= l.n_output_tiles)
        return {};
    const unsigned choice = round % per_tile * LN_DECODE_GROUPS + group;
    return ln_mixture_tiles_of<KIND>(l, l.weight, (unsigned)experts[choice], tile);
}

/* Refills the stage that all lanes have read, but at the end of a task, and moves on to the next
 * one. Each kernel has one for its own pipeline. */
template <int KIND, class PIPELINE>
static __device__ void ln_mixture_release_stage(bool is_last, PIPELINE *r);

/* The warp's K split of the next output tile times a row of activations: sums of the tile's columns
 * g and g + 8, which lanes 4 g have. is_last: of the task. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_mixture_multiply_split(const ln_mixture_linear &l, const ln_act_view &x, unsigned row,
                          bool is_last, PIPELINE *r, float *sums) {
    const unsigned step = ln_decode_find_tile_copy<KIND>(l.part.kind).tiles_per_copy;
    constexpr unsigned PER_TILE = ln_weight_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    const unsigned at = row * (unsigned)x.cols, rows[3] = {at, at, at};
    const unsigned lane = threadIdx.x % LN_WARP;
    unsigned begin, end;
    float sum[4] = {};
    ln_decode_k_range(l.k_tiles, &begin, &end);
    for (unsigned tile = begin; tile < end; tile += step) {
        const uint8_t *tiles = r->stages + r->stage * ln_decode_stage_bytes(KIND);
        ln_stage_wait(&r->barriers[r->stage], r->parity);
        if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
            ln_decode_mma_f16_tiles(l.part.kind, tiles, min(step, end - tile), x, at, tile, sum);
        else
            ln_decode_mma_tiles<KIND>(tiles, min(step, end - tile), x, rows, tile * PER_TILE,
                                      l.part.precise, sum);
        ln_mixture_release_stage<KIND>(is_last && tile + step >= end, r);
    }
    float *to = sums + threadIdx.x / LN_WARP % LN_K_SPLITS * LN_WEIGHT_TILE_ROWS + lane / 4;
    if (lane % 4 == 0)
        to[0] = sum[0], to[8] = sum[2];
}

/* ---- results --------------------------------------------------------------------------------- */

/* The sum of an output column over its K splits, with its scales. */
template <int KIND>
static __device__ __forceinline__ float
ln_mixture_reduce_column(const ln_mixture_linear &l, const ln_matrices &matrix, unsigned expert,
                         unsigned output_tile, unsigned column, const ln_act_view &x, unsigned row,
                         const float *sums) {
    const unsigned kind = l.part.kind;
    float total = ln_decode_reduce<KIND>(sums, column, 0, 1);
    if (!ln_weight_tile_has_act_row_scales(KIND))
        return total;
    float scale = 1.0f;
    if (ln_weight_tile_has_row_scales(kind))
        scale =
            ln_weight_tile_row_scales(kind,
                                      ln_matrix_of_group(matrix, expert) +
                                          output_tile * ln_weight_tile_row_bytes(kind, l.k_tiles),
                                      l.k_tiles)[column];
    return total * (scale * x.scales[row]);
}

/* Hands off a column of an expert's hidden row. */
template <int KIND>
static __device__ __forceinline__ void
ln_mixture_hand_off_hidden(const ln_mixture &m, const int32_t *experts, unsigned tile,
                           const ln_act_view &x, const float *sums) {
    const ln_mixture_linear &l = m.up;
    const unsigned choice = tile / l.n_output_tiles, output_tile = tile % l.n_output_tiles;
    const unsigned column = threadIdx.x, expert = (unsigned)experts[choice];
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + column;
    ln_epilogue e = l.part.epilogue;
    if (at >= e.n_out)
        return;
    e.bias = ln_bias_of_group(l.weight, expert);
    e.gate_bias = ln_bias_of_group(l.gate, expert);
    float bias = e.bias != NULL ? e.bias[at] : 0.0f;
    float gate_bias = e.gate_bias != NULL ? e.gate_bias[at] : 0.0f;
    float u = ln_mixture_reduce_column<KIND>(l, l.weight, expert, output_tile, column, x, 0, sums);
    float g = ln_mixture_reduce_column<KIND>(l, l.gate, expert, output_tile, column, x, 0,
                                             sums + LN_MIXTURE_SUMS);
    ln_handoff_store(m.hidden + choice * e.n_out + at,
                     ln_epilogue_value(e, u, g, bias, gate_bias, 0.0f));
}

/* What down gives of a choice, a thread for each of its 16 columns. */
template <int KIND>
static __device__ __forceinline__ void
ln_mixture_finish_down(const ln_mixture &m, const int32_t *experts, unsigned output_tile,
                       const ln_act_view &x, const ln_mixture_memory &memory) {
    const ln_mixture_linear &l = m.down;
    const unsigned choice = threadIdx.x / LN_WEIGHT_TILE_ROWS;
    const unsigned column = threadIdx.x % LN_WEIGHT_TILE_ROWS;
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + column;
    if (choice >= m.route.n_used || at >= l.part.epilogue.n_out)
        return;
    const unsigned expert = (unsigned)experts[choice];
    ln_epilogue e = l.part.epilogue;
    e.bias = ln_bias_of_group(l.weight, expert);
    float bias = e.bias != NULL ? e.bias[at] : 0.0f;
    float u = ln_mixture_reduce_column<KIND>(l, l.weight, expert, output_tile, column, x, choice,
                                             memory.down_sums + choice * LN_MIXTURE_SUMS);
    memory.results[threadIdx.x] = ln_epilogue_value(e, u, 0.0f, bias, 0.0f, 0.0f);
}

/* What is added to the experts' results, loaded ahead of them; a thread has a column. */
typedef struct ln_mixture_addends {
    float residual, shared, shared_gate;
} ln_mixture_addends;

static __device__ __forceinline__ ln_mixture_addends ln_mixture_load_addends(const ln_op_combine &c,
                                                                             unsigned output_tile) {
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + threadIdx.x;
    ln_mixture_addends add = {};
    if (threadIdx.x >= LN_WEIGHT_TILE_ROWS || at >= c.dim)
        return add;
    add.residual = c.residual != NULL ? ln_load_relaxed(c.residual + at) : 0.0f;
    add.shared = c.shared != NULL ? ln_load_relaxed(c.shared + at) : 0.0f;
    add.shared_gate = c.shared_gate != NULL ? ln_load_relaxed(c.shared_gate) : 0.0f;
    return add;
}

/* x, which was loaded from `at`, once it is there. */
static __device__ __forceinline__ float ln_mixture_await(float x, const float *at,
                                                         bool is_handed_off) {
    while (is_handed_off && ln_handoff_is_empty(x))
        x = ln_load_relaxed(at);
    return x;
}

/* A column of the result, as ops/moe.cu combines it. */
static __device__ __forceinline__ void
ln_mixture_combine_column(const ln_mixture &m, const float *weights, unsigned output_tile,
                          const float *results, ln_mixture_addends add) {
    const ln_op_combine &c = m.combine;
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + threadIdx.x;
    if (at >= c.dim)
        return;
    float sum = 0.0f;
    for (size_t i = 0; i < c.n_used; i++)
        sum = fmaf(weights[i], results[i * LN_WEIGHT_TILE_ROWS + threadIdx.x], sum);
    if (c.shared != NULL) {
        add.shared = ln_mixture_await(add.shared, c.shared + at, m.shared_is_handed_off);
        add.shared_gate =
            ln_mixture_await(add.shared_gate, c.shared_gate, m.shared_gate_is_handed_off);
        sum = fmaf(c.shared_gate != NULL ? 1.0f / (1.0f + expf(-add.shared_gate)) : 1.0f,
                   add.shared, sum);
    }
    sum *= c.scale;
    if (c.residual != NULL)
        sum = ln_mixture_await(add.residual, c.residual + at, m.residual_is_handed_off) + sum;
    if (m.out_handoff != NULL)
        ln_handoff_store(m.out_handoff + at, sum);
    if (c.out != NULL)
        c.out[at] = sum;
}

/* ---- activations ----------------------------------------------------------------------------- */

template <int KIND>
static __device__ __forceinline__ ln_act_view ln_mixture_place_act(const ln_mixture_linear &l,
                                                                   unsigned n_rows,
                                                                   uint8_t *memory) {
    ln_act_view x = {};
    x.cols = l.x_cols;
    x.is_int8 = !ln_weight_tile_has_16_bit_act(KIND);
    x.by_row = ln_weight_tile_has_act_row_scales(KIND);
    x.bf16 = (__nv_bfloat16 *)memory;
    x.lo = l.part.precise ? x.bf16 + n_rows * x.cols : NULL;
    x.int8 = (int8_t *)memory;
    x.scales = (float *)(memory + n_rows * x.cols * (x.is_int8 ? 1 : 2));
    return x;
}

enum { LN_MIXTURE_AT_ONCE = 8 }; /* of four columns, that a lane loads */

/* Waits for a lane's columns of a hidden row from `first` on; zeros behind its end. */
static __device__ __forceinline__ void ln_mixture_load_hidden(const float *row, unsigned n_cols,
                                                              unsigned first,
                                                              float4 (&held)[LN_MIXTURE_AT_ONCE]) {
    enum { STRIDE = 4 * LN_WARP };
    bool waits;
#pragma unroll
    for (int i = 0; i < LN_MIXTURE_AT_ONCE; i++)
        held[i] = first + i * STRIDE < n_cols
                      ? ln_load_relaxed((const float4 *)(row + first + i * STRIDE))
                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    do {
        waits = false;
#pragma unroll
        for (int i = 0; i < LN_MIXTURE_AT_ONCE; i++)
            if (ln_handoff_is_empty(held[i])) {
                waits = true;
                held[i] = ln_load_relaxed((const float4 *)(row + first + i * STRIDE));
            }
    } while (waits);
}

/* The hidden rows, which other blocks hand off; a warp a row. Rows with a scale are read twice. */
template <int KIND>
static __device__ __forceinline__ void ln_mixture_convert_hidden(const ln_mixture &m,
                                                                 const ln_act_view &x) {
    enum { COLS = LN_MIXTURE_AT_ONCE * 4 * LN_WARP };
    const unsigned n_cols = m.down.n_cols, lane = threadIdx.x % LN_WARP;
    const unsigned padded = m.down.k_tiles * (unsigned)ln_weight_tile_cols(KIND);
    for (unsigned row = threadIdx.x / LN_WARP; row < m.route.n_used; row += LN_DECODE_WARPS) {
        const float *from = m.hidden + row * n_cols;
        float4 held[LN_MIXTURE_AT_ONCE];
        float largest = 0.0f;
        for (unsigned col = lane * 4; x.by_row && col < lane * 4 + padded; col += COLS) {
            ln_mixture_load_hidden(from, n_cols, col, held);
#pragma unroll
            for (int i = 0; i < LN_MIXTURE_AT_ONCE; i++)
                largest = ln_decode_absmax(largest, ln_decode_absmax(held[i]));
        }
#pragma unroll
        for (int step = LN_WARP / 2; step > 0; step /= 2)
            largest = ln_decode_absmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        largest = fminf(largest, INFINITY); /* for a NaN, too */
        for (unsigned begin = 0; begin < padded; begin += COLS) {
            ln_mixture_load_hidden(from, n_cols, begin + lane * 4, held);
#pragma unroll
            for (int i = 0; i < LN_MIXTURE_AT_ONCE; i++) {
                const unsigned col = begin + (i * LN_WARP + lane) * 4;
                const float v[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
                if (col >= padded) /* for a whole block of columns, so for its eight lanes */
                    break;
                if constexpr (ln_weight_tile_has_act_row_scales(KIND))
                    ln_act_store_row_scaled(x, row, col, v, largest);
                else
                    ln_act_store(x, row, col, v);
            }
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Gate and up of all choices, whose hidden rows are handed off. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_mixture_run_up(const ln_mixture &m, const int32_t *experts, const ln_act_view &x,
                  const ln_mixture_memory &memory, PIPELINE *r) {
    const unsigned n_tiles = (unsigned)m.route.n_used * m.up.n_output_tiles;
    unsigned turn = 0;
    for (unsigned tile = blockIdx.x; tile < n_tiles; tile += gridDim.x, turn ^= 1) {
        float *sums = memory.up_sums + turn * LN_DECODE_GROUPS * LN_MIXTURE_SUMS;
        ln_mixture_multiply_split<KIND>(m.up, x, 0, false, r,
                                        sums + ln_mixture_group_of_warp() * LN_MIXTURE_SUMS);
        __syncthreads();
        if (threadIdx.x < LN_WEIGHT_TILE_ROWS)
            ln_mixture_hand_off_hidden<KIND>(m, experts, tile, x, sums);
    }
}

/* Down of all choices, and their sum. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_mixture_run_down(const ln_mixture &m, const ln_mixture_choice &chosen, const ln_act_view &x,
                    const ln_mixture_memory &memory, PIPELINE *r) {
    const unsigned n_used = (unsigned)m.route.n_used, n_tiles = m.down.n_output_tiles;
    for (unsigned tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        const ln_mixture_addends add = ln_mixture_load_addends(m.combine, tile);
        const bool is_last = tile + gridDim.x >= n_tiles;
        for (unsigned choice = ln_mixture_group_of_warp(); choice < n_used;
             choice += LN_DECODE_GROUPS)
            ln_mixture_multiply_split<KIND>(m.down, x, choice,
                                            is_last && choice + LN_DECODE_GROUPS >= n_used, r,
                                            memory.down_sums + choice * LN_MIXTURE_SUMS);
        __syncthreads();
        ln_mixture_finish_down<KIND>(m, chosen.experts, tile, x, memory);
        __syncthreads();
        if (threadIdx.x < LN_WEIGHT_TILE_ROWS)
            ln_mixture_combine_column(m, chosen.weights, tile, memory.results, add);
    }
}

/* Leaves the choice, and rows by expert, where other kernels read them. */
static __device__ __forceinline__ void ln_mixture_store_choice(const ln_mixture &m,
                                                               ln_mixture_choice &chosen) {
    if (blockIdx.x + 1 < gridDim.x || threadIdx.x >= LN_WARP)
        return;
    for (unsigned i = threadIdx.x; i < m.route.n_used; i += LN_WARP) {
        m.route.experts[i] = chosen.experts[i];
        m.route.weights[i] = chosen.weights[i];
    }
    ln_op_group group = m.group;
    group.experts = chosen.experts;
    ln_group_in_block(group, threadIdx.x, LN_WARP);
}

/* All behind the choice; x: what gate and up read. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_mixture_run(const ln_mixture &m, ln_mixture_choice &chosen, const ln_act_view &x,
               const ln_mixture_memory &memory, PIPELINE *r) {
    ln_mixture_run_up<KIND>(m, chosen.experts, x, memory, r);
    if (blockIdx.x < m.down.n_output_tiles) {
        const ln_act_view hidden =
            ln_mixture_place_act<KIND>(m.down, (unsigned)m.route.n_used, memory.hidden);
        ln_mixture_convert_hidden<KIND>(m, hidden);
        __syncthreads();
        ln_mixture_run_down<KIND>(m, chosen, hidden, memory, r);
    }
    ln_mixture_store_choice(m, chosen);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static inline ln_mixture_linear ln_mixture_make_linear(const ln_op_linear *p) {
    ln_mixture_linear l = {};
    const int kind = ln_decode_kind((int)p->weight->layout);
    l.part = ln_gemm_make_part(p);
    ln_describe_matrices(p->weight, p->groups.n_groups, &l.weight);
    ln_describe_matrices(p->gate, p->groups.n_groups, &l.gate);
    l.n_cols = (unsigned)p->weight->n_cols;
    l.k_tiles = (unsigned)(ln_weight_tile_padded_cols(kind, l.n_cols) / ln_weight_tile_cols(kind));
    l.x_cols = (unsigned)ln_decode_x_cols(kind, l.n_cols);
    l.n_output_tiles = ln_ceil_div(l.part.epilogue.n_out, LN_WEIGHT_TILE_ROWS);
    return l;
}

/* Of the operations from LN_MIXTURE_ROUTE on; hidden: where rows are handed off. */
static inline ln_mixture ln_mixture_make(const ln_op *ops, const ln_cuda_step *step,
                                         float *hidden) {
    ln_mixture m = {};
    m.route = ops[LN_MIXTURE_ROUTE].route;
    m.token = step->batch.tokens;
    m.group = ops[LN_MIXTURE_GROUP].group;
    m.up = ln_mixture_make_linear(&ops[LN_MIXTURE_UP].linear);
    m.down = ln_mixture_make_linear(&ops[LN_MIXTURE_DOWN].linear);
    m.hidden = hidden;
    m.combine = ops[LN_MIXTURE_COMBINE].combine;
    return m;
}

#endif
