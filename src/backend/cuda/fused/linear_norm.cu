/* Fused linear + norm kernel on Hopper, BF16 or F8_ROW weights and 9 to 64 rows, or INT8_ROW
 * weights and 17 to 64 rows: up to four linears one after another with the norms between them, as
 * persistent CTAs. M = 64 output columns to a tile (weights are the A operand), N = 16, 32 or 64
 * rows, K in 8 splits, with the order of sums of gemm/sm90_small_m.cu, of F8_ROW gemm/sm90_fp8.cu.
 *
 * Weights run through one pipeline whatever linear they are of, so memory is read while blocks wait
 * for each other's outputs: once all have stored theirs, rows are normalised by a block each, and
 * once all rows are there, activations are fetched. Of BF16 a gated linear's output is converted to
 * the next linear's activations where it is made; of the others all blocks quantise it, once they
 * know the largest magnitude of each row. The two halves of the activation buffer alternate. Of
 * BF16 rows may have adapters (linear_norm_adapters.cuh).
 *
 * Grid: as many blocks as the largest linear has work for, at most one an SM, with adapters one an
 * SM, all resident at once. Block 320: 8 consumer warps, a producer warp for weights, one for
 * activations; with adapters 512, and setmaxnreg moves registers to the consumers. Shared memory:
 * an output tile or a norm's row; its residual or the norm's weights; pipeline stages of weights
 * (as many as fit, up to 16) and of activations (12 to 5, with adapters 4). Bytes moved: weights
 * once. Code that runs once between linears is not unrolled, as instructions come from memory, too.
 */
#include "backend/cuda/activations/convert.h"
#include "backend/cuda/gemm/tensor_maps.cuh"
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/linear_norm_adapters.cuh"
#include "backend/cuda/fused/linear_norm_mma.cuh"
#include "backend/cuda/fused/linear_norm_pipeline.cuh"
#include "backend/cuda/fused/linear_norm_statistics.cuh"
#include "backend/cuda/ptx/setmaxnreg.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

template <bool ADAPTS>
constexpr unsigned block_threads = ADAPTS ? FIRST_SHRINK_THREAD + SHRINK_THREADS
                                          : (unsigned)SMALL_M_THREADS;
/* Stages of activations; of few rows they are small, and as long under way. */
template <int LAYOUT, int ROWS, bool ADAPTS>
constexpr unsigned x_stages = ADAPTS                                   ? 4
                              : LAYOUT == LN_LAYOUT_BF16 || ROWS == 64 ? 5
                              : ROWS == 32                             ? 8
                                                                       : (unsigned)MAX_X_STAGES;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Fetches the weights of all output tiles of a block; by one thread. */
template <int ROWS, bool ADAPTS>
static __device__ __forceinline__ void produce_weights(const fused_args &c, unsigned number,
                                                       adapter_table *table, const pipelines &pipes,
                                                       ln_pipeline_stage &at) {
    const fused_linear &l = c.linears[number];
    split_range range;
    for (unsigned k = 0; find_split_range(l.gemm, k, range); k++) {
        weight_unit unit = find_unit(l, range.unit);
        if (ADAPTS && l.is_wide)
            produce_splits<stage_shape<ROWS, true>>(c, l, range, unit, pipes, at);
        else
            produce_splits<stage_shape<ROWS>>(c, l, range, unit, pipes, at);
        if constexpr (ADAPTS) {
            const adapter_list *list = list_behind(table, number, unit.part, range);
            if (list != NULL)
                produce_b<ROWS>(c, l, unit, *list, table, pipes, at);
        }
    }
}

/* Waits for a linear's activations. */
static __device__ __forceinline__ void wait_for_x(const fused_args &c, unsigned number) {
    grid_counts &counts = c.memory->counts;
    if (number == 0) {
        ln_pdl_wait();
        asm volatile("fence.proxy.async;" ::: "memory"); /* bulk copies read what others stored */
    } else if (c.linears[number].quantizes) {
        wait_for_blocks(&counts.normed[number], gridDim.x);
    } else if (c.linears[number].normalizes) {
        wait_for_blocks(&counts.normed[number], min(gridDim.x, c.n_rows));
    } else {
        wait_for_blocks(&counts.done[number - 1], gridDim.x);
    }
}

/* Counts a block that waits for no counter any more; the last one clears them. With adapters that
 * is behind all that its producer waits for: then A x of the last linear is there, in some block if
 * not in this one, so no warp that makes it waits either. */
static __device__ __forceinline__ void end_waits(const fused_args &c) {
    grid_counts &counts = c.memory->counts;
    if (atomicAdd(&counts.ended, 1) == gridDim.x - 1)
        counts = {};
}

