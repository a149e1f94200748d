/* LN_OP_LORA_SHRINK on tensor cores: low = A x of the rows with an adapter, by mma.sync m16n8k16
 * (the shrink half of Punica's and S-LoRA's grouped kernels, SGMV; the other half is
 * gemm/lora_expand.cu, or one more K split of gemm/sm90_small_m.cuh).
 *
 * M = 16 rows of an A, N = up to 16 rows of x of a run, in two n8; K in parts of 1024 columns, 128
 * for each of 8 warps, whose sums are added in order, and then those of parts: what a row gets
 * depends on the row and its adapter alone. Where there are few runs, a CTA computes one part, and
 * the last CTA of a unit adds them up; where there are many, a CTA computes all of them.
 *
 * Grid (runs, rank tiles x parts, weights and heads), block 256, so that a GEMM's CTA finds room
 * beside it. All fragments of A are loaded before the kernel in front ends. Bytes moved: A once for
 * a run, x from L2. */
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/ptx/float16.cuh"
#include "backend/cuda/ptx/mma_16.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum {
    THREADS = 256,
    WARPS = THREADS / LN_WARP,
    STEPS = 8, /* K steps of a warp in a part */
    PART_STEPS = WARPS * STEPS,
    ROW_FLOATS = LN_ADAPTER_TILE + 1 /* of a row's sums in shared memory */
};
static_assert((int)LN_SHRINK_FLOATS == (int)THREADS, "a sum for each thread");

typedef struct shrink_args {
    ln_adapter_rows rows;
    const int32_t *n_runs;
    size_t n_heads, first_head, heads_here; /* as those of lora_shrink.cu */
    ln_adapter_heads weights[LN_MAX_LORA_WEIGHTS];
    float *low[LN_MAX_LORA_WEIGHTS];
    size_t low_stride, x_stride, n_in;
    unsigned n_steps, n_parts; /* K steps; parts of them */
    bool shares;               /* a CTA computes one part */
    bool is_aligned;           /* float4 loads are fine */
    const float *x;
    ln_adapter_scratch *scratch;
    ln_adapter_routes routes;
} shrink_args;

/* What a CTA computes. */
typedef struct shrink_unit {
    unsigned index, head, rank_tile, first_part, end_part;
    ln_adapter_run run;
    const ln_adapter_target *target; /* NULL: nothing */
} shrink_unit;

static __device__ __forceinline__ unsigned tiles_of(const ln_adapter_target *target) {
    return target != NULL ? ((unsigned)target->rank + LN_ADAPTER_TILE - 1) / LN_ADAPTER_TILE : 0;
}

static __device__ __forceinline__ shrink_unit find_shrink_unit(const shrink_args &p) {
    shrink_unit u = {};
    unsigned n_shared = p.shares ? p.n_parts : 1;
    u.head = blockIdx.z % (unsigned)p.heads_here;
    u.index = blockIdx.z / (unsigned)p.heads_here;
    u.rank_tile = blockIdx.y / n_shared;
    u.first_part = p.shares ? blockIdx.y % n_shared : 0;
    u.end_part = p.shares ? u.first_part + 1 : p.n_parts;
    if (blockIdx.x >= (unsigned)*p.n_runs)
        return u;
    u.run = p.rows.runs[blockIdx.x];
    const ln_adapter_heads &weight = p.weights[u.index];
    const ln_adapter_target *target = ln_adapter_target_of(weight.targets, u.run.slot);
    if (target == NULL)
        return u;
    target += u.head * weight.stride;
    u.target = u.rank_tile < tiles_of(target) ? target : NULL;
    return u;
}

/* A warp's fragments of A in a part. */
static __device__ __forceinline__ void load_a(const shrink_args &p, const shrink_unit &u,
                                              unsigned part, uint4 (&a)[STEPS]) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const uint4 *tiles =
        (const uint4 *)u.target->a_tiles + (size_t)u.rank_tile * p.n_steps * LN_WARP;
#pragma unroll
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned step = part * PART_STEPS + warp * STEPS + i;
        a[i] = step < p.n_steps ? __ldg(tiles + (size_t)step * LN_WARP + lane)
                                : make_uint4(0, 0, 0, 0);
    }
}

