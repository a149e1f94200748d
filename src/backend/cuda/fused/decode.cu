/* Fused decode kernel (megakernel) on Hopper: norms, linears, RoPE, KV write and split-KV attention
 * of up to four rows as one launch of persistent CTAs.
 *
 * The kernel runs a list of tasks: linears that share activations, with the norm in front of them;
 * or RoPE, KV write and attention. Each block makes the activations for itself. Weights of all
 * linears run through a pipeline of stages for each warp (cp.async.bulk, mbarriers), from linear to
 * linear without a break and from ahead of the PDL wait on, so memory is read while blocks wait.
 *
 * Blocks hand results to each other value by value (decode_handoff.cuh), without grid barriers
 * between tasks, so some blocks are ahead of others. Nothing that a slow block still reads may be
 * overwritten; plan/decode.c chooses tasks of which that is true, and a result is also stored to
 * its own memory only where no later task stores to it.
 *
 * Grid: one block an SM. Block 512: two groups of 8 warps, each an output tile of 16 columns with K
 * split over the 8 warps; with a gate the second group computes it. Shared memory: stages [16
 * warps][n_stages]; work memory of a task: KV tiles of a split, or split-K partial sums [2
 * groups][2], or [4][up, gate], of [8 splits][16][n_rows | 1], and the activations; the plan of the
 * next KV split; mbarriers [16][n_stages]. Bytes moved: weights, K and V once. */
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/decode_activations.cuh"
#include "backend/cuda/fused/decode_attention.cuh"
#include "backend/cuda/fused/decode_linear.cuh"
#include "backend/cuda/fused/grid_barrier.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

/* Word `threadIdx.x` of a task; linear, attention: numbers of the next of each kind. */
static __device__ __forceinline__ uint32_t task_word(const ln_decode_args &p, unsigned task,
                                                     unsigned linear, unsigned attention) {
    size_t bytes = sizeof(ln_decode_linear);
    const void *from = &p.linears[linear];
    if (task < p.n_tasks && p.is_attention[task])
        from = &p.attentions[attention], bytes = sizeof(ln_decode_attention);
    bool is_there = task < p.n_tasks && threadIdx.x < bytes / sizeof(uint32_t);
    return is_there ? ((const uint32_t *)from)[threadIdx.x] : 0;
}

static_assert(sizeof(ln_decode_task) <= LN_DECODE_THREADS * sizeof(uint32_t), "a word a thread");
static_assert(LN_MAX_WARPS * sizeof(float) +
                      LN_DECODE_MAX_LINEARS * sizeof(ln_decode_weight_tiles) +
                      2 * sizeof(ln_decode_task) +
                      LN_DECODE_REDUCTIONS * sizeof(ln_decode_reduction) <=
                  LN_DECODE_DECLARED_BYTES,
              "shared memory that the kernel declares");

static_assert(2 * LN_DECODE_GATE_BUFFERS == 8 && LN_DECODE_GROUPS * LN_DECODE_GROUP_BUFFERS == 4,
              "as ln_decode_sums_floats has it");

static __device__ __forceinline__ void store_task(ln_decode_task *to, uint32_t word) {
    if (threadIdx.x < sizeof *to / sizeof word)
        ((uint32_t *)to)[threadIdx.x] = word;
}

/* What of a task, and of the attention behind it, can begin before its inputs are there. attention:
 * the number of the next one. */
template <int D>
static __device__ __forceinline__ void prefetch_task(const ln_decode_args &p, unsigned number,
                                                     unsigned attention, const ln_decode_task &task,
                                                     uint8_t *memory) {
    if constexpr (D > 0) {
        ln_decode_split_plan<D> &plan = *(ln_decode_split_plan<D> *)(memory + p.plan_offset);
        if (p.is_attention[number])
            ln_decode_prefetch_split<D>(p, task.attention, plan, memory + p.work_offset);
        else if (number + 1 < p.n_tasks && p.is_attention[number + 1])
            ln_decode_plan_split<D>(p, p.attentions[attention], plan);
    }
    if (!p.is_attention[number] && threadIdx.x / LN_WARP == LN_DECODE_WARPS - 1)
        ln_decode_prefetch_norm(task.linear);
}

/* Holds the block until all blocks have arrived. */
static __device__ __forceinline__ void ln_decode_sync_grid(const ln_decode_args &p,
                                                           unsigned *grid_phase) {
    if (threadIdx.x == 0)
        ln_grid_barrier_wait(p.barrier_count, grid_phase);
    __syncthreads();
}

