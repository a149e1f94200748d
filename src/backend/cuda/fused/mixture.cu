/* Fused mixture on Hopper: all that the experts of one token do, as one launch of persistent CTAs.
 *
 * Every block chooses the experts for itself, from the router's logits. Then it knows all weights
 * that it will read, and a pipeline for each warp (cp.async.bulk, mbarriers) brings them without a
 * break: gate and up, and behind them down, while blocks hand each other the hidden rows value by
 * value (decode_handoff.cuh). The last step sums what the experts give, with the shared expert and
 * the residual. The order of every sum is that of mma_grouped.cu, route and combine.
 *
 * Grid: one block an SM. Block 512: two groups of 8 warps, one for each K split. Of gate and up a
 * block has an output tile of 16 columns of one expert at a time, one group up and the other gate;
 * of down an output tile of all experts, of which the groups take turns. Shared memory: stages [16
 * warps][n_stages]; then what mixture_memory lists. Bytes moved: weights of the chosen experts
 * once.
 */
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/decode_activations.cuh"
#include "backend/cuda/fused/decode_linear.cuh"
#include "backend/cuda/fused/grid_barrier.cuh"
#include "backend/cuda/ops/route.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

/* A linear of experts. */
typedef struct mixture_linear {
    ln_gemm_part part; /* without matrices */
    ln_matrices weight, gate;
    unsigned n_cols, k_tiles, x_cols; /* as of ln_decode_linear */
    unsigned n_output_tiles;          /* of an expert */
} mixture_linear;

typedef struct mixture_args {
    ln_op_route route;
    const int32_t *token; /* its id */
    ln_op_group group;
    mixture_linear up, down;
    const float *x;
    ln_op_combine combine;
    unsigned n_stages, work_offset;
    unsigned *barrier_count;
    float *handoff; /* [n_used][columns of down] */
    unsigned n_handoff_floats;
} mixture_args;

enum { SUMS = LN_K_SPLITS * LN_WEIGHT_TILE_ROWS }; /* of an output tile: [8 K splits][16] */

static_assert(LN_DECODE_WARPS * LN_DECODE_MAX_STAGES * sizeof(uint64_t) +
                      LN_MAX_WARPS * sizeof(float) +
                      LN_MIXTURE_MAX_USED * (sizeof(int32_t) + sizeof(float)) <=
                  LN_DECODE_DECLARED_BYTES,
              "shared memory that the kernel declares");

/* What lies behind the stages; plan/mixture.c counts its bytes. */
typedef struct mixture_memory {
    uint8_t *x, *hidden; /* activations: of gate and up, and of down */
    float *scores;       /* [ln_route_floats] */
    float *up_sums;      /* [2][up, gate][SUMS], by turns */
    float *down_sums;    /* [n_used][SUMS] */
    float *results;      /* [n_used][16] of down */
} mixture_memory;

