/* Chains of 9 to 64 rows (linear_norm.cuh): the kernel, and what makes a chain. */
#include "backend/cuda/gemm/cublaslt.h"
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

/* ---- what makes a chain ---------------------------------------------------------------------- */

/* A chain that is being put together. */
typedef struct plan {
    chain_args chain;
    ln_gemm_args args[MAX_LINKS];
    ln_converted_act x; /* of the last link */
} plan;

static bool takes_linears(const ln_op *ops, size_t n_ops, const ln_converted_act *x) {
    const ln_op_linear *p = &ops->linear;
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].linear.precise)
            return false;
    return n_ops > 0 && p->weight->layout == LN_LAYOUT_BF16 && p->rows_per_x <= 1 &&
           p->n_rows <= LN_SMALL_M_ROWS && !ln_cublaslt_takes(x->blas, ops, n_ops);
}

/* Whether x is a panel that half of its memory has room for. */
static bool fits_half(const ln_converted_act &x) {
    size_t bytes = ln_act_view_of(&x).cols * LN_SMALL_M_ROWS * sizeof(__nv_bfloat16);
    return x.in_panels && bytes <= ln_act_half(&x);
}

/* Adds n linears, behind a norm unless that is NULL; false: they are no part of the chain. */
static bool add_link(plan *plan, const ln_op *norm_op, const ln_op *ops, size_t n,
                     const ln_cuda_step *step) {
    const ln_op_norm *norm = norm_op != NULL ? &norm_op->norm : NULL;
    chain_args *c = &plan->chain;
    const ln_op_linear *p = &ops->linear;
    if (c->n_links == MAX_LINKS || !takes_linears(ops, n, &plan->x))
        return false;
    ln_converted_act x = {};
    x.blas = plan->x.blas;
    x.memory = plan->x.memory;
    x.bytes = plan->x.bytes;
    ln_act_require(p, false, false, &x);
    size_t cols = ln_act_view_of(&x).cols;
    if (!fits_half(x) || x.n_rows != c->n_rows || x.stride != cols)
        return false;
    x.is_behind = !plan->x.is_behind;
    chain_link *l = &c->links[c->n_links];
    *l = {};
    if (norm != NULL) {
        if (norm->out != p->x || norm->n_rows != p->n_rows || norm->norm->dim != cols ||
            norm->residual != NULL || !ln_norm_converts(norm))
            return false;
        l->normalizes = true;
        l->norm = *norm->norm;
        l->from = norm->x;
        l->rows = norm->rows != NULL ? step->batch.logit_rows : NULL;
        bool stays = ln_value_stays_within(&step->uses[norm_op->out[LN_OUT]], n);
        l->normed = stays ? NULL : norm->out;
    } else {
        ln_gemm_args *last = &plan->args[c->n_links - 1];
        const ln_epilogue &e = last->parts[0].epilogue;
        if (last->n_parts > 1 || e.out != p->x || e.n_out != cols || e.out_stride != cols ||
            !ln_epilogue_is_plain(e))
            return false;
        last->converts = true;
        last->leaves_out = ln_value_stays_within(&step->uses[ops[-1].out[LN_OUT]], n);
        last->to = ln_act_view_of(&x);
    }
    l->has_gate = p->gate != NULL;
    plan->args[c->n_links++] = ln_gemm_make_args(ops, n, &x);
    plan->x = x;
    return true;
}

/* Adds what follows the first linears; the number of operations. */
static size_t build(plan *plan, const ln_op *ops, size_t n_ops, const ln_cuda_step *step) {
    for (size_t i = 0;;) {
        bool has_norm = i < n_ops && ops[i].kind == LN_OP_NORM;
        const ln_op *first = ops + i + has_norm;
        size_t n = ln_cuda_gemm_fusable(first, n_ops - i - has_norm);
        if (n == 0 || !add_link(plan, has_norm ? &ops[i] : NULL, first, n, step))
            return i;
        i += has_norm + n;
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

template <int ROWS> static int launch_chain(plan *plan, cudaStream_t stream) {
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

size_t ln_cuda_linear_norm(const ln_op *ops, size_t n_ops, const ln_cuda_step *step, ln_converted_act *x,
                          ln_cuda_stream stream, int *code) {
    size_t n_first = ln_cuda_gemm_fusable(ops, n_ops);
    if (step->fused_workspace == NULL || !ln_has_sm90a_code() || !takes_linears(ops, n_first, x))
        return 0;
    plan plan;
    chain_args &c = plan.chain;
    plan.x = *x;
    ln_act_require(&ops->linear, false, false, &plan.x);
    if (!fits_half(plan.x))
        return 0;
    c.memory = (chain_memory *)((char *)step->fused_workspace + LN_DECODE_FEW_BYTES);
    c.n_rows = (unsigned)ops->linear.n_rows;
    c.links[0] = {};
    c.links[0].has_gate = ops->linear.gate != NULL;
    plan.args[0] = ln_gemm_make_args(ops, n_first, &plan.x);
    c.n_links = 1;
    size_t n = n_first + build(&plan, ops + n_first, n_ops - n_first, step);
    if (c.n_links == 1)
        return 0;
    *code = ln_gemm_prepare_act(ops, n_first, false, x, stream);
    x->of = NULL;
    if (*code != 0)
        return n;
    if (c.n_rows <= 16)
        *code = launch_chain<16>(&plan, stream);
    else
        *code = c.n_rows <= 32 ? launch_chain<32>(&plan, stream) : launch_chain<64>(&plan, stream);
    return n;
}