/* Fetches the activations of all output tiles of a block; by one thread. */
template <int LAYOUT, int ROWS, bool ADAPTS>
static __device__ __forceinline__ void produce_rows(const fused_args &c, unsigned number,
                                                    adapter_table *table, const pipelines &pipes,
                                                    ln_pipeline_stage &at) {
    constexpr unsigned X_STAGES = x_stages<LAYOUT, ROWS, ADAPTS>;
    const fused_linear &l = c.linears[number];
    bool has_low = false;
    split_range range;
    wait_for_x(c, number);
    if (number + 1 == c.n_linears)
        ln_pdl_launch_dependents();
    if (!ADAPTS && number + 1 == c.n_linears)
        end_waits(c);
    for (unsigned k = 0; find_split_range(l.gemm, k, range); k++) {
        produce_split_rows<ROWS, X_STAGES>(l.gemm.p, range, pipes, at);
        if constexpr (ADAPTS) {
            unsigned part = find_unit(l, range.unit).part;
            const adapter_list *list = list_behind(table, number, part, range);
            if (list == NULL)
                continue;
            if (!has_low)
                wait_for_blocks(&c.memory->counts.low[number], table->n[number]);
            has_low = true;
            produce_low<ROWS, X_STAGES>(c, *list, pipes, at);
        }
    }
    if (ADAPTS && number + 1 == c.n_linears)
        end_waits(c);
}

/* One thread fetches weights, another one activations. */
template <int LAYOUT, int ROWS, bool ADAPTS>
static __device__ __forceinline__ void produce_all(const fused_args &c, adapter_table *table,
                                                   const pipelines &pipes) {
    ln_pipeline_stage at = {0, 1};
    if (threadIdx.x == CONSUMERS)
#pragma unroll 1
        for (unsigned i = 0; i < c.n_linears; i++)
            produce_weights<ROWS, ADAPTS>(c, i, table, pipes, at);
    else if (threadIdx.x == CONSUMERS + LN_WARP)
#pragma unroll 1
        for (unsigned i = 0; i < c.n_linears; i++)
            produce_rows<LAYOUT, ROWS, ADAPTS>(c, i, table, pipes, at);
}

/* All output tiles of a block. */
template <typename SHAPE, int ROWS, bool ADAPTS>
static __device__ __forceinline__ void
consume(const fused_args &c, unsigned number, adapter_table *table, const pipelines &pipes,
        const consumer_memory &memory, ln_pipeline_stage &at, ln_pipeline_stage &x_at) {
    constexpr unsigned X_STAGES = x_stages<SHAPE::LAYOUT, ROWS, ADAPTS>,
                       MAX_HELD = SHAPE::IS_WIDE ? 0 : (unsigned)MAX_DEFERRED;
    const fused_linear &l = c.linears[number];
    typename SHAPE::sum_type total[SHAPE::N_ACC];
    split_range range;
    for (unsigned k = 0; find_split_range(l.gemm, k, range); k++) {
        weight_unit unit = find_unit(l, range.unit);
        multiply_splits<SHAPE, ROWS, X_STAGES, MAX_HELD>(c, l, range, unit, pipes, memory, at, x_at,
                                                         total);
        if constexpr (ADAPTS)
            add_adapters<SHAPE, X_STAGES>(c, l, list_behind(table, number, unit.part, range), pipes,
                                          at, x_at, total);
        if (range.end < LN_K_SPLITS)
            send_partials<SHAPE::LAYOUT>(c, total);
        else
            store_tile<SHAPE, ROWS>(l, unit, total, memory);
    }
}

#endif

template <int LAYOUT, int ROWS, bool ADAPTS>
static __global__ void __launch_bounds__(block_threads<ADAPTS>, 1)
    linear_norm(const __grid_constant__ fused_args c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ pipeline_barriers bars;
    __shared__ float norm_sums[LN_MAX_WARPS];
    char *weights = memory + STAGES_OFFSET;
    consumer_memory own = {(float *)memory, norm_sums, NULL};
    if constexpr (LAYOUT != LN_LAYOUT_BF16) {
        __shared__ tile_scales scales;
        own.scales = &scales;
        if (threadIdx.x < ACT_TILE_ROWS)
            scales.amax[threadIdx.x] = 0;
    }
    const pipelines pipes = {weights, weights + c.n_stages * stage_shape<ROWS>::W_BYTES, &bars};
    adapter_table *table = NULL;
    if constexpr (ADAPTS) {
        __shared__ adapter_table of_adapters;
        table = &of_adapters;
        if (threadIdx.x == 0)
            ln_mbarrier_init(&table->is_filled, SHRINK_THREADS);
    }
    if (threadIdx.x == 0)
        init_pipelines(c.n_stages, bars);
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        if (ADAPTS)
            ln_setmaxnreg_dec<OTHER_REGISTERS>();
        if (ADAPTS && threadIdx.x >= FIRST_SHRINK_THREAD)
            shrink_all(c, table);
        else
            produce_all<LAYOUT, ROWS, ADAPTS>(c, table, pipes);
        return;
    }
    if (ADAPTS)
        ln_setmaxnreg_inc<CONSUMER_REGISTERS>();
    ln_pipeline_stage at = {0, 0}, x_at = at;
    ln_pdl_wait();