static __host__ __device__ __forceinline__ size_t align_16(size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

/* The weights that a warp multiplies, one K split after the other, as they come. */
typedef struct mixture_pipeline {
    uint8_t *stages;
    uint64_t *barriers;
    unsigned stage, parity;         /* to be consumed next */
    unsigned n_up, n_down, n_items; /* K splits: of up or gate, of down for an output tile, all */
    /* of lane 0 */
    unsigned next, left; /* the K split to come, and bytes that are left of the one under way */
    const uint8_t *from;
} mixture_pipeline;

/* ---- the pipeline ---------------------------------------------------------------------------- */

static __device__ __forceinline__ unsigned group_of_warp(void) {
    return threadIdx.x / LN_DECODE_GROUP_THREADS;
}

/* Output tiles that a block has of `n`. */
static __device__ __forceinline__ unsigned tiles_of_block(unsigned n) {
    return n > blockIdx.x ? (n - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
}

/* Begins the warp's K split of an output tile of a matrix. */
template <int KIND>
static __device__ __forceinline__ void begin_split(const mixture_linear &l,
                                                   const ln_matrices &matrix, unsigned expert,
                                                   unsigned output_tile, mixture_pipeline *r) {
    const ln_decode_tile_copy size = ln_decode_find_tile_copy<KIND>(l.part.kind);
    unsigned begin, end;
    ln_decode_k_range(l.k_tiles, &begin, &end);
    r->from = ln_matrix_of_group(matrix, expert) +
              (size_t)output_tile * (l.k_tiles * size.tile_bytes + size.tail_bytes) +
              begin * size.tile_bytes;
    r->left = (end - begin) * size.tile_bytes;
}

/* Queues the copy of the next tiles into a stage; by lane 0. */
template <int KIND>
static __device__ __forceinline__ void fetch_tiles(const mixture_args &p, const int32_t *experts,
                                                   mixture_pipeline *r, unsigned stage) {
    if (r->left == 0 && r->next == r->n_items)
        return;
    const bool is_up = r->left == 0 ? r->next < r->n_up : r->next <= r->n_up;
    const mixture_linear &l = is_up ? p.up : p.down;
    if (r->left == 0 && is_up) {
        unsigned tile = blockIdx.x + r->next++ * gridDim.x, choice = tile / l.n_output_tiles;
        begin_split<KIND>(l, group_of_warp() == 0 ? l.weight : l.gate, (unsigned)experts[choice],
                          tile % l.n_output_tiles, r);
    } else if (r->left == 0) {
        unsigned number = r->next++ - r->n_up, turn = number % r->n_down;
        begin_split<KIND>(l, l.weight, (unsigned)experts[turn * LN_DECODE_GROUPS + group_of_warp()],
                          blockIdx.x + number / r->n_down * gridDim.x, r);
    }
    const ln_decode_tile_copy size = ln_decode_find_tile_copy<KIND>(l.part.kind);
    const unsigned bytes = min(r->left, (unsigned)size.tiles_per_copy * size.tile_bytes);
    ln_stage_fetch(r->stages + stage * ln_decode_stage_bytes(KIND), r->from, bytes,
                   &r->barriers[stage]);
    r->from += bytes;
    r->left -= bytes;
}

/* Begins with the weights of the chosen experts. */
template <int KIND>
static __device__ __forceinline__ void begin_pipeline(const mixture_args &p, const int32_t *experts,
                                                      mixture_pipeline *r) {
    unsigned begin, end, n_used = (unsigned)p.route.n_used;
    ln_decode_k_range(p.up.k_tiles, &begin, &end);
    r->n_up = begin < end ? tiles_of_block(n_used * p.up.n_output_tiles) : 0;
    ln_decode_k_range(p.down.k_tiles, &begin, &end);
    r->n_down =
        begin < end ? (n_used + LN_DECODE_GROUPS - 1 - group_of_warp()) / LN_DECODE_GROUPS : 0;
    r->n_items = r->n_up + r->n_down * tiles_of_block(p.down.n_output_tiles);
    if (threadIdx.x % LN_WARP == 0)
        for (unsigned stage = 0; stage < p.n_stages; stage++)
            fetch_tiles<KIND>(p, experts, r, stage);
    __syncwarp();
}

/* The warp's K split of the next output tile times a row of activations: sums of the tile's columns
 * g and g + 8, which lanes 4 g have. */
template <int KIND>
static __device__ __forceinline__ void
multiply_split(const mixture_args &p, const int32_t *experts, const mixture_linear &l,
               const ln_act_view &x, unsigned row, mixture_pipeline *r, float *sums) {
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
        __syncwarp();
        if (lane == 0)
            fetch_tiles<KIND>(p, experts, r, r->stage);
        bool wraps = r->stage + 1 == p.n_stages;
        r->parity ^= wraps;
        r->stage = wraps ? 0 : r->stage + 1;
    }
    float *to = sums + threadIdx.x / LN_WARP % LN_K_SPLITS * LN_WEIGHT_TILE_ROWS + lane / 4;
    if (lane % 4 == 0)
        to[0] = sum[0], to[8] = sum[2];
}

/* ---- results --------------------------------------------------------------------------------- */

/* The sum of an output column over its K splits, with its scales. */
template <int KIND>
static __device__ __forceinline__ float
reduce_column(const mixture_linear &l, const ln_matrices &matrix, unsigned expert,
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
static __device__ __forceinline__ void hand_off_hidden(const mixture_args &p,
                                                       const int32_t *experts, unsigned tile,
                                                       const ln_act_view &x, const float *sums) {
    const mixture_linear &l = p.up;
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
    float u = reduce_column<KIND>(l, l.weight, expert, output_tile, column, x, 0, sums);
    float g = reduce_column<KIND>(l, l.gate, expert, output_tile, column, x, 0, sums + SUMS);
    ln_handoff_store(p.handoff + choice * e.n_out + at,
                     ln_epilogue_value(e, u, g, bias, gate_bias, 0.0f));
}

/* What down gives of a choice, a thread for each of its 16 columns. */
template <int KIND>
static __device__ __forceinline__ void finish_down(const mixture_args &p, const int32_t *experts,
                                                   unsigned output_tile, const ln_act_view &x,
                                                   const mixture_memory &m) {
    const mixture_linear &l = p.down;
    const unsigned choice = threadIdx.x / LN_WEIGHT_TILE_ROWS;
    const unsigned column = threadIdx.x % LN_WEIGHT_TILE_ROWS;
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + column;
    if (choice >= p.route.n_used || at >= l.part.epilogue.n_out)
        return;
    const unsigned expert = (unsigned)experts[choice];
    ln_epilogue e = l.part.epilogue;
    e.bias = ln_bias_of_group(l.weight, expert);
    float bias = e.bias != NULL ? e.bias[at] : 0.0f;
    float u = reduce_column<KIND>(l, l.weight, expert, output_tile, column, x, choice,
                                  m.down_sums + choice * SUMS);
    m.results[threadIdx.x] = ln_epilogue_value(e, u, 0.0f, bias, 0.0f, 0.0f);
}

/* What is added to the experts' results, loaded ahead of them; a thread has a column. */
typedef struct mixture_addends {
    float residual, shared, shared_gate;
} mixture_addends;

static __device__ __forceinline__ mixture_addends load_addends(const ln_op_combine &c,
                                                               unsigned output_tile) {
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + threadIdx.x;
    mixture_addends add = {};
    if (threadIdx.x >= LN_WEIGHT_TILE_ROWS || at >= c.dim)
        return add;
    add.residual = c.residual != NULL ? c.residual[at] : 0.0f;
    add.shared = c.shared != NULL ? c.shared[at] : 0.0f;
    add.shared_gate = c.shared_gate != NULL ? c.shared_gate[0] : 0.0f;
    return add;
}

/* A column of the result, as ops/moe.cu combines it. */
static __device__ __forceinline__ void combine_column(const ln_op_combine &c, const float *weights,
                                                      unsigned output_tile, const float *results,
                                                      const mixture_addends &add) {
    const size_t at = output_tile * LN_WEIGHT_TILE_ROWS + threadIdx.x;
    if (at >= c.dim)
        return;
    float sum = 0.0f;
    for (size_t i = 0; i < c.n_used; i++)
        sum = fmaf(weights[i], results[i * LN_WEIGHT_TILE_ROWS + threadIdx.x], sum);
    if (c.shared != NULL)
        sum = fmaf(c.shared_gate != NULL ? 1.0f / (1.0f + expf(-add.shared_gate)) : 1.0f,
                   add.shared, sum);
    sum *= c.scale;
    c.out[at] = c.residual != NULL ? add.residual + sum : sum;
}

/* ---- activations ----------------------------------------------------------------------------- */

template <int KIND>
static __device__ __forceinline__ ln_act_view place_act(const mixture_linear &l, unsigned n_rows,
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

/* The row that gate and up read. shared [LN_MAX_WARPS] */
template <int KIND>
static __device__ __forceinline__ void convert_x(const mixture_args &p, const ln_act_view &x,
                                                 float *shared) {
    const ln_decode_rows row = {p.x, p.up.n_cols, p.up.n_cols, false};
    const unsigned padded = p.up.k_tiles * (unsigned)ln_weight_tile_cols(KIND);
    if constexpr (ln_weight_tile_has_act_row_scales(KIND))
        ln_decode_convert_row_scaled<KIND>(row, 1, x, padded, shared);
    else
        ln_decode_convert<KIND>(row, 1, x, padded);
}

enum { HIDDEN_AT_ONCE = 8 }; /* of four columns, that a lane loads */

/* Waits for a lane's columns of a hidden row from `first` on; zeros behind its end. */
static __device__ __forceinline__ void load_hidden(const float *row, unsigned n_cols,
                                                   unsigned first, float4 (&held)[HIDDEN_AT_ONCE]) {
    enum { STRIDE = 4 * LN_WARP };
    bool waits;
#pragma unroll
    for (int i = 0; i < HIDDEN_AT_ONCE; i++)
        held[i] = first + i * STRIDE < n_cols
                      ? ln_load_relaxed((const float4 *)(row + first + i * STRIDE))
                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    do {
        waits = false;
#pragma unroll
        for (int i = 0; i < HIDDEN_AT_ONCE; i++)
            if (ln_handoff_is_empty(held[i])) {
                waits = true;
                held[i] = ln_load_relaxed((const float4 *)(row + first + i * STRIDE));
            }
    } while (waits);
}

/* The hidden rows, which other blocks hand off; a warp a row. Rows with a scale are read twice. */
template <int KIND>
static __device__ __forceinline__ void convert_hidden(const mixture_args &p, const ln_act_view &x) {
    enum { COLS = HIDDEN_AT_ONCE * 4 * LN_WARP };
    const unsigned n_cols = p.down.n_cols, lane = threadIdx.x % LN_WARP;
    const unsigned padded = p.down.k_tiles * (unsigned)ln_weight_tile_cols(KIND);
    for (unsigned row = threadIdx.x / LN_WARP; row < p.route.n_used; row += LN_DECODE_WARPS) {
        const float *from = p.handoff + row * n_cols;
        float4 held[HIDDEN_AT_ONCE];
        float largest = 0.0f;
        for (unsigned col = lane * 4; x.by_row && col < lane * 4 + padded; col += COLS) {
            load_hidden(from, n_cols, col, held);
#pragma unroll
            for (int i = 0; i < HIDDEN_AT_ONCE; i++)
                largest = ln_decode_absmax(largest, ln_decode_absmax(held[i]));
        }
#pragma unroll
        for (int step = LN_WARP / 2; step > 0; step /= 2)
            largest = ln_decode_absmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        largest = fminf(largest, INFINITY); /* for a NaN, too */
        for (unsigned begin = 0; begin < padded; begin += COLS) {
            load_hidden(from, n_cols, begin + lane * 4, held);
#pragma unroll
            for (int i = 0; i < HIDDEN_AT_ONCE; i++) {
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

/* ---- the kernel ------------------------------------------------------------------------------ */

static __device__ __forceinline__ mixture_memory find_memory(const mixture_args &p, uint8_t *memory,
                                                             int kind) {
    const unsigned n_used = (unsigned)p.route.n_used;
    mixture_memory m;
    m.x = memory + p.work_offset;
    m.hidden = m.x + align_16(ln_decode_act_bytes(kind, 1, p.up.n_cols, p.up.part.precise));
    m.scores = (float *)(m.hidden + align_16(ln_decode_act_bytes(kind, n_used, p.down.n_cols,
                                                                 p.down.part.precise)));
    m.up_sums = m.scores + align_16(ln_route_floats(p.route));
    m.down_sums = m.up_sums + 2 * LN_DECODE_GROUPS * SUMS;
    m.results = m.down_sums + n_used * SUMS;
    return m;
}

/* Gate and up of all choices, whose hidden rows are handed off. */
template <int KIND>
static __device__ __forceinline__ void run_up(const mixture_args &p, const int32_t *experts,
                                              const ln_act_view &x, const mixture_memory &m,
                                              mixture_pipeline *r) {
    const unsigned n_tiles = (unsigned)p.route.n_used * p.up.n_output_tiles;
    unsigned turn = 0;
    for (unsigned tile = blockIdx.x; tile < n_tiles; tile += gridDim.x, turn ^= 1) {
        float *sums = m.up_sums + turn * LN_DECODE_GROUPS * SUMS;
        multiply_split<KIND>(p, experts, p.up, x, 0, r, sums + group_of_warp() * SUMS);
        __syncthreads();
        if (threadIdx.x < LN_WEIGHT_TILE_ROWS)
            hand_off_hidden<KIND>(p, experts, tile, x, sums);
    }
}

/* Down of all choices, and their sum. */
template <int KIND>
static __device__ __forceinline__ void run_down(const mixture_args &p, const int32_t *experts,
                                                const float *weights, const ln_act_view &x,
                                                const mixture_memory &m, mixture_pipeline *r) {
    for (unsigned tile = blockIdx.x; tile < p.down.n_output_tiles; tile += gridDim.x) {
        const mixture_addends add = load_addends(p.combine, tile);
        for (unsigned choice = group_of_warp(); choice < p.route.n_used; choice += LN_DECODE_GROUPS)
            multiply_split<KIND>(p, experts, p.down, x, choice, r, m.down_sums + choice * SUMS);
        __syncthreads();
        finish_down<KIND>(p, experts, tile, x, m);
        __syncthreads();
        if (threadIdx.x < LN_WEIGHT_TILE_ROWS)
            combine_column(p.combine, weights, tile, m.results, add);
    }
}

/* Leaves the choice, and rows by expert, where other kernels read them. */
static __device__ __forceinline__ void store_choice(const mixture_args &p, int32_t *experts,
                                                    const float *weights) {
    if (blockIdx.x + 1 < gridDim.x || threadIdx.x >= LN_WARP)
        return;
    for (unsigned i = threadIdx.x; i < p.route.n_used; i += LN_WARP) {
        p.route.experts[i] = experts[i];
        p.route.weights[i] = weights[i];
    }
    ln_op_group group = p.group;
    group.experts = experts;
    ln_group_in_block(group, threadIdx.x, LN_WARP);
}

template <int KIND>
static __global__ void __launch_bounds__(LN_DECODE_THREADS, 1)
    fused_mixture(const __grid_constant__ mixture_args p) {
    extern __shared__ __align__(128) uint8_t memory[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ uint64_t barriers[LN_DECODE_WARPS * LN_DECODE_MAX_STAGES];
    __shared__ int32_t experts[LN_MIXTURE_MAX_USED];
    __shared__ float weights[LN_MIXTURE_MAX_USED];
    const mixture_memory m = find_memory(p, memory, KIND);
    const ln_act_view x = place_act<KIND>(p.up, 1, m.x),
                      hidden = place_act<KIND>(p.down, (unsigned)p.route.n_used, m.hidden);
    const unsigned warp = threadIdx.x / LN_WARP;
    mixture_pipeline r = {};
    ln_pdl_launch_dependents();
    r.stages = memory + (size_t)warp * p.n_stages * ln_decode_stage_bytes(KIND);
    r.barriers = barriers + warp * p.n_stages;
    if (threadIdx.x % LN_WARP == 0)
        for (unsigned stage = 0; stage < p.n_stages; stage++)
            ln_stage_init(&r.barriers[stage]);
    ln_pdl_wait();
    unsigned grid_phase = ln_grid_barrier_phase(p.barrier_count); /* thread 0's is kept */
    ln_handoff_clear(p.handoff, p.n_handoff_floats);
    if (warp == 0)
        ln_route_token(p.route, p.route.logits, p.token, m.scores, {experts, weights, NULL});
    __syncthreads();
    if (threadIdx.x == 0)
        ln_grid_barrier_arrive(p.barrier_count);
    begin_pipeline<KIND>(p, experts, &r);
    convert_x<KIND>(p, x, shared);
    if (threadIdx.x == 0)
        ln_grid_barrier_wait(p.barrier_count, &grid_phase); /* the hand-off memory is clear */
    __syncthreads();
    run_up<KIND>(p, experts, x, m, &r);
    if (blockIdx.x < p.down.n_output_tiles) {
        convert_hidden<KIND>(p, hidden);
        __syncthreads();
        run_down<KIND>(p, experts, weights, hidden, m, &r);
    }
    store_choice(p, experts, weights);
}

/* ---- launching ------------------------------------------------------------------------------- */

static mixture_linear make_linear(const ln_op_linear *p) {
    mixture_linear l = {};
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

template <int KIND>
static int launch_kind(mixture_args &args, size_t work_bytes, cudaStream_t stream) {
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code =
            cudaFuncSetAttribute(fused_mixture<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 LN_DECODE_SHARED_BYTES);
    if (code != 0)
        return code;
    args.n_stages = (unsigned)ln_decode_stages_beside(KIND, work_bytes);
    args.work_offset = args.n_stages * LN_DECODE_WARPS * ln_decode_stage_bytes(KIND);
    /* all of it, so that blocks do not share an SM */
    return ln_pdl_launch(fused_mixture<KIND>, dim3(n_sms), LN_DECODE_THREADS,
                         LN_DECODE_SHARED_BYTES, stream, args);
}

int ln_cuda_mixture(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                    ln_cuda_stream stream) {
    const ln_op *first = &ops[launch->first];
    const ln_op_linear *up = &first[LN_MIXTURE_UP].linear;
    mixture_args args = {};
    args.route = first[LN_MIXTURE_ROUTE].route;
    args.token = step->batch.tokens;
    args.group = first[LN_MIXTURE_GROUP].group;
    args.up = make_linear(up);
    args.down = make_linear(&first[LN_MIXTURE_DOWN].linear);
    args.x = up->x;
    args.combine = first[LN_MIXTURE_COMBINE].combine;
    args.barrier_count = step->fused_workspace;
    args.handoff = (float *)((char *)step->fused_workspace + LN_DECODE_COUNTER_BYTES);
    args.n_handoff_floats = (unsigned)launch->n_handoff_floats;
    switch (ln_decode_kind((int)up->weight->layout)) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(args, launch->work_bytes, stream);
    case LN_LAYOUT_INT8: return launch_kind<LN_LAYOUT_INT8>(args, launch->work_bytes, stream);
    case LN_LAYOUT_INT4: return launch_kind<LN_LAYOUT_INT4>(args, launch->work_bytes, stream);
    case LN_LAYOUT_INT8_ROW:
        return launch_kind<LN_LAYOUT_INT8_ROW>(args, launch->work_bytes, stream);
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(args, launch->work_bytes, stream);
    default: return cudaErrorInvalidValue;
    }
}