/* One task, at `work` in shared memory. waits_for_grid: blocks wait for each other ahead of the
 * first hand-off, norms included. For a single row what the first output tile needs is loaded ahead
 * of the activations; for more, registers do not suffice. */
template <int KIND, bool ONE>
static __device__ __forceinline__ void ln_decode_run_linear(
    const ln_decode_args &p, const ln_decode_weight_tiles *weights, const ln_decode_linear &l,
    uint8_t *work, float *shared, ln_decode_reduction *reductions, ln_decode_pipeline *r,
    ln_decode_reduction_counts *counts, bool waits_for_grid, unsigned *grid_phase) {
    float *sums = (float *)work;
    const unsigned n_rows = ONE ? 1 : p.n_rows,
                   n_reduced = l.has_gate ? counts->by_block : counts->by_group;
    uint8_t *at = (uint8_t *)(sums + ln_decode_reduction_floats(n_rows, l.has_gate));
    ln_act_view x = {};
    bool hands_off_norms = l.normed_handoff != NULL;
    if (waits_for_grid && hands_off_norms)
        ln_decode_sync_grid(p, grid_phase);
    ln_decode_output_tile first = {};
    if (ONE)
        first = ln_decode_begin_tile<KIND>(l, n_rows, 0, n_reduced);
    if (blockIdx.x < l.n_output_tiles)
        x = ln_decode_make_act<KIND>(p, weights, l, n_rows, at, shared, r);
    __syncthreads();
    if (waits_for_grid && !hands_off_norms)
        ln_decode_sync_grid(p, grid_phase);
    if (!ONE)
        first = ln_decode_begin_tile<KIND>(l, n_rows, 0, n_reduced);
    ln_decode_multiply_tiles<KIND, ONE>(p, weights, l, x, sums, reductions, r, counts, first);
}

