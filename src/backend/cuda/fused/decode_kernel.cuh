/* The fused decode kernel (decode.cu) for lists of tasks without and with mixtures of experts, the
 * latter of one row alone: what a kernel may have to run takes registers from all that it runs. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_KERNEL_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_KERNEL_CUH

#include "backend/cuda/fused/decode_activations.cuh"
#include "backend/cuda/fused/decode_linear.cuh"
#include "backend/cuda/fused/grid_barrier.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

/* What a kernel takes; MIXES: its tasks may be mixtures, as decode_mixture.cuh has them. */
template <bool MIXES> struct ln_decode_types;

template <> struct ln_decode_types<false> {
    typedef ln_decode_list list;
    typedef ln_decode_pipeline pipeline;
    typedef struct {
    } state;
    enum { MAX_WEIGHTS = LN_DECODE_MAX_LINEARS };
};

/* Attention, of decode_attention.cuh, which a kernel's file includes, too: here its includes would
 * be too deep. */
template <int D> struct ln_decode_split_plan;

template <int D>
static __device__ void ln_decode_plan_split(const ln_decode_args &p, const ln_decode_attention &c,
                                            ln_decode_split_plan<D> &plan);
template <int D>
static __device__ void ln_decode_prefetch_split(const ln_decode_args &p,
                                                const ln_decode_attention &c,
                                                const ln_decode_split_plan<D> &plan, uint8_t *work);
template <int D>
static __device__ void
ln_decode_run_attention(const ln_decode_args &p, const ln_decode_attention &c,
                        ln_decode_split_plan<D> &plan, uint8_t *work, unsigned *grid_phase);

/* A mixture, of decode_mixture.cuh in the same way. */
template <int KIND, class MIXTURE, class PIPELINE>
static __device__ void ln_decode_run_mixture(const MIXTURE &m, const ln_decode_linear &x,
                                             uint8_t *work, float *shared, PIPELINE *r);

static_assert(sizeof(ln_decode_task) <= LN_DECODE_THREADS * sizeof(uint32_t), "a word a thread");
static_assert(LN_MAX_WARPS * sizeof(float) +
                      LN_DECODE_MAX_LINEARS * sizeof(ln_decode_weight_tiles) +
                      2 * sizeof(ln_decode_task) +
                      LN_DECODE_REDUCTIONS * sizeof(ln_decode_reduction) <=
                  LN_DECODE_DECLARED_BYTES,
              "shared memory that the kernel declares");

static_assert(2 * LN_DECODE_GATE_BUFFERS == 8 && LN_DECODE_GROUPS * LN_DECODE_GROUP_BUFFERS == 4,
              "as ln_decode_sums_floats has it");

/* Numbers of the next task of each kind. */
typedef struct ln_decode_counts {
    unsigned linear, attention, mixture;
} ln_decode_counts;

static __device__ constexpr bool ln_decode_is_for_hopper(void) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    return true;
#else
    return false;
#endif
}

/* Whether a task is a mixture. */
template <bool MIXES>
static __device__ __forceinline__ bool
ln_decode_mixes_at(const typename ln_decode_types<MIXES>::list &list, unsigned task) {
    if constexpr (MIXES)
        return list.is_mixture[task];
    else
        return false;
}

/* Word `threadIdx.x` of a task, of a mixture that of its x. */
template <bool MIXES>
static __device__ __forceinline__ uint32_t
ln_decode_task_word(const typename ln_decode_types<MIXES>::list &list, unsigned task,
                    const ln_decode_counts &next) {
    const ln_decode_args &p = list.p;
    size_t bytes = sizeof(ln_decode_linear);
    const void *from = &list.linears[next.linear];
    if (task < p.n_tasks && p.is_attention[task])
        from = &list.attentions[next.attention], bytes = sizeof(ln_decode_attention);
    if constexpr (MIXES)
        if (task < p.n_tasks && list.is_mixture[task])
            from = &list.mixtures[next.mixture].x;
    bool is_there = task < p.n_tasks && threadIdx.x < bytes / sizeof(uint32_t);
    return is_there ? ((const uint32_t *)from)[threadIdx.x] : 0;
}

static __device__ __forceinline__ void ln_decode_store_task(ln_decode_task *to, uint32_t word) {
    if (threadIdx.x < sizeof *to / sizeof word)
        ((uint32_t *)to)[threadIdx.x] = word;
}

/* What of a task, and of the attention behind it, can begin before its inputs are there. next:
 * numbers of the next ones, this task included. */
