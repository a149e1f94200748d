/* Linears whose rows have adapters: the linear without its epilogue by the kernels that it has
 * otherwise, and then, for up to three at once, what adapters add and the epilogue: the expand half
 * of grouped low-rank kernels (Punica, S-LoRA); ops/lora_shrink.cu has the other one. Rows without
 * an adapter get the bits of the linear's own epilogue.
 *
 * expand, in float32 throughout: a block computes 512 columns of a run, up to LN_ADAPTER_RUN rows
 * with the same adapter or with none, ROWS at a time, so that B is read once for these. Grid
 * (columns / 512, runs, linears and heads), block 128, four columns a thread. Shared memory: low of
 * the run. Bytes moved: B once or twice for a run, rows of float32 in and out.
 *
 * expand_mma, by mma.sync m16n8k16: M = 16 columns of the result for a warp, N = up to 16 rows of a
 * run, in two n8; K = ranks, low rounded to bf16. Grid (columns / 128, runs, linears and heads),
 * block 256. A row gets what one more K split of gemm/sm90_small_m.cuh gives it. Bytes moved: B
 * once for a run, rows of float32 in and out. */
#include "backend/cuda/activations/convert.h"
#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/ptx/mma_16.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/layout.h"

enum { THREADS = 128, COLUMNS = 4, ROWS = 8, MAX_PARTS = 3 };
enum { DEFAULT_SHARED = 47 * 1024 }; /* bytes of dynamic memory that any kernel may ask for */
enum { MMA_THREADS = 256, MMA_COLUMNS = MMA_THREADS / LN_WARP * LN_ADAPTER_TILE, VALUES = 4 };

/* A weight's adapters, with what ln_cuda_lora_shrink made for them, and the sums that they change.
 */
typedef struct lora_sums {
    ln_adapter_heads weight;
    const float *low;  /* [n_rows][low_stride] */
    const float *sums; /* [n_rows][stride], with the bias */
    size_t stride;
} lora_sums;

typedef struct expand_part {
    lora_sums of_weight, of_gate; /* of_gate.sums NULL: there is none */
    ln_epilogue end;              /* without biases */
    bool is_aligned;              /* float4 are fine */
} expand_part;

typedef struct expand_args {
    ln_adapter_rows rows;
    const int32_t *n_runs;
    size_t n_heads, first_head, heads_here; /* as those of ops/lora_shrink.cu */
    size_t low_stride;
    expand_part parts[MAX_PARTS];
} expand_args;

/* The adapter of a run's rows for a head, or NULL. */
static __device__ __forceinline__ const ln_adapter_target *
find_target(const ln_adapter_heads &heads, size_t head, int32_t slot) {
    return ln_adapter_target_of(heads.targets != NULL ? heads.targets + head * heads.stride : NULL,
                                slot);
}

/* low of the run's rows to shared memory [n][rank]. */
static __device__ __forceinline__ void stage_low(const lora_sums &of,
                                                 const ln_adapter_target *target, size_t low_stride,
                                                 const size_t *at, unsigned n, float *low) {
    unsigned rank = target != NULL ? (unsigned)target->rank : 0;
    for (unsigned i = threadIdx.x; i < n * rank; i += THREADS)
        low[i] = of.low[at[i / rank] * low_stride + i % rank];
}

/* Adds B low to ROWS rows of four columns. */
static __device__ __forceinline__ void add_low(const ln_adapter_target *target, const float *low,
                                               size_t column, unsigned n,
                                               float (&sum)[ROWS][COLUMNS]) {
    if (target == NULL || target->rank == 0)
        return;
    unsigned rank = (unsigned)target->rank;
    const float *b = ln_adapter_column(*target, column);
    float added[ROWS][COLUMNS] = {};
#pragma unroll 4
    for (unsigned k = 0; k < rank; k++) {
        float4 four = *(const float4 *)(b + (size_t)k * LN_ADAPTER_ROWS);
        const float w[COLUMNS] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (unsigned i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS && i < n; j++)
                added[i][j] = fmaf(low[i * rank + k], w[j], added[i][j]);
    }
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            sum[i][j] += added[i][j];
}

