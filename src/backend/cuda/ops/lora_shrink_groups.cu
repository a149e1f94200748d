/* LN_OP_LORA_SHRINK of rows that are sorted by group: low = A x with the A that the row's adapter
 * has for the row's expert. In float32; A is float32, or tiles of bf16 (adapter_tiles.h).
 *
 * A CTA computes a row, sixteen ranks at a time: threads sum over columns, then lanes and warps are
 * summed in order, so what a row gets depends on the row, its expert and its adapter alone. Grid
 * (rows, weights), block 256. Bytes moved: A once for a row, from L2 for rows of the same. */
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/ptx/float16.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { THREADS = 256, WARPS = THREADS / LN_WARP, RANKS = LN_ADAPTER_TILE };

typedef struct shrink_args {
    ln_adapter_groups groups;
    ln_adapter_heads weights[LN_MAX_LORA_WEIGHTS];
    float *low[LN_MAX_LORA_WEIGHTS];
    size_t low_stride, x_stride, rows_per_x;
    unsigned n_in, n_steps; /* n_steps: of tiles of A */
    const float *x;
} shrink_args;

/* The sums of a warp over its columns of RANKS rows of A, from row `first` on. */
static __device__ __forceinline__ void multiply(const float *a, const float *x, unsigned n_in,
                                                float *sums) {
    float sum[RANKS] = {};
    for (unsigned column = threadIdx.x; column < n_in; column += THREADS)
#pragma unroll
        for (unsigned k = 0; k < RANKS; k++)
            sum[k] = fmaf(x[column], a[(size_t)k * n_in + column], sum[k]);
#pragma unroll
    for (unsigned k = 0; k < RANKS; k++) {
        float of_warp = ln_warp_sum(sum[k]);
        if (threadIdx.x % LN_WARP == 0)
            sums[k] = of_warp;
    }
}

/* Four columns of x; zeros behind the last. */
static __device__ __forceinline__ float4 load_four(const float *x, unsigned column, unsigned n_in) {
    float4 four;
    four.x = column < n_in ? x[column] : 0.0f;
    four.y = column + 1 < n_in ? x[column + 1] : 0.0f;
    four.z = column + 2 < n_in ? x[column + 2] : 0.0f;
    four.w = column + 3 < n_in ? x[column + 3] : 0.0f;
    return four;
}

/* Two elements of A and of x. */
static __device__ __forceinline__ float add_two(uint32_t a, float x, float y, float sum) {
    sum = fmaf(ln_bf16((uint16_t)a), x, sum);
    return fmaf(ln_bf16((uint16_t)(a >> 16)), y, sum);
}

/* The same of a row of tiles: a lane has ranks lane / 4 and 8 behind it, and of each K step four
 * columns. */
static __device__ __forceinline__ void
multiply_tiles(const uint4 *tiles, const float *x, unsigned n_in, unsigned n_steps, float *sums) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    float low = 0.0f, high = 0.0f;
#pragma unroll 4
    for (unsigned step = warp; step < n_steps; step += WARPS) {
        uint4 a = __ldg(tiles + (size_t)step * LN_WARP + lane);
        float4 four = load_four(x, ln_adapter_column_of(step, lane % 4), n_in);
        low = add_two(a.z, four.z, four.w, add_two(a.x, four.x, four.y, low));
        high = add_two(a.w, four.z, four.w, add_two(a.y, four.x, four.y, high));
    }
    for (int step = 1; step < 4; step *= 2) {
        low += __shfl_xor_sync(0xffffffffu, low, step);
        high += __shfl_xor_sync(0xffffffffu, high, step);
    }
    if (lane % 4 == 0) {
        sums[lane / 4] = low;
        sums[lane / 4 + 8] = high;
    }
}

static __global__ void __launch_bounds__(THREADS)
    shrink_groups(const __grid_constant__ shrink_args p) {
    __shared__ float sums[WARPS][RANKS];
    const ln_adapter_heads &weight = p.weights[blockIdx.y];
    ln_adapter_row at;
    ln_pdl_launch_and_wait();
    if (!ln_adapter_find_row(p.groups, blockIdx.x, &at) || at.slot < 0)
        return;
    const ln_adapter_target *target = &weight.targets[at.group * weight.stride + at.slot];
    const float *x = p.x + at.row / p.rows_per_x * p.x_stride;
    float *own = sums[threadIdx.x / LN_WARP];
    for (size_t first = 0; first < target->rank; first += RANKS) {
        if (target->a_tiles != NULL)
            multiply_tiles((const uint4 *)target->a_tiles + first / RANKS * p.n_steps * LN_WARP, x,
                           p.n_in, p.n_steps, own);
        else
            multiply(target->a + first * p.n_in, x, p.n_in, own);
        __syncthreads();
        float total = 0.0f;
        for (unsigned warp = 0; warp < WARPS && threadIdx.x < RANKS; warp++)
            total += sums[warp][threadIdx.x];
        if (threadIdx.x < RANKS)
            p.low[blockIdx.y][at.row * p.low_stride + first + threadIdx.x] = total;
        __syncthreads();
    }
}

int ln_cuda_lora_shrink_groups(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    size_t n_groups = p->groups.n_groups;
    const ln_cuda_adapter_rows *rows = ln_cuda_find_adapter_rows(op, p->rows, step);
    shrink_args args = {};
    args.n_in = (unsigned)p->weights[0]->n_cols;
    args.n_steps = (unsigned)ln_adapter_steps_of(args.n_in);
    args.low_stride = p->low_stride;
    args.x_stride = p->x_stride > 0 ? p->x_stride : args.n_in;
    args.rows_per_x = p->rows_per_x;
    args.x = p->x;
    bool is_even = true;
    for (size_t i = 0; i < p->n_weights; i++) {
        args.low[i] = p->low[i];
        is_even &= ln_describe_adapters(p->weights[i], n_groups, &args.weights[i]);
    }
    args.groups = ln_describe_adapter_groups(p->groups, rows, p->rows_per_token, is_even);
    for (; args.groups.first < n_groups; args.groups.first += args.groups.here) {
        for (size_t i = 0; i < p->n_weights && !is_even; i++)
            ln_describe_adapters(p->weights[i] + args.groups.first, 1, &args.weights[i]);
        int code = ln_pdl_launch(shrink_groups, dim3((unsigned)p->n_rows, (unsigned)p->n_weights),
                                 THREADS, 0, stream, args);
        if (code != 0)
            return code;
    }
    return 0;
}
