/* Fused linear + norm kernel on Hopper, 9 to 64 rows, BF16 weights: up to four linears one after
 * another with the norms between them, as persistent CTAs. M = 64 output columns to a tile (weights
 * are the A operand), N = 16, 32 or 64 rows, K in 8 splits, with the order of sums of
 * gemm/sm90_small_m.cu.
 *
 * Weights run through one pipeline whatever linear they are of, so memory is read while blocks wait
 * for each other's outputs: once all have stored theirs, rows are normalised by a block each, and
 * once all rows are there, activations are fetched. A gated linear's output is converted to the
 * next linear's activations where it is made. The two halves of the activation buffer alternate.
 *
 * Grid: as many blocks as the largest linear has work for, at most one an SM, all resident at once.
 * Block 320: 8 consumer warps, a producer warp for weights, one for activations. Shared memory: an
 * output tile or a norm's row; its residual or the norm's weights; pipeline stages of weights (as
 * many as fit, up to 16) and of activations (5). Bytes moved: weights once. Code that runs once
 * between linears is not unrolled, as instructions come from memory, too. */
#include "backend/cuda/activations/convert.h"
#include "backend/cuda/gemm/tensor_maps.cuh"
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/linear_norm_mma.cuh"
#include "backend/cuda/fused/linear_norm_pipeline.cuh"
#include "backend/cuda/fused/linear_norm_statistics.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Waits for a linear's activations; by one thread of each block. */
static __device__ __forceinline__ void wait_for_x(const fused_args &c, unsigned number) {
    grid_counts &counts = c.memory->counts;
    if (number == 0)
        ln_pdl_wait();
    else if (c.linears[number].normalizes)
        wait_for_blocks(&counts.normed[number], min(gridDim.x, c.n_rows));
    else
        wait_for_blocks(&counts.done[number - 1], gridDim.x);
    if (number + 1 < c.n_linears)
        return;
    ln_pdl_launch_dependents();
    if (atomicAdd(&counts.ended, 1) == gridDim.x - 1)
        counts = {};
}

#endif

template <int ROWS>
static __global__ void __launch_bounds__(SMALL_M_THREADS, 1)
    linear_norm(const __grid_constant__ fused_args c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ pipeline_barriers bars;
    __shared__ float shared[LN_MAX_WARPS];
    float *sums = (float *)memory;
    char *weights = memory + STAGES_OFFSET;
    const pipelines pipes = {weights, weights + c.n_stages * stage_shape<ROWS>::W_BYTES, &bars};
    if (threadIdx.x == 0)
        init_pipelines(c.n_stages, bars);
    __syncthreads();
    ln_pipeline_stage at = {0, threadIdx.x >= CONSUMERS}, x_at = at;
    if (threadIdx.x < CONSUMERS)
        ln_pdl_wait();
#pragma unroll 1
    for (unsigned i = 0; i < c.n_linears; i++) {
        const fused_linear &l = c.linears[i];
        if (threadIdx.x < CONSUMERS) {
            if (l.normalizes)
                normalize(c, i, sums, shared);
            consume<ROWS>(c, l, pipes, sums, at, x_at);
            if (i + 1 < c.n_linears)
                arrive_block(&c.memory->counts.done[i], l.gemm.p.converts);
        } else if (threadIdx.x == CONSUMERS) {
            produce_weights<ROWS>(c, l, pipes, at);
        } else if (threadIdx.x == CONSUMERS + LN_WARP) {
            wait_for_x(c, i);
            produce_rows<ROWS>(c, l, pipes, x_at);
        }
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

static void make_args(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                      const ln_cuda_step *step, planned_launch *to) {
    const ln_cuda_task *tasks = plan->tasks + launch->first_task;
    ln_converted_act x = launch->x;
    fused_args &c = to->fused;
    c.memory = (fused_workspace *)((char *)step->fused_workspace + LN_DECODE_WORKSPACE_BYTES);
    c.n_rows = (unsigned)ops[tasks->first].linear.n_rows;
    c.n_linears = launch->n_tasks;
    for (unsigned i = 0; i < c.n_linears; i++) {
        const ln_op *first = &ops[tasks[i].first + tasks[i].has_norm];
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
        if (tasks[i].has_norm) {
            set_norm(plan, first - 1, step, &l);
        } else if (i > 0) { /* the linear before writes its result as this one's x */
            to->args[i - 1].converts = true;
            to->args[i - 1].leaves_out = is_left_out(plan, first - 1);
            to->args[i - 1].to = ln_act_view_of(&x);
        }
    }
}

/* Divides the K splits of a linear's output tiles among blocks. */
static int schedule(const ln_gemm_args &args, unsigned n_sms, small_m_args *a) {
    unsigned columns = args.parts[0].gate != NULL ? TILE_N / 2 : TILE_N;
    a->p = args;
    a->n_items = ln_gemm_output_tiles(args, columns) * LN_K_SPLITS;
    a->per_block = ln_ceil_div(a->n_items, n_sms);
    unsigned rows = stage_shape<64>::UNIT_ROWS / (args.parts[0].gate != NULL ? 2 : 1);
    return map_parts(LN_LAYOUT_BF16, args, rows, stage_shape<64>::TILES, a->weights, &a->gate);
}

template <int ROWS> static int launch_kernel(planned_launch *plan, cudaStream_t stream) {
    typedef small_m_stage<LN_LAYOUT_BF16, ROWS, false> shape;
    constexpr unsigned X_BYTES = X_STAGES * shape::X_BYTES;
    fused_args &c = plan->fused;
    unsigned n_sms, shared, n_blocks = 0;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = ln_max_shared_bytes(&shared);
    for (unsigned i = 0; i < c.n_linears && code == 0; i++) {
        small_m_args *a = &c.linears[i].gemm;
        code = schedule(plan->args[i], n_sms, a);
        n_blocks = max(n_blocks, ln_ceil_div(a->n_items, a->per_block));
    }
    if (code != 0)
        return code;
    shared -= STATIC_SHARED;
    c.n_stages = min((shared - STAGES_OFFSET - X_BYTES) / shape::W_BYTES, (unsigned)SMALL_M_STAGES);
    code = cudaFuncSetAttribute(linear_norm<ROWS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)shared);
    if (code != 0)
        return code;
    return ln_pdl_launch(linear_norm<ROWS>, dim3(n_blocks), SMALL_M_THREADS,
                         STAGES_OFFSET + c.n_stages * shape::W_BYTES + X_BYTES, stream, c);
}

int ln_cuda_linear_norm(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                        const ln_cuda_step *step, ln_cuda_stream stream) {
    planned_launch args;
    int code = launch->converts_x ? ln_act_convert(&launch->x, stream) : 0;
    if (code != 0)
        return code;
    make_args(plan, launch, ops, step, &args);
    if (args.fused.n_rows <= 16)
        return launch_kernel<16>(&args, stream);
    return args.fused.n_rows <= 32 ? launch_kernel<32>(&args, stream)
                                   : launch_kernel<64>(&args, stream);
}