static __device__ __forceinline__ void load_sums(const expand_part &part, const lora_sums &of,
                                                 const size_t *at, size_t column, unsigned n,
                                                 float (&sum)[ROWS][COLUMNS]) {
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) {
        if (i >= n)
            break;
        const float *from = of.sums + at[i] * of.stride + column;
        if (part.is_aligned) {
            float4 four = *(const float4 *)from;
            sum[i][0] = four.x, sum[i][1] = four.y, sum[i][2] = four.z, sum[i][3] = four.w;
        } else {
            for (int j = 0; j < COLUMNS && column + j < part.end.n_out; j++)
                sum[i][j] = from[j];
        }
    }
}

/* What vectors of an adapter make of the sums; they have whole LN_ADAPTER_ROWS. */
static __device__ __forceinline__ void multiply(const ln_adapter_target *target, size_t column,
                                                float (&sum)[ROWS][COLUMNS]) {
    if (target == NULL || target->multiply == NULL)
        return;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            sum[i][j] *= target->multiply[column + j];
            if (target->add != NULL)
                sum[i][j] += target->add[column + j];
        }
}

/* The results of ROWS rows. */
static __device__ __forceinline__ void finish(const expand_part &part, const float *after,
                                              const size_t *at, size_t column, unsigned n,
                                              float (&u)[ROWS][COLUMNS],
                                              float (&g)[ROWS][COLUMNS]) {
    const ln_epilogue &e = part.end;
#pragma unroll
    for (unsigned i = 0; i < ROWS; i++) {
        float y[COLUMNS];
        if (i >= n)
            break;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            bool is_there = column + j < e.n_out;
            float residual =
                e.residual != NULL && is_there ? e.residual[at[i] * e.n_out + column + j] : 0.0f;
            float activated = ln_gated(e.activation, e.has_gate, g[i][j], u[i][j]);
            if (after != NULL)
                activated *= after[column + j];
            y[j] = ln_epilogue_end(e, activated, residual);
        }
        float *to = e.out + at[i] * e.out_stride + column;
        if (part.is_aligned)
            *(float4 *)to = make_float4(y[0], y[1], y[2], y[3]);
        else
            for (int j = 0; j < COLUMNS && column + j < e.n_out; j++)
                to[j] = y[j];
    }
}

static __global__ void __launch_bounds__(THREADS) expand(const __grid_constant__ expand_args p) {
    __shared__ size_t at[LN_ADAPTER_RUN];
    extern __shared__ float low[]; /* of the weight, then of the gate */
    if (blockIdx.y >= (unsigned)*p.n_runs)
        return;
    const ln_adapter_run run = p.rows.runs[blockIdx.y];
    size_t head = blockIdx.z % p.heads_here;
    const expand_part &part = p.parts[blockIdx.z / p.heads_here];
    const lora_sums &of_weight = part.of_weight, &of_gate = part.of_gate;
    unsigned n = (unsigned)(run.end - run.begin);
    size_t column = ((size_t)blockIdx.x * THREADS + threadIdx.x) * COLUMNS;
    ln_pdl_launch_and_wait();
    if ((size_t)blockIdx.x * THREADS * COLUMNS >= part.end.n_out)
        return;
    const ln_adapter_target *target = find_target(of_weight.weight, head, run.slot);
    const ln_adapter_target *gate =
        of_gate.sums != NULL ? find_target(of_gate.weight, head, run.slot) : NULL;
    if (threadIdx.x < n)
        at[threadIdx.x] =
            (size_t)p.rows.order[run.begin + (int)threadIdx.x] * p.n_heads + p.first_head + head;
    __syncthreads();
    float *gate_low = low + (target != NULL ? n * (unsigned)target->rank : 0);
    stage_low(of_weight, target, p.low_stride, at, n, low);
    stage_low(of_gate, gate, p.low_stride, at, n, gate_low);
    __syncthreads();
    if (column >= part.end.n_out)
        return;
    for (unsigned first = 0; first < n; first += ROWS) {
        float u[ROWS][COLUMNS] = {}, g[ROWS][COLUMNS] = {};
        unsigned left = n - first;
        load_sums(part, of_weight, at + first, column, left, u);
        add_low(target, low + first * (target != NULL ? (unsigned)target->rank : 0), column, left,
                u);
        multiply(target, column, u);
        if (of_gate.sums != NULL) {
            load_sums(part, of_gate, at + first, column, left, g);
            add_low(gate, gate_low + first * (gate != NULL ? (unsigned)gate->rank : 0), column,
                    left, g);
            multiply(gate, column, g);
        }
        finish(part, target != NULL ? target->multiply_after : NULL, at + first, column, left, u,
               g);
    }
}

