/* Chains of 9 to 64 rows (linear_norm.cuh): the kernel, and what makes a chain. */
#include "backend/cuda/launch.h"
#include "backend/cuda/runtime/sm_count.cuh"
#include "backend/cuda/fused/linear_norm_statistics.cuh"
#include "backend/cuda/fused/linear_norm_mma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Waits for a link's x; by one thread of each block. */
static __device__ __forceinline__ void wait_for_x(const chain_args &c, unsigned number) {
    chain_counts &counts = c.memory->counts;
    if (number == 0)
        ln_pdl_wait();
    else if (c.links[number].normalizes)
        wait_for_count(&counts.normed[number], min(gridDim.x, c.n_rows));
    else
        wait_for_count(&counts.done[number - 1], gridDim.x);
    if (number + 1 < c.n_links)
        return;
    ln_pdl_launch_dependents();
    if (atomicAdd(&counts.ended, 1) == gridDim.x - 1)
        counts = {};
}

#endif

template <int ROWS>
static __global__ void __launch_bounds__(FEW_THREADS, 1)
    run_links(const __grid_constant__ chain_args c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ chain_barriers bars;
    __shared__ float shared[LN_MAX_WARPS];
    float *sums = (float *)memory;
    char *weights = memory + RINGS_AT;
    const chain_rings rings = {weights, weights + c.n_stages * chain_stage<ROWS>::W_BYTES, &bars};
    if (threadIdx.x == 0)
        init_rings(c.n_stages, bars);
    __syncthreads();
    few_place at = {0, threadIdx.x >= WORKERS}, x_at = at;
    if (threadIdx.x < WORKERS)
        ln_pdl_wait();
#pragma unroll 1
    for (unsigned i = 0; i < c.n_links; i++) {
        const chain_link &l = c.links[i];
        if (threadIdx.x < WORKERS) {
            if (l.normalizes)
                normalize(c, i, sums, shared);
            work<ROWS>(c, l, rings, sums, at, x_at);
            if (i + 1 < c.n_links)
                count_block(&c.memory->counts.done[i], l.linears.p.converts);
        } else if (threadIdx.x == WORKERS) {
            bring_weights<ROWS>(c, l, rings, at);
        } else if (threadIdx.x == WORKERS + LN_WARP) {
            wait_for_x(c, i);
            bring_rows<ROWS>(c, l, rings, x_at);
        }
    }
#endif
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A planned launch with its arguments. */
typedef struct linked {
    chain_args chain;
    ln_gemm_args args[MAX_LINKS];
} linked;

/* Whether nobody else reads what an operation gives. */
static bool is_left_out(const ln_cuda_plan *plan, const ln_op *op) {
    return plan->places[op->out[LN_OUT]].is_left_out;
}

/* Where the norm in front of a link's linears reads and writes. */
static void set_norm(const ln_cuda_plan *plan, const ln_op *op, const ln_cuda_step *step,
                     chain_link *l) {
    const ln_op_norm *p = &op->norm;
    l->normalizes = true;
    l->norm = *p->norm;
    l->from = p->x;
    l->rows = p->rows != NULL ? step->batch.logit_rows : NULL;
    l->normed = is_left_out(plan, op) ? NULL : p->out;
}

static void make_links(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                       const ln_cuda_step *step, linked *to) {
    const ln_cuda_task *tasks = plan->tasks + launch->first_task;
    ln_converted_act x = launch->x;
    chain_args &c = to->chain;
    c.memory = (chain_memory *)((char *)step->fused_workspace + LN_DECODE_FEW_BYTES);
    c.n_rows = (unsigned)ops[tasks->first].linear.n_rows;
    c.n_links = launch->n_tasks;
    for (unsigned i = 0; i < c.n_links; i++) {
        const ln_op *first = &ops[tasks[i].first + tasks[i].has_norm];
        chain_link &l = c.links[i];
        l = {};
        l.has_gate = first->linear.gate != NULL;
        if (i > 0) {
            bool is_behind = !x.is_behind;
            x = ln_act_none(&x);
            ln_act_require(first, false, false, true, &x);
            x.is_behind = is_behind;
        }
        to->args[i] = ln_gemm_make_args(first, tasks[i].n_linears, &x);
        if (tasks[i].has_norm) {
            set_norm(plan, first - 1, step, &l);
        } else if (i > 0) { /* the linear before writes its result as this one's x */
            to->args[i - 1].converts = true;
            to->args[i - 1].leaves_out = is_left_out(plan, first - 1);
            to->args[i - 1].to = ln_act_view_of(&x);
        }
    }
}

/* How a link's linears are divided among blocks. */
static int divide(const ln_gemm_args &args, unsigned n_cores, few_args *a) {
    unsigned columns = args.parts[0].gate != NULL ? UNIT_COLUMNS / 2 : UNIT_COLUMNS;
    a->p = args;
    a->n_items = ln_gemm_output_tiles(args, columns) * LN_K_SPLITS;
    a->per_block = ln_ceil_div(a->n_items, min(n_cores, (unsigned)LN_SPLIT_K_BLOCKS));
    return map_weights<LN_LAYOUT_BF16, chain_stage<64>>(args, a);
}

template <int ROWS> static int launch_chain(linked *plan, cudaStream_t stream) {
    typedef few_stage<LN_LAYOUT_BF16, ROWS, false> shape;
    constexpr unsigned ROOM = CHAIN_SHARED - RINGS_AT, X_BYTES = X_STAGES * shape::X_BYTES;
    chain_args &c = plan->chain;
    unsigned n_cores, n_blocks = 0;
    int code = ln_count_sms(&n_cores);
    for (unsigned i = 0; i < c.n_links && code == 0; i++) {
        few_args *a = &c.links[i].linears;
        code = divide(plan->args[i], n_cores, a);
        n_blocks = max(n_blocks, ln_ceil_div(a->n_items, a->per_block));
    }
    c.n_stages = min((ROOM - X_BYTES) / shape::W_BYTES, (unsigned)MAX_STAGES);
    if (code == 0)
        code = cudaFuncSetAttribute(run_links<ROWS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)CHAIN_SHARED);
    if (code != 0)
        return code;
    return ln_pdl_launch(run_links<ROWS>, dim3(n_blocks), FEW_THREADS,
                     RINGS_AT + c.n_stages * shape::W_BYTES + X_BYTES, stream, c);
}

int ln_cuda_linear_norm(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                        const ln_cuda_step *step, ln_cuda_stream stream) {
    linked links;
    int code = launch->converts_x ? ln_act_convert(&launch->x, stream) : 0;
    if (code != 0)
        return code;
    make_links(plan, launch, ops, step, &links);
    if (links.chain.n_rows <= 16)
        return launch_chain<16>(&links, stream);
    return links.chain.n_rows <= 32 ? launch_chain<32>(&links, stream)
                                    : launch_chain<64>(&links, stream);
}