#pragma unroll 1
    for (unsigned i = 0; i < c.n_linears; i++) {
        if (c.linears[i].normalizes)
            normalize<LAYOUT>(c, i, own);
        if constexpr (LAYOUT != LN_LAYOUT_BF16)
            if (c.linears[i].quantizes)
                quantize<LAYOUT>(c, i);
        if (ADAPTS && c.linears[i].is_wide)
            consume<stage_shape<ROWS, ADAPTS>, ROWS, ADAPTS>(c, i, table, pipes, own, at, x_at);
        else
            consume<stage_shape<ROWS, false, LAYOUT>, ROWS, ADAPTS>(c, i, table, pipes, own, at,
                                                                    x_at);
        if constexpr (LAYOUT != LN_LAYOUT_BF16)
            if (i + 1 < c.n_linears && c.linears[i].has_gate)
                publish_amax(c, i + 1, own);
        if (i + 1 < c.n_linears)
            arrive_block(&c.memory->counts.done[i], c.linears[i].gemm.p.converts);
    }
#endif
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A planned launch with its arguments. */
typedef struct planned_launch {
    fused_args fused;
    ln_gemm_args args[MAX_LINEARS];
} planned_launch;

/* Whether nobody else reads what an operation gives. */
static bool is_left_out(const ln_cuda_plan *plan, const ln_op *op) {
    return plan->places[op->out[LN_OUT]].is_left_out;
}

/* Where the norm in front of linears reads and writes. */
static void set_norm(const ln_cuda_plan *plan, const ln_op *op, const ln_cuda_step *step,
                     fused_linear *l) {
    const ln_op_norm *p = &op->norm;
    l->normalizes = true;
    l->norm = *p->norm;
    l->from = p->x;
    l->rows = ln_cuda_norm_rows(op, step);
    l->normed = is_left_out(plan, op) ? NULL : p->out;
}

/* What is adapted of the n linears behind an LN_OP_LORA_SHRINK, the kernel's task `number`. */
static void add_adapted(const ln_op *op, unsigned number, size_t n, const ln_cuda_step *step,
                        fused_adapters *f) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    const ln_cuda_adapter_rows *rows = ln_cuda_find_adapter_rows(op, p->rows, step);
    size_t a_stride = ln_adapter_a_elems(LN_ADAPTER_TILE, p->weights[0]->n_cols) * sizeof(uint16_t);
    f->rows = rows->rows;
    f->n_runs = rows->counts;
    f->scratch = (ln_adapter_scratch *)step->adapter_scratch;
    for (size_t part = 0; part < n; part++)
        for (int is_gate = 0; is_gate < 2; is_gate++) {
            const ln_op_linear *linear = &op[1 + part].linear;
            const float *low = is_gate ? linear->gate_low : linear->low;
            for (size_t i = 0; i < p->n_weights && low != NULL; i++)
                if (p->low[i] == low)
                    f->weights[f->n_weights++] = {p->weights[i]->device_adapters, a_stride,
                                                  (uint8_t)number, (uint8_t)part, is_gate > 0};
        }
}

static void make_args(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                      const ln_cuda_step *step, planned_launch *to) {
    const ln_cuda_task *tasks = plan->tasks + launch->first_task;
    ln_converted_act x = launch->x;
    fused_args &c = to->fused;
    c.memory = (fused_workspace *)((char *)step->fused_workspace + LN_DECODE_WORKSPACE_BYTES);
    c.n_rows = (unsigned)ops[tasks->first + tasks->has_shrink].linear.n_rows;
    c.n_linears = launch->n_tasks;
    c.adapters.n_weights = 0;
    for (unsigned i = 0; i < c.n_linears; i++) {
        const ln_op *behind_norm = &ops[tasks[i].first + tasks[i].has_norm];
        const ln_op *first = behind_norm + tasks[i].has_shrink;
        fused_linear &l = c.linears[i];
        l = {};
        l.has_gate = first->linear.gate != NULL;
        if (i > 0) {
            bool is_behind = !x.is_behind;
            x = ln_act_none(&x);
            ln_act_require(first, false, false, true, &x);
            x.is_behind = is_behind;
        }
        to->args[i] = ln_gemm_make_args(first, tasks[i].n_linears, &x);
        if (tasks[i].has_shrink)
            add_adapted(behind_norm, i, tasks[i].n_linears, step, &c.adapters);
        if (tasks[i].has_norm) {
            set_norm(plan, behind_norm - 1, step, &l);
        } else if (i > 0 && x.by_row) {
            l.quantizes = true;
            l.norm.dim = x.n_cols;
            l.from = first->linear.x;
        } else if (i > 0) { /* the linear before writes its result as this one's x */
            to->args[i - 1].converts = true;
            to->args[i - 1].leaves_out = is_left_out(plan, behind_norm - 1);
            to->args[i - 1].to = ln_act_view_of(&x);
        }
    }
}