/* ---- on tensor cores --------------------------------------------------------------------------
 */

/* Results of a lane: rows of eight of a run, columns `column` and 8 behind it. */
typedef struct lane_results {
    size_t rows[2], column;
    bool has_row[2];
} lane_results;

static __device__ __forceinline__ size_t row_of(const lane_results &r, int i) {
    return r.rows[i % 2];
}

static __device__ __forceinline__ size_t column_of(const lane_results &r, int i) {
    return r.column + i / 2 * 8;
}

static __device__ __forceinline__ bool is_there(const lane_results &r, int i, size_t n_out) {
    return r.has_row[i % 2] && column_of(r, i) < n_out;
}

/* low B^T of the rows from `from` on of which lane / 4 is one (NULL: none), for 16 columns. */
static __device__ __forceinline__ void multiply(const ln_adapter_target *target, const float *from,
                                                size_t column, float (&sum)[VALUES]) {
    unsigned lane = threadIdx.x % LN_WARP;
    unsigned n = ((unsigned)target->rank + LN_ADAPTER_TILE - 1) / LN_ADAPTER_TILE;
    const uint4 *b = (const uint4 *)target->b_tiles +
                     (column / LN_ADAPTER_B_ROWS * n * (LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE) +
                      column % LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE) *
                         LN_WARP +
                     lane;
#pragma unroll 4
    for (unsigned step = 0; step < n; step++) {
        float2 x = {}, y = {};
        if (from != NULL) {
            x = *(const float2 *)(from + step * LN_ADAPTER_TILE + lane % 4 * 2);
            y = *(const float2 *)(from + step * LN_ADAPTER_TILE + lane % 4 * 2 + 8);
        }
        ln_mma_bf16(sum, __ldg(b + (size_t)step * (LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE) * LN_WARP),
                    ln_pack_bf16(x.x, x.y), ln_pack_bf16(y.x, y.y));
    }
}

static __device__ __forceinline__ void load_sums(const lora_sums &of, const lane_results &r,
                                                 size_t n_out, float (&sum)[VALUES]) {
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        sum[i] = is_there(r, i, n_out) ? of.sums[row_of(r, i) * of.stride + column_of(r, i)] : 0.0f;
}

/* Adds what a run's adapter makes of eight rows to their sums. */
static __device__ __forceinline__ void
add_lora(const lora_sums &of, const ln_adapter_target *target, size_t low_stride, const size_t *at,
         bool has_row, size_t column, const lane_results &r, size_t n_out, float (&sum)[VALUES]) {
    float added[VALUES] = {};
    if (target == NULL)
        return;
    if (target->rank > 0) {
        multiply(target, has_row ? of.low + *at * low_stride : NULL, column, added);
#pragma unroll
        for (int i = 0; i < VALUES; i++)
            sum[i] += added[i];
    }
    if (target->multiply == NULL)
        return;
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
        bool is_there = column_of(r, i) < n_out;
        sum[i] *= is_there ? target->multiply[column_of(r, i)] : 0.0f;
        if (target->add != NULL && is_there)
            sum[i] += target->add[column_of(r, i)];
    }
}

static __device__ __forceinline__ void finish(const expand_part &part, const float *after,
                                              const lane_results &r, const float (&u)[VALUES],
                                              const float (&g)[VALUES],
                                              const float (&residual)[VALUES]) {
    const ln_epilogue &e = part.end;
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
        if (!is_there(r, i, e.n_out))
            continue;
        float activated = ln_gated(e.activation, e.has_gate, g[i], u[i]);
        if (after != NULL)
            activated *= after[column_of(r, i)];
        e.out[row_of(r, i) * e.out_stride + column_of(r, i)] =
            ln_epilogue_end(e, activated, residual[i]);
    }
}