/* Four columns of a row of x. */
static __device__ __forceinline__ float4 load_x(const shrink_args &p, const float *row,
                                                unsigned column) {
    if (row == NULL || column >= p.n_in)
        return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (p.is_aligned)
        return *(const float4 *)(row + column);
    float4 x = {};
    x.x = row[column];
    x.y = column + 1 < p.n_in ? row[column + 1] : 0.0f;
    x.z = column + 2 < p.n_in ? row[column + 2] : 0.0f;
    x.w = column + 3 < p.n_in ? row[column + 3] : 0.0f;
    return x;
}

/* A warp's sums of eight rows, the first of which is `first` of the run, in a part. */
static __device__ __forceinline__ void multiply(const shrink_args &p, unsigned part,
                                                const uint4 (&a)[STEPS], const size_t *at,
                                                unsigned first, unsigned n, float (&sum)[4]) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP, row = first + lane / 4;
    const float *from = row < n ? p.x + at[row] * p.x_stride : NULL;
    float4 x[STEPS];
#pragma unroll
    for (unsigned i = 0; i < STEPS; i++)
        x[i] =
            load_x(p, from, ln_adapter_column_of(part * PART_STEPS + warp * STEPS + i, lane % 4));
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < STEPS; i++)
        ln_mma_bf16(sum, a[i], ln_pack_bf16(x[i].x, x[i].y), ln_pack_bf16(x[i].z, x[i].w));
}

/* Thread t's total of row t / 16 of the run, rank t % 16 of the tile, over the CTA's parts. */
static __device__ __forceinline__ float sum_parts(const shrink_args &p, const shrink_unit &u,
                                                  uint4 (&a)[STEPS], const size_t *at,
                                                  float (*sums)[LN_ADAPTER_RUN][ROW_FLOATS]) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned row = threadIdx.x / LN_ADAPTER_TILE, rank = threadIdx.x % LN_ADAPTER_TILE;
    unsigned n = (unsigned)(u.run.end - u.run.begin);
    float total = 0.0f;
    for (unsigned part = u.first_part; part < u.end_part; part++) {
        if (part > u.first_part) {
            load_a(p, u, part, a);
            __syncthreads();
        }
        for (unsigned first = 0; first < n; first += 8) {
            float sum[4];
            multiply(p, part, a, at, first, n, sum);
            float *to = &sums[warp][first + lane % 4 * 2][lane / 4];
            to[0] = sum[0], to[ROW_FLOATS] = sum[1];
            to[8] = sum[2], to[ROW_FLOATS + 8] = sum[3];
        }
        __syncthreads();
        float of_part = sums[0][row][rank];
#pragma unroll
        for (unsigned w = 1; w < WARPS; w++)
            of_part += sums[w][row][rank];
        total = part == u.first_part ? of_part : total + of_part;
    }
    return total;
}

/* Adds up the parts of all CTAs of a unit; false: another CTA will. */
static __device__ __forceinline__ bool add_shared(const shrink_args &p, const shrink_unit &u,
                                                  float *total) {
    __shared__ bool is_last;
    unsigned rank_tiles = gridDim.y / p.n_parts;
    unsigned unit = (blockIdx.z * rank_tiles + u.rank_tile) * gridDim.x + blockIdx.x;
    float(*partials)[LN_SHRINK_FLOATS] = p.scratch->partials + (size_t)unit * p.n_parts;
    __stcg(&partials[u.first_part][threadIdx.x], *total);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(&p.scratch->counters[unit], 1) == p.n_parts - 1;
        if (is_last)
            p.scratch->counters[unit] = 0;
    }
    __syncthreads();
    if (!is_last)
        return false;
    __threadfence();
    float sum = __ldcg(&partials[0][threadIdx.x]);
#pragma unroll 4
    for (unsigned part = 1; part < p.n_parts; part++)
        sum += __ldcg(&partials[part][threadIdx.x]);
    *total = sum;
    return true;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A unit's place in its list. */
typedef struct list_place {
    unsigned step, n, n_before; /* of the unit; of the list; of the weight before in it */
} list_place;