template <int D, bool MIXES>
static __device__ __forceinline__ void
ln_decode_prefetch_task(const typename ln_decode_types<MIXES>::list &list, unsigned number,
                        const ln_decode_counts &next, const ln_decode_task &task, uint8_t *memory) {
    const ln_decode_args &p = list.p;
    if constexpr (D > 0) {
        ln_decode_split_plan<D> &plan = *(ln_decode_split_plan<D> *)(memory + p.plan_offset);
        if (p.is_attention[number])
            ln_decode_prefetch_split<D>(p, task.attention, plan, memory + p.work_offset);
        else if (number + 1 < p.n_tasks && p.is_attention[number + 1])
            ln_decode_plan_split<D>(p, list.attentions[next.attention], plan);
    }
    if (!p.is_attention[number] && threadIdx.x / LN_WARP == LN_DECODE_WARPS - 1)
        ln_decode_prefetch_norm(task.linear);
    if constexpr (MIXES)
        if (list.is_mixture[number])
            ln_decode_prefetch_routers(list.mixtures[next.mixture]);
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
template <int KIND, bool ONE, class PIPELINE>
static __device__ __forceinline__ void ln_decode_run_linear(
    const ln_decode_args &p, const ln_decode_weight_tiles *weights, const ln_decode_linear &l,
    uint8_t *work, float *shared, ln_decode_reduction *reductions, PIPELINE *r,
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
template <int KIND, int D, bool ONE, bool MIXES>
static __global__ void __launch_bounds__(LN_DECODE_THREADS, 1)
    fused_decode(const __grid_constant__ typename ln_decode_types<MIXES>::list list) {
    static_assert(ONE || !MIXES, "mixtures are of one row");
    if constexpr (MIXES && !ln_decode_is_for_hopper()) /* nothing launches it */
        return;
    extern __shared__ __align__(128) uint8_t memory[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ ln_decode_weight_tiles weights[ln_decode_types<MIXES>::MAX_WEIGHTS];
    __shared__ ln_decode_task tasks[2];
    __shared__ ln_decode_reduction reductions[LN_DECODE_REDUCTIONS];
    __shared__ typename ln_decode_types<MIXES>::state state;
    const ln_decode_args &p = list.p;
    typename ln_decode_types<MIXES>::pipeline pipeline;
    ln_decode_reduction_counts counts = {};
    ln_decode_counts next = {};
    ln_pdl_launch_dependents();
    for (unsigned i = threadIdx.x; i < p.n_linears * sizeof *weights / 4; i += LN_DECODE_THREADS)
        ((uint32_t *)weights)[i] = ((const uint32_t *)list.weights)[i];
    ln_decode_store_task(&tasks[0], ln_decode_task_word<MIXES>(list, 0, next));
    if (threadIdx.x == 0)
        ln_decode_init_reductions(p.n_rows, reductions);
    __syncthreads();
    if constexpr (MIXES)
        ln_decode_init_mixtures(p, weights, &state, &pipeline);
    ln_decode_init_pipeline<KIND>(p, weights, memory, &pipeline);
    ln_pdl_wait();
    unsigned grid_phase = ln_grid_barrier_phase(p.barrier_count); /* thread 0's is kept */
    const bool hands_off = p.n_handoff_floats > 0 || p.n_tasks > 1;
    ln_handoff_clear(p.handoff, p.n_handoff_floats);
    __syncthreads();
    if (hands_off && threadIdx.x == 0)
        ln_grid_barrier_arrive(p.barrier_count); /* the first task waits for all blocks */
    ln_decode_prefetch_task<D, MIXES>(list, 0, next, tasks[0], memory);
    for (unsigned task = 0; task < p.n_tasks; task++) {
        const ln_decode_task &now = tasks[task % 2];
        bool attends = p.is_attention[task], mixes = ln_decode_mixes_at<MIXES>(list, task);
        next.linear += !attends && !mixes, next.attention += attends, next.mixture += mixes;
        uint32_t word = ln_decode_task_word<MIXES>(list, task + 1, next); /* arrives meanwhile */
        if (mixes) {
            if constexpr (MIXES)
                ln_decode_run_mixture<KIND>(list.mixtures[next.mixture - 1], now.linear,
                                            memory + p.work_offset, shared, &pipeline);
        } else if (!attends) {
            ln_decode_run_linear<KIND, ONE>(p, weights, now.linear, memory + p.work_offset, shared,
                                            reductions, &pipeline, &counts, hands_off && task == 0,
                                            &grid_phase);
        } else if constexpr (D > 0) {
            ln_decode_run_attention<D>(p, now.attention,
                                       *(ln_decode_split_plan<D> *)(memory + p.plan_offset),
                                       memory + p.work_offset, &grid_phase);
        }
        if (task + 1 == p.n_tasks)
            break;
        ln_decode_store_task(&tasks[(task + 1) % 2], word);
        __syncthreads();
        ln_decode_prefetch_task<D, MIXES>(list, task + 1, next, tasks[(task + 1) % 2], memory);
    }
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND, int D, bool ONE, bool MIXES>
static int ln_decode_launch(typename ln_decode_types<MIXES>::list &list, size_t work_bytes,
                            cudaStream_t stream) {
    ln_decode_args &args = list.p;
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(fused_decode<KIND, D, ONE, MIXES>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    LN_DECODE_SHARED_BYTES);
    if (code != 0)
        return code;
    args.n_stages = (unsigned)ln_decode_stages_beside(KIND, work_bytes);
    args.work_offset = args.n_stages * LN_DECODE_WARPS * ln_decode_stage_bytes(KIND);
    args.plan_offset = args.work_offset + (unsigned)ln_decode_align(work_bytes);
    args.barriers_offset = args.plan_offset + LN_DECODE_PLAN_BYTES;
    /* all of it, so that blocks do not share an SM */
    return ln_pdl_launch(fused_decode<KIND, D, ONE, MIXES>, dim3(n_sms), LN_DECODE_THREADS,
                         LN_DECODE_SHARED_BYTES, stream, list);
}

#endif