static __global__ void __launch_bounds__(MMA_THREADS)
    expand_mma(const __grid_constant__ expand_args p) {
    __shared__ size_t at[LN_ADAPTER_RUN];
    size_t head = blockIdx.z % p.heads_here;
    const expand_part &part = p.parts[blockIdx.z / p.heads_here];
    const lora_sums &of_weight = part.of_weight, &of_gate = part.of_gate;
    unsigned lane = threadIdx.x % LN_WARP, first_column = blockIdx.x * MMA_COLUMNS;
    size_t column = first_column + threadIdx.x / LN_WARP * LN_ADAPTER_TILE, n_out = part.end.n_out;
    ln_pdl_launch_dependents();
    const ln_adapter_run run =
        blockIdx.y < (unsigned)*p.n_runs ? p.rows.runs[blockIdx.y] : ln_adapter_run{-1, 0, 0};
    unsigned n = (unsigned)(run.end - run.begin);
    if (threadIdx.x < n)
        at[threadIdx.x] =
            (size_t)p.rows.order[run.begin + (int)threadIdx.x] * p.n_heads + p.first_head + head;
    const ln_adapter_target *target = find_target(of_weight.weight, head, run.slot);
    const ln_adapter_target *gate =
        of_gate.sums != NULL ? find_target(of_gate.weight, head, run.slot) : NULL;
    __syncthreads();
    ln_pdl_wait();
    if (column >= n_out)
        return;
    for (unsigned first = 0; first < n; first += ROWS) {
        unsigned own = first + lane / 4, row = first + lane % 4 * 2;
        const size_t *own_at = &at[own < n ? own : 0];
        lane_results r = {{at[row < n ? row : 0], at[row + 1 < n ? row + 1 : 0]},
                          column + lane / 4,
                          {row < n, row + 1 < n}};
        float u[VALUES], g[VALUES] = {}, residual[VALUES];
        load_sums(of_weight, r, n_out, u);
        if (of_gate.sums != NULL)
            load_sums(of_gate, r, n_out, g);
#pragma unroll
        for (int i = 0; i < VALUES; i++)
            residual[i] = part.end.residual != NULL && is_there(r, i, n_out)
                              ? part.end.residual[row_of(r, i) * n_out + column_of(r, i)]
                              : 0.0f;
        add_lora(of_weight, target, p.low_stride, own_at, own < n, column, r, n_out, u);
        add_lora(of_gate, gate, p.low_stride, own_at, own < n, column, r, n_out, g);
        finish(part, target != NULL ? target->multiply_after : NULL, r, u, g, residual);
    }
}

static int run_expand_mma(const expand_args &args, size_t n_runs, size_t n_parts,
                          cudaStream_t stream) {
    size_t n_out = 0;
    for (size_t i = 0; i < n_parts; i++)
        n_out = args.parts[i].end.n_out > n_out ? args.parts[i].end.n_out : n_out;
    dim3 grid(ln_ceil_div(n_out, MMA_COLUMNS), (unsigned)n_runs,
              (unsigned)(n_parts * args.heads_here));
    return ln_pdl_launch(expand_mma, grid, MMA_THREADS, 0, stream, args);
}

/* ---- linears without their epilogue ---------------------------------------------------------- */

/* The linears of a launch as their kernels run them. */
typedef struct raw_linears {
    ln_op ops[2 * MAX_PARTS];
    size_t n_ops, n_floats; /* n_floats: of step->raw that are used */
} raw_linears;

static ln_op *add_raw(raw_linears *raw, const ln_op *op) {
    ln_op *own = &raw->ops[raw->n_ops++];
    *own = *op;
    if (op->linear.adapters == NULL)
        return own;
    own->linear.gate = NULL;
    own->linear.activation = LN_ACT_NONE;
    own->linear.residual = NULL;
    own->linear.scale = 1.0f;
    own->linear.softcap = 0.0f;
    own->linear.adapters = NULL;
    return own;
}

/* Lets a raw linear write to step->raw; false: there is no room. */
static bool move_out(raw_linears *raw, const ln_cuda_step *step, ln_op *own) {
    size_t n = own->linear.n_rows * own->linear.weight->n_rows;
    own->linear.out = step->raw + raw->n_floats;
    own->linear.out_stride = 0;
    raw->n_floats += n;
    return raw->n_floats <= step->raw_floats;
}