/* What rank tiles the runs of the list have; by all threads. */
static __device__ __forceinline__ list_place find_place(const shrink_args &p,
                                                        const shrink_unit &u) {
    __shared__ unsigned own[LN_ADAPTER_LIST_ROWS], before[LN_ADAPTER_LIST_ROWS];
    unsigned n_runs = (unsigned)*p.n_runs;
    int other = p.routes.before[u.index];
    if (threadIdx.x < n_runs) {
        int32_t slot = p.rows.runs[threadIdx.x].slot;
        own[threadIdx.x] = tiles_of(ln_adapter_target_of(p.weights[u.index].targets, slot));
        before[threadIdx.x] =
            other < 0 ? 0 : tiles_of(ln_adapter_target_of(p.weights[other].targets, slot));
    }
    __syncthreads();
    list_place place = {};
    for (unsigned run = 0; run < n_runs; run++) {
        place.step += run < blockIdx.x ? own[run] : 0;
        place.n += own[run];
        place.n_before += before[run];
    }
    place.step += place.n_before + u.rank_tile;
    place.n += place.n_before;
    return place;
}

/* The sixteen bytes of K step `step`, half `half`, of a row of low. */
static __device__ __forceinline__ uint4 *place_low(ln_adapter_lists &lists, unsigned part,
                                                   unsigned step, unsigned row, unsigned half) {
    char *tile = lists.low[part][step / 4];
    return (uint4 *)(tile + row * 128 + ((step % 4 * 2 + half) ^ row % 8) * 16);
}

/* The list's numbers, and zeros behind its last step; by the first CTA of the last weight in it. */
static __device__ __forceinline__ void end_list(const shrink_args &p, const shrink_unit &u,
                                                const list_place &place) {
    ln_adapter_lists &lists = p.scratch->lists;
    unsigned part = p.routes.part[u.index];
    if (!p.routes.is_last[u.index] || blockIdx.x + blockIdx.y > 0)
        return;
    if (threadIdx.x == 0) {
        lists.lists[part].n = place.n;
        lists.lists[part].n_up = p.routes.is_gate[u.index] ? place.n_before : place.n;
    }
    unsigned end =
        (place.n + LN_ADAPTER_STAGE_STEPS - 1) / LN_ADAPTER_STAGE_STEPS * LN_ADAPTER_STAGE_STEPS;
    for (unsigned step = place.n; step < end; step++)
        if (threadIdx.x < 2 * LN_ADAPTER_LIST_ROWS)
            *place_low(lists, part, step, threadIdx.x / 2, threadIdx.x % 2) =
                make_uint4(0, 0, 0, 0);
}

/* Writes a K step: low of the run's rows, and zeros of the others. */
static __device__ __forceinline__ void write_step(const shrink_args &p, const shrink_unit &u,
                                                  const list_place &place, const size_t *at,
                                                  float total) {
    __shared__ __align__(16) __nv_bfloat16 values[LN_ADAPTER_RUN][LN_ADAPTER_TILE];
    __shared__ int of_row[LN_ADAPTER_LIST_ROWS];
    ln_adapter_lists &lists = p.scratch->lists;
    unsigned part = p.routes.part[u.index], n = (unsigned)(u.run.end - u.run.begin);
    if (threadIdx.x == 0)
        lists.lists[part].steps[place.step] = {
            (const char *)u.target->b_tiles +
                (size_t)u.rank_tile * (LN_ADAPTER_B_ROWS * LN_ADAPTER_TILE * sizeof(uint16_t)),
            (size_t)tiles_of(u.target) * (LN_ADAPTER_B_ROWS * LN_ADAPTER_TILE * sizeof(uint16_t))};
    if (threadIdx.x < LN_ADAPTER_LIST_ROWS)
        of_row[threadIdx.x] = -1;
    values[threadIdx.x / LN_ADAPTER_TILE][threadIdx.x % LN_ADAPTER_TILE] =
        __float2bfloat16_rn(total);
    __syncthreads();
    if (threadIdx.x < n)
        of_row[at[threadIdx.x]] = (int)threadIdx.x;
    __syncthreads();
    unsigned row = threadIdx.x / 2, half = threadIdx.x % 2;
    if (row >= LN_ADAPTER_LIST_ROWS)
        return;
    int from = of_row[row];
    *place_low(lists, part, place.step, row, half) =
        from < 0 ? make_uint4(0, 0, 0, 0) : *(const uint4 *)&values[from][half * 8];
}