/* ONE: a single row. */
template <int KIND, int D, bool ONE>
static __global__ void __launch_bounds__(LN_DECODE_THREADS, 1)
    fused_decode(const __grid_constant__ ln_decode_args p) {
    extern __shared__ __align__(128) uint8_t memory[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ ln_decode_weight_tiles weights[LN_DECODE_MAX_LINEARS];
    __shared__ ln_decode_task tasks[2];
    __shared__ ln_decode_reduction reductions[LN_DECODE_REDUCTIONS];
    ln_decode_pipeline ring;
    ln_decode_reduction_counts counts = {};
    unsigned linear = 0, attention = 0;
    ln_pdl_launch_dependents();
    for (unsigned i = threadIdx.x; i < p.n_linears * sizeof *weights / 4; i += LN_DECODE_THREADS)
        ((uint32_t *)weights)[i] = ((const uint32_t *)p.weights)[i];
    store_task(&tasks[0], task_word(p, 0, 0, 0));
    if (threadIdx.x == 0)
        ln_decode_init_reductions(p.n_rows, reductions);
    __syncthreads();
    ln_decode_init_pipeline<KIND>(p, weights, memory, &ring);
    ln_pdl_wait();
    unsigned grid_phase = ln_grid_barrier_phase(p.barrier_count); /* thread 0's is kept */
    const bool hands_off = p.n_handoff_floats > 0 || p.n_tasks > 1;
    ln_handoff_clear(p.handoff, p.n_handoff_floats);
    __syncthreads();
    if (hands_off && threadIdx.x == 0)
        ln_grid_barrier_arrive(p.barrier_count); /* the first task waits for all blocks */
    prefetch_task<D>(p, 0, 0, tasks[0], memory);
    for (unsigned task = 0; task < p.n_tasks; task++) {
        const ln_decode_task &now = tasks[task % 2];
        bool attends = p.is_attention[task];
        linear += !attends, attention += attends;
        uint32_t word = task_word(p, task + 1, linear, attention); /* arrives in the meantime */
        if (!attends)
            ln_decode_run_linear<KIND, ONE>(p, weights, now.linear, memory + p.work_offset, shared,
                                            reductions, &ring, &counts, hands_off && task == 0,
                                            &grid_phase);
        else if constexpr (D > 0)
            ln_decode_run_attention<D>(p, now.attention,
                                       *(ln_decode_split_plan<D> *)(memory + p.plan_offset),
                                       memory + p.work_offset, &grid_phase);
        if (task + 1 == p.n_tasks)
            break;
        store_task(&tasks[(task + 1) % 2], word);
        __syncthreads();
        prefetch_task<D>(p, task + 1, attention, tasks[(task + 1) % 2], memory);
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Where a planned launch reads and stores values. */
typedef struct handoff_memory {
    const ln_cuda_plan *plan;
    const ln_cuda_launch *launch;
    float *floats;
} handoff_memory;

/* Where the kernel reads a value: from the hand-off, or where it lies. */
static const float *source_of(const handoff_memory &m, ln_value value, const float *at,
                              bool *is_handed_off) {
    *is_handed_off = ln_cuda_reads_handoff(m.plan, m.launch, value);
    return *is_handed_off ? m.floats + m.plan->places[value].handoff : at;
}

/* Where the kernel hands a value off, or NULL. */
static float *handoff_of(const handoff_memory &m, ln_value value) {
    const ln_cuda_place &place = m.plan->places[value];
    return place.is_handed_off ? m.floats + place.handoff : NULL;
}

/* Where it stores the value for other kernels, or NULL. */
static float *plain_of(const handoff_memory &m, ln_value value, float *at) {
    return m.plan->places[value].is_left_out ? NULL : at;
}

static void set_norm(const handoff_memory &m, const ln_op *op, const ln_cuda_step *step,
                     ln_decode_linear *l) {
    const ln_op_norm *p = &op->norm;
    l->normalizes = true;
    l->norm = *p->norm;
    l->rows = ln_cuda_norm_rows(op, step);
    l->normed = plain_of(m, op->out[LN_OUT], p->out);
    l->normed_handoff = handoff_of(m, op->out[LN_OUT]);
    l->x.at = source_of(m, op->in[LN_IN_X], p->x, &l->x.is_handed_off);
}

static ln_decode_linear make_linear(const handoff_memory &m, const ln_cuda_task &task,
                                    const ln_op *ops, const ln_cuda_step *step) {
    const ln_op *first = &ops[task.first + task.has_norm];
    const ln_op_linear *p = &first->linear;
    int kind = ln_decode_kind((int)p->weight->layout);
    ln_decode_linear l = {};
    l.n_parts = task.n_linears;
    const unsigned n_cols = (unsigned)p->weight->n_cols;
    l.x.n_cols = n_cols;
    l.x.stride = p->x_stride > 0 ? (unsigned)p->x_stride : n_cols;
    l.k_tiles = (unsigned)(ln_weight_tile_padded_cols(kind, n_cols) / ln_weight_tile_cols(kind));
    l.x_cols = (unsigned)ln_decode_x_cols(kind, n_cols);
    l.has_gate = p->gate != NULL;
    for (unsigned i = 0; i < l.n_parts; i++) {
        ln_gemm_part &part = l.parts[i];
        ln_value out = first[i].out[LN_OUT];
        part = ln_gemm_make_part(&first[i].linear);
        part.epilogue.out = plain_of(m, out, part.epilogue.out);
        l.handoff[i] = handoff_of(m, out);
        l.precise |= part.precise;
        l.n_output_tiles += ln_ceil_div(part.epilogue.n_out, LN_WEIGHT_TILE_ROWS);
    }
    if (p->residual != NULL)
        l.parts[0].epilogue.residual =
            source_of(m, first->in[LN_IN_RESIDUAL], p->residual, &l.residual_is_handed_off);
    if (task.has_norm)
        set_norm(m, &ops[task.first], step, &l);
    else
        l.x.at = source_of(m, first->in[LN_IN_X], p->x, &l.x.is_handed_off);
    return l;
}

static ln_decode_weight_tiles weights_of(const ln_decode_linear &l) {
    ln_decode_weight_tiles w = {};
    w.gate = l.parts[0].gate;
    w.k_tiles = l.k_tiles;
    for (unsigned i = 0, end = 0; i < LN_GEMM_MAX_PARTS; i++) {
        bool is_there = i < l.n_parts;
        end += is_there ? ln_ceil_div(l.parts[i].epilogue.n_out, LN_WEIGHT_TILE_ROWS) : 0;
        w.parts[i] = is_there ? l.parts[i].weight : NULL;
        w.tile_ends[i] = end;
        w.kinds[i] = l.parts[i].kind;
    }
    return w;
}

static ln_decode_attention make_attention(const handoff_memory &m, const ln_op *qkv,
                                          const ln_cuda_step *step) {
    const ln_op *attention = qkv + 1;
    ln_attention_args args = ln_make_attention_args(&attention->attention, step);
    ln_decode_attention a;
    bool is_handed_off;
    a.qkv = ln_make_qkv_args(&qkv->qkv, step);
    a.mma = ln_make_mma_attention_args(&args, step);
    a.qkv.q = (float *)source_of(m, qkv->in[LN_IN_Q], a.qkv.q, &is_handed_off);
    a.qkv.k = (float *)source_of(m, qkv->in[LN_IN_K], a.qkv.k, &is_handed_off);
    a.qkv.v = source_of(m, qkv->in[LN_IN_V], a.qkv.v, &is_handed_off);
    a.mma.a.out = plain_of(m, attention->out[LN_OUT], a.mma.a.out);
    a.handoff = handoff_of(m, attention->out[LN_OUT]);
    return a;
}

/* All but the layout of shared memory. */
static void make_args(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                      const ln_cuda_step *step, ln_decode_args *args) {
    const ln_cuda_task *tasks = plan->tasks + launch->first_task;
    args->barrier_count = step->fused_workspace;
    args->handoff = (float *)((char *)step->fused_workspace + LN_DECODE_COUNTER_BYTES);
    args->n_handoff_floats = (unsigned)launch->n_handoff_floats;
    args->n_rows = (unsigned)ops[tasks->first + tasks->has_norm].linear.n_rows;
    args->n_linears = args->n_attentions = 0;
    args->n_tasks = launch->n_tasks;
    const handoff_memory m = {plan, launch, args->handoff};
    for (unsigned i = 0; i < args->n_tasks; i++) {
        args->is_attention[i] = tasks[i].n_linears == 0;
        if (args->is_attention[i]) {
            args->attentions[args->n_attentions++] = make_attention(m, &ops[tasks[i].first], step);
            continue;
        }
        ln_decode_linear &l = args->linears[args->n_linears];
        l = make_linear(m, tasks[i], ops, step);
        args->weights[args->n_linears++] = weights_of(l);
    }
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND, int D, bool ONE>
static int launch_kernel(ln_decode_args &args, size_t work_bytes, cudaStream_t stream) {
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(fused_decode<KIND, D, ONE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    LN_DECODE_SHARED_BYTES);
    if (code != 0)
        return code;
    args.n_stages = (unsigned)ln_decode_stages_beside(KIND, work_bytes);
    args.work_offset = args.n_stages * LN_DECODE_WARPS * ln_decode_stage_bytes(KIND);
    args.plan_offset = args.work_offset + (unsigned)ln_decode_align(work_bytes);
    args.barriers_offset = args.plan_offset + LN_DECODE_PLAN_BYTES;
    /* all of it, so that blocks do not share an SM */
    return ln_pdl_launch(fused_decode<KIND, D, ONE>, dim3(n_sms), LN_DECODE_THREADS,
                         LN_DECODE_SHARED_BYTES, stream, args);
}

template <int KIND, int D>
static int launch_rows(ln_decode_args &args, size_t work_bytes, cudaStream_t stream) {
    return args.n_rows == 1 ? launch_kernel<KIND, D, true>(args, work_bytes, stream)
                            : launch_kernel<KIND, D, false>(args, work_bytes, stream);
}

template <int KIND>
static int launch_kind(ln_decode_args &args, size_t work_bytes, cudaStream_t stream) {
    if (args.n_attentions == 0)
        return launch_rows<KIND, 0>(args, work_bytes, stream);
    return args.attentions[0].mma.a.kv.k_dim == 64
               ? launch_rows<KIND, 64>(args, work_bytes, stream)
               : launch_rows<KIND, 128>(args, work_bytes, stream);
}

int ln_cuda_fused_decode(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                         const ln_cuda_step *step, ln_cuda_stream stream) {
    ln_decode_args args;
    make_args(plan, launch, ops, step, &args);
    switch (ln_decode_kind(args.linears[0].parts[0].kind)) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(args, launch->work_bytes, stream);
    case LN_LAYOUT_INT8: return launch_kind<LN_LAYOUT_INT8>(args, launch->work_bytes, stream);
    case LN_LAYOUT_INT4: return launch_kind<LN_LAYOUT_INT4>(args, launch->work_bytes, stream);
    case LN_LAYOUT_INT8_ROW:
        return launch_kind<LN_LAYOUT_INT8_ROW>(args, launch->work_bytes, stream);
    case LN_LAYOUT_F8_ROW: return launch_kind<LN_LAYOUT_F8_ROW>(args, launch->work_bytes, stream);
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(args, launch->work_bytes, stream);
    default: return cudaErrorInvalidValue;
    }
}