static bool describe_sums(const ln_weight *weight, const float *low, const ln_op *own,
                          size_t n_heads, lora_sums *of) {
    size_t stride = own->linear.out_stride;
    of->low = low;
    of->sums = own->linear.out;
    of->stride = stride > 0 ? stride : weight->n_rows;
    return ln_describe_adapters(weight, n_heads, &of->weight);
}

static bool is_aligned(const expand_part *part) {
    size_t strides = part->end.n_out | part->end.out_stride | part->of_weight.stride |
                     (part->of_gate.sums != NULL ? part->of_gate.stride : 0);
    size_t at = (size_t)part->end.out | (size_t)part->of_weight.sums | (size_t)part->of_gate.sums;
    return strides % COLUMNS == 0 && at % sizeof(float4) == 0;
}

/* Adds the kernels' linears of `op`, and with adapters *part; false: there is no room. */
static bool divide(const ln_op *op, const ln_cuda_step *step, size_t n_heads, raw_linears *raw,
                   expand_part *part, bool *is_even) {
    const ln_op_linear *p = &op->linear;
    ln_op *own = add_raw(raw, op);
    if (p->adapters == NULL)
        return true;
    if (p->residual != NULL && !move_out(raw, step, own))
        return false;
    *part = {};
    *is_even &= describe_sums(p->weight, p->low, own, n_heads, &part->of_weight);
    if (p->gate != NULL) {
        ln_op *of_gate = add_raw(raw, op);
        of_gate->linear.weight = p->gate;
        if (!move_out(raw, step, of_gate))
            return false;
        *is_even &= describe_sums(p->gate, p->gate_low, of_gate, n_heads, &part->of_gate);
    }
    ln_epilogue &e = part->end;
    e.has_gate = p->gate != NULL;
    e.activation = p->activation;
    e.residual = p->residual;
    e.scale = p->scale;
    e.softcap = p->softcap;
    e.rounds = p->gate != NULL && p->weight->layout == LN_LAYOUT_F8_ROW; /* as args.cu */
    e.n_out = p->weight->n_rows;
    e.out_stride = p->out_stride > 0 ? p->out_stride : e.n_out;
    e.out = p->out;
    part->is_aligned = is_aligned(part);
    return true;
}

/* Whether rows without an adapter are what they are to be. */
static bool is_done(const expand_part &part) {
    const ln_epilogue &e = part.end;
    return part.of_weight.sums == e.out && part.of_gate.sums == NULL &&
           e.activation == LN_ACT_NONE && e.residual == NULL && e.scale == 1.0f &&
           e.softcap <= 0.0f;
}

static int run_raw(const ln_cuda_launch *launch, const raw_linears *raw, const ln_cuda_step *step,
                   ln_cuda_stream stream) {
    ln_cuda_launch own = *launch;
    own.first = 0;
    own.n_ops = (uint32_t)raw->n_ops;
    own.expands = false;
    if (launch->kind == LN_CUDA_GEMM)
        return ln_cuda_gemm(&own, raw->ops, stream);
    int code = 0;
    for (; own.first < raw->n_ops && code == 0; own.first++) {
        bool is_grouped = launch->kind == LN_CUDA_GROUPED_GEMM;
        code = is_grouped ? ln_cuda_grouped_gemm(&own, raw->ops, stream)
                          : ln_cuda_linear(&raw->ops[own.first], step, stream);
        own.converts_x = false; /* the gate reads the same x */
    }
    return code;
}