/* Divides the K splits of a linear's output tiles among blocks. Gated linears whose rows may have
 * adapters take wide units where each block has at least a whole one: then the block in front has
 * sent its partial sums long before they are needed, as it begins with them. */
static int schedule(int layout, const ln_gemm_args &args, unsigned n_sms, bool adapts,
                    fused_linear *l) {
    small_m_args *a = &l->gemm;
    l->is_wide = adapts && l->has_gate && args.parts[0].epilogue.residual == NULL &&
                 ln_gemm_output_tiles(args, TILE_N) >= n_sms;
    unsigned columns = l->has_gate && !l->is_wide ? TILE_N / 2 : TILE_N; /* of a matrix */
    unsigned tiles = l->is_wide ? stage_shape<64, true>::W_TILES : stage_shape<64>::W_TILES;
    a->p = args;
    a->n_items = ln_gemm_output_tiles(args, columns) * LN_K_SPLITS;
    a->per_block = ln_ceil_div(a->n_items, n_sms);
    return map_parts(layout, args, columns / LN_WEIGHT_TILE_ROWS, tiles, a->weights, &a->gate);
}

template <int LAYOUT, int ROWS, bool ADAPTS>
static int launch_kernel(planned_launch *plan, cudaStream_t stream) {
    typedef small_m_stage<LN_LAYOUT_BF16, ROWS, false> shape;
    constexpr unsigned X_BYTES = x_stages<LAYOUT, ROWS, ADAPTS> * shape::X_BYTES;
    fused_args &c = plan->fused;
    unsigned n_sms, shared, n_blocks = 0;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = ln_max_shared_bytes(&shared);
    for (unsigned i = 0; i < c.n_linears && code == 0; i++) {
        small_m_args *a = &c.linears[i].gemm;
        code = schedule(LAYOUT, plan->args[i], n_sms, ADAPTS, &c.linears[i]);
        n_blocks = ADAPTS ? n_sms : max(n_blocks, ln_ceil_div(a->n_items, a->per_block));
    }
    if (code != 0)
        return code;
    shared -= ADAPTS ? STATIC_SHARED_ADAPTERS : STATIC_SHARED;
    c.n_stages = min((shared - STAGES_OFFSET - X_BYTES) / shape::W_BYTES, (unsigned)SMALL_M_STAGES);
    code = cudaFuncSetAttribute(linear_norm<LAYOUT, ROWS, ADAPTS>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != 0)
        return code;
    return ln_pdl_launch(linear_norm<LAYOUT, ROWS, ADAPTS>, dim3(n_blocks), block_threads<ADAPTS>,
                         STAGES_OFFSET + c.n_stages * shape::W_BYTES + X_BYTES, stream, c);
}

template <int LAYOUT, int ROWS> static int launch_rows(planned_launch *plan, cudaStream_t stream) {
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        if (plan->fused.adapters.n_weights > 0)
            return launch_kernel<LAYOUT, ROWS, true>(plan, stream);
    return launch_kernel<LAYOUT, ROWS, false>(plan, stream);
}

template <int LAYOUT> static int launch_layout(planned_launch *plan, cudaStream_t stream) {
    if constexpr (LAYOUT != LN_LAYOUT_INT8_ROW) /* which has LN_LINEAR_NORM_MIN_INT8_ROWS */
        if (plan->fused.n_rows <= 16)
            return launch_rows<LAYOUT, 16>(plan, stream);
    return plan->fused.n_rows <= 32 ? launch_rows<LAYOUT, 32>(plan, stream)
                                    : launch_rows<LAYOUT, 64>(plan, stream);
}

int ln_cuda_linear_norm(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                        const ln_cuda_step *step, ln_cuda_stream stream) {
    planned_launch args;
    int code = launch->converts_x ? ln_act_convert(&launch->x, stream) : 0;
    if (code != 0)
        return code;
    make_args(plan, launch, ops, step, &args);
    switch (args.args[0].parts[0].kind) {
    case LN_LAYOUT_F8_ROW: return launch_layout<LN_LAYOUT_F8_ROW>(&args, stream);
    case LN_LAYOUT_INT8_ROW: return launch_layout<LN_LAYOUT_INT8_ROW>(&args, stream);
    default: return launch_layout<LN_LAYOUT_BF16>(&args, stream);
    }
}
