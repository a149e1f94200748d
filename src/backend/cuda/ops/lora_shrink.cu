/* LN_OP_LORA_SHRINK in float32 throughout: low = A x of the rows with an adapter (the shrink half
 * of Punica's and S-LoRA's grouped kernels; gemm/lora_expand.cu has the other one). On tensor
 * cores: lora_shrink_mma.cu.
 *
 * A block computes RANKS rows of one A for a run, up to LN_ADAPTER_RUN rows of x with the same
 * adapter. Thread t takes the groups of four columns t, t + 256, .. in order; then lanes and warps
 * are summed: what a row gets depends on the row and its adapter alone. Grid (runs, rows of the
 * greatest A / RANKS, weights and heads), block 256. Bytes moved: A once for a run, x from L2. */
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { THREADS = 256, WARPS = THREADS / LN_WARP, RANKS = 4, COLUMNS = 4 };

typedef struct shrink_args {
    ln_adapter_rows rows;
    const int32_t *n_runs;
    size_t n_heads, first_head; /* n_heads: of a row in x and low; the first that runs here */
    size_t heads_here;
    ln_adapter_heads weights[LN_MAX_LORA_WEIGHTS];
    float *low[LN_MAX_LORA_WEIGHTS];
    size_t low_stride, x_stride, n_in;
    bool is_aligned; /* float4 loads are fine */
    const float *x;
} shrink_args;

static __device__ __forceinline__ void load_four(const shrink_args &p, const float *row, size_t k,
                                                 float *out) {
    if (p.is_aligned) {
        float4 four = *(const float4 *)(row + k);
        out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
        return;
    }
    for (size_t i = 0; i < COLUMNS; i++)
        out[i] = k + i < p.n_in ? row[k + i] : 0.0f;
}

/* Sums over the thread's columns. */
static __device__ __forceinline__ void multiply(const shrink_args &p, const float *a,
                                                const size_t *at, unsigned n,
                                                float (&sum)[LN_ADAPTER_RUN][RANKS]) {
    for (size_t k = (size_t)threadIdx.x * COLUMNS; k < p.n_in; k += THREADS * COLUMNS) {
        float w[RANKS][COLUMNS];
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            load_four(p, a + (size_t)r * p.n_in, k, w[r]);
#pragma unroll
        for (unsigned i = 0; i < LN_ADAPTER_RUN; i++) {
            float x[COLUMNS];
            if (i >= n)
                break;
            load_four(p, p.x + at[i] * p.x_stride, k, x);
#pragma unroll
            for (int r = 0; r < RANKS; r++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    sum[i][r] = fmaf(x[j], w[r][j], sum[i][r]);
        }
    }
}

static __global__ void __launch_bounds__(THREADS) shrink(const __grid_constant__ shrink_args p) {
    __shared__ float sums[WARPS][LN_ADAPTER_RUN * RANKS];
    __shared__ size_t at[LN_ADAPTER_RUN];
    if (blockIdx.x >= (unsigned)*p.n_runs)
        return;
    const ln_adapter_run run = p.rows.runs[blockIdx.x];
    size_t head = blockIdx.z % p.heads_here, index = blockIdx.z / p.heads_here;
    size_t first = (size_t)blockIdx.y * RANKS;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned n = (unsigned)(run.end - run.begin);
    const ln_adapter_heads &weight = p.weights[index];
    ln_pdl_launch_and_wait();
    const ln_adapter_target *target =
        ln_adapter_target_of(weight.targets, run.slot); /* of head 0 */
    if (target == NULL || first >= target[head * weight.stride].rank)
        return;
    target += head * weight.stride;
    if (threadIdx.x < n)
        at[threadIdx.x] =
            (size_t)p.rows.order[run.begin + (int)threadIdx.x] * p.n_heads + p.first_head + head;
    __syncthreads();
    float sum[LN_ADAPTER_RUN][RANKS] = {};
    multiply(p, target->a + first * p.n_in, at, n, sum);
#pragma unroll
    for (unsigned i = 0; i < LN_ADAPTER_RUN; i++)
#pragma unroll
        for (unsigned r = 0; r < RANKS; r++) {
            if (i >= n)
                break;
            float of_warp = ln_warp_sum(sum[i][r]);
            if (lane == 0)
                sums[warp][i * RANKS + r] = of_warp;
        }
    __syncthreads();
    if (threadIdx.x >= n * RANKS)
        return;
    float total = sums[0][threadIdx.x];
    for (unsigned w = 1; w < WARPS; w++)
        total += sums[w][threadIdx.x];
    p.low[index][at[threadIdx.x / RANKS] * p.low_stride + first + threadIdx.x % RANKS] = total;
}

int ln_cuda_lora_shrink(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    size_t n_heads = p->n_heads > 0 ? p->n_heads : 1, n_in = p->weights[0]->n_cols;
    shrink_args args = {};
    if (p->groups.n_groups > 0)
        return ln_cuda_lora_shrink_groups(op, step, stream);
    if (step->adapter_scratch != NULL)
        return ln_cuda_lora_shrink_mma(op, step, stream);
    const ln_cuda_adapter_rows *rows = ln_cuda_find_adapter_rows(op, p->rows, step);
    args.rows = rows->rows;
    args.n_runs = rows->counts;
    args.n_heads = n_heads;
    args.low_stride = p->low_stride;
    args.n_in = n_in;
    args.x_stride = p->x_stride > 0 ? p->x_stride : n_in;
    args.is_aligned = n_in % COLUMNS == 0 && args.x_stride % COLUMNS == 0 &&
                      (uintptr_t)p->x % sizeof(float4) == 0;
    args.x = p->x;
    bool is_even = true;
    for (size_t i = 0; i < p->n_weights; i++) {
        args.low[i] = p->low[i];
        is_even &= ln_describe_adapters(p->weights[i], n_heads, &args.weights[i]);
    }
    args.heads_here = is_even ? n_heads : 1;
    for (; args.first_head < n_heads; args.first_head += args.heads_here) {
        for (size_t i = 0; i < p->n_weights && !is_even; i++)
            ln_describe_adapters(p->weights[i] + args.first_head, 1, &args.weights[i]);
        dim3 grid((unsigned)rows->most_runs, (unsigned)(p->low_stride / RANKS),
                  (unsigned)(p->n_weights * args.heads_here));
        int code = ln_pdl_launch(shrink, grid, THREADS, 0, stream, args);
        if (code != 0)
            return code;
    }
    return 0;
}