static int run_expand(expand_args *args, size_t n_runs, size_t n_parts, cudaStream_t stream) {
    size_t n_out = 0;
    for (size_t i = 0; i < n_parts; i++)
        n_out = args->parts[i].end.n_out > n_out ? args->parts[i].end.n_out : n_out;
    size_t n_low = args->parts[0].of_gate.sums != NULL ? 2 : 1;
    size_t shared = n_low * LN_ADAPTER_RUN * args->low_stride * sizeof(float);
    if (shared > DEFAULT_SHARED) {
        int code =
            cudaFuncSetAttribute(expand, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (code != 0)
            return code;
    }
    dim3 grid(ln_ceil_div(n_out, THREADS * COLUMNS), (unsigned)n_runs,
              (unsigned)(n_parts * args->heads_here));
    return ln_pdl_launch(expand, grid, THREADS, shared, stream, *args);
}

int ln_cuda_lora_expand(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                        ln_cuda_stream stream) {
    const ln_op *first = &ops[launch->first];
    size_t n_heads = first->linear.groups.n_groups > 0 ? first->linear.groups.n_groups : 1;
    raw_linears raw = {};
    expand_args args = {};
    const ln_cuda_adapter_rows *rows = NULL;
    size_t n_parts = 0;
    bool is_even = true, is_all_done = true;
    for (size_t i = 0; i < launch->n_ops; i++) {
        if (!divide(&first[i], step, n_heads, &raw, &args.parts[n_parts], &is_even))
            return cudaErrorInvalidValue;
        if (first[i].linear.adapters == NULL)
            continue;
        rows = ln_cuda_find_adapter_rows(&first[i], first[i].linear.adapters, step);
        is_all_done &= is_done(args.parts[n_parts++]);
        args.low_stride = first[i].linear.low_stride;
    }
    if (rows == NULL)
        return cudaErrorInvalidValue;
    if (first->linear.groups.order != NULL) {
        int code = run_raw(launch, &raw, step, stream);
        const ln_op *gate = raw.n_ops > 1 ? &raw.ops[1] : NULL;
        return code != 0 ? code : ln_cuda_lora_expand_groups(first, raw.ops, gate, step, stream);
    }
    size_t n_runs = is_all_done ? rows->most_runs : rows->most_all_runs;
    args.rows = rows->rows;
    args.n_runs = rows->counts + (is_all_done ? 0 : 1);
    args.n_heads = n_heads;
    args.heads_here = is_even ? n_heads : 1;
    int code = run_raw(launch, &raw, step, stream);
    for (; args.first_head < n_heads && code == 0; args.first_head += args.heads_here) {
        for (size_t i = 0; i < n_parts && !is_even; i++) /* of one matrix for each head */
            ln_describe_adapters(first->linear.weight + args.first_head, 1,
                                 &args.parts[i].of_weight.weight);
        code = step->adapter_scratch == NULL ? run_expand(&args, n_runs, n_parts, stream)
                                             : run_expand_mma(args, n_runs, n_parts, stream);
    }
    return code;
}

/* ---- one more K split ------------------------------------------------------------------------ */

/* Where an LN_OP_LORA_SHRINK puts A x for the n linears behind it. */
static ln_adapter_routes find_routes(const ln_op *shrink, size_t n) {
    const ln_op_lora_shrink *p = &shrink->lora_shrink;
    ln_adapter_routes routes = {};
    routes.any = true;
    for (size_t i = 0; i < p->n_weights; i++) {
        routes.before[i] = -1;
        routes.is_last[i] = true;
    }
    for (size_t part = 0; part < n; part++) {
        const ln_op_linear *linear = &shrink[1 + part].linear;
        int up = -1;
        for (size_t i = 0; i < p->n_weights; i++) {
            if (linear->low != p->low[i])
                continue;
            routes.part[i] = (unsigned)part;
            up = (int)i;
        }
        for (size_t i = 0; i < p->n_weights; i++) {
            if (linear->gate == NULL || linear->gate_low != p->low[i])
                continue;
            routes.part[i] = (unsigned)part;
            routes.is_gate[i] = true;
            routes.before[i] = up;
            if (up >= 0)
                routes.is_last[up] = false;
        }
    }
    return routes;
}

int ln_cuda_lora_gemm(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                      ln_cuda_stream stream) {
    const ln_op *shrink = &ops[launch->first];
    ln_cuda_launch own = *launch;
    own.first++;
    own.n_ops--;
    int code = own.converts_x ? ln_act_convert(&own.x, stream) : 0;
    own.converts_x = false;
    const ln_adapter_routes routes = find_routes(shrink, own.n_ops);
    ln_gemm_adapters adapters = {&((ln_adapter_scratch *)step->adapter_scratch)->lists, 0};
    for (size_t i = 0; i < shrink->lora_shrink.n_weights; i++)
        adapters.parts |= 1u << routes.part[i];
    if (code == 0)
        code = ln_cuda_lora_shrink_lists(shrink, &routes, step, stream);
    return code != 0 ? code : ln_cuda_gemm_with_lora(&own, ops, adapters, stream);
}