/* ---------------------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS)
    shrink_mma(const __grid_constant__ shrink_args p) {
    __shared__ float sums[WARPS][LN_ADAPTER_RUN][ROW_FLOATS];
    __shared__ size_t at[LN_ADAPTER_RUN];
    ln_pdl_launch_dependents();
    const shrink_unit u = find_shrink_unit(p);
    unsigned n = (unsigned)(u.run.end - u.run.begin);
    uint4 a[STEPS];
    list_place place = {};
    if (u.target != NULL)
        load_a(p, u, u.first_part, a);
    if (threadIdx.x < n)
        at[threadIdx.x] = (size_t)p.rows.order[u.run.begin + (int)threadIdx.x] * p.n_heads +
                          p.first_head + u.head;
    if (p.routes.any)
        place = find_place(p, u);
    ln_pdl_wait();
    if (p.routes.any)
        end_list(p, u, place);
    if (u.target == NULL)
        return;
    __syncthreads();
    float total = sum_parts(p, u, a, at, sums);
    if (p.shares && !add_shared(p, u, &total))
        return;
    if (p.routes.any) {
        write_step(p, u, place, at, total);
        return;
    }
    unsigned row = threadIdx.x / LN_ADAPTER_TILE, rank = threadIdx.x % LN_ADAPTER_TILE;
    if (row < n)
        p.low[u.index][at[row] * p.low_stride + u.rank_tile * LN_ADAPTER_TILE + rank] = total;
}

static shrink_args make_args(const ln_op *op, const ln_cuda_adapter_rows *rows,
                             const ln_cuda_step *step) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    shrink_args args = {};
    args.rows = rows->rows;
    args.n_runs = rows->counts;
    args.n_heads = p->n_heads > 0 ? p->n_heads : 1;
    args.low_stride = p->low_stride;
    args.n_in = p->weights[0]->n_cols;
    args.x_stride = p->x_stride > 0 ? p->x_stride : args.n_in;
    args.n_steps = (unsigned)ln_adapter_steps_of(args.n_in);
    args.n_parts = ln_ceil_div(args.n_steps, PART_STEPS);
    args.is_aligned =
        args.n_in % 4 == 0 && args.x_stride % 4 == 0 && (uintptr_t)p->x % sizeof(float4) == 0;
    args.x = p->x;
    args.scratch = (ln_adapter_scratch *)step->adapter_scratch;
    for (size_t i = 0; i < p->n_weights; i++)
        args.low[i] = p->low[i];
    return args;
}

static int run_shrink(shrink_args *args, size_t n_runs, size_t n_weights, cudaStream_t stream) {
    unsigned rank_tiles = (unsigned)(args->low_stride / LN_ADAPTER_TILE);
    size_t n_units = n_runs * rank_tiles * n_weights * args->heads_here;
    args->shares =
        args->n_parts > 1 && args->scratch != NULL && n_units * args->n_parts <= LN_SHRINK_PARTIALS;
    dim3 grid((unsigned)n_runs, rank_tiles * (args->shares ? args->n_parts : 1),
              (unsigned)(n_weights * args->heads_here));
    return ln_pdl_launch(shrink_mma, grid, THREADS, 0, stream, *args);
}

int ln_cuda_lora_shrink_lists(const ln_op *op, const ln_adapter_routes *routes,
                              const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_cuda_adapter_rows *rows = ln_cuda_find_adapter_rows(op, op->lora_shrink.rows, step);
    shrink_args args = make_args(op, rows, step);
    args.heads_here = 1;
    args.routes = *routes;
    for (size_t i = 0; i < op->lora_shrink.n_weights; i++)
        ln_describe_adapters(op->lora_shrink.weights[i], 1, &args.weights[i]);
    return run_shrink(&args, rows->most_runs, op->lora_shrink.n_weights, stream);
}

int ln_cuda_lora_shrink_mma(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    const ln_cuda_adapter_rows *rows = ln_cuda_find_adapter_rows(op, p->rows, step);
    shrink_args args = make_args(op, rows, step);
    bool is_even = true;
    for (size_t i = 0; i < p->n_weights; i++)
        is_even &= ln_describe_adapters(p->weights[i], args.n_heads, &args.weights[i]);
    args.heads_here = is_even ? args.n_heads : 1;
    for (; args.first_head < args.n_heads; args.first_head += args.heads_here) {
        for (size_t i = 0; i < p->n_weights && !is_even; i++)
            ln_describe_adapters(p->weights[i] + args.first_head, 1, &args.weights[i]);
        int code = run_shrink(&args, rows->most_runs, p->n_weights, stream);
        if (code != 0)
            return code;
    }
    return 0;
}

size_t ln_cuda_adapter_scratch_bytes(void) {
    return sizeof(ln_adapter_scratch);
}
