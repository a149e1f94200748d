/* LN_OP_NORM: RMS and LayerNorm with the residual, and conversion of the result for the next
 * linear. LN_OP_GATHER: columns.
 *
 * A block takes rows. Rows of a multiple of four elements up to 8192 stay in registers between
 * statistics and result; others are read twice. Few rows are divided among 512 threads each, many
 * among 64 to 256, and are summed in the same order. Bytes moved: n_rows * dim * 4 * (2, or 3 with
 * a residual). */
#include "backend/cuda/ops/norm.cuh"

#include "backend/cuda/ops/norm_row.cuh"
#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

static __global__ void norm_rows(const __grid_constant__ ln_norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    ln_pdl_launch_and_wait();
    size_t row = blockIdx.x, from = p.rows != NULL ? (size_t)p.rows[row] : row;
    const float *x = p.x + from * p.norm.dim;
    float mean, inverse;
    ln_norm_statistics(p.norm, x, shared, &mean, &inverse);
    for (size_t i = threadIdx.x; i < p.norm.dim; i += blockDim.x) {
        float y = ln_norm_apply(p.norm, x[i], i, mean, inverse);
        p.out[row * p.out_stride + i] =
            p.residual != NULL ? p.residual[row * p.norm.dim + i] + p.scale * y : y;
    }
}

/* ---- short rows by warps ----------------------------------------------------------------------
 */

/* Many rows of up to 1,024 elements: a warp has a row, lane t float4 number t of each virtual warp,
 * and adds up as ln_norm_sum does. */
enum { ROW_WARPS = 8, ROW_FOURS = 8, ROW_DIM = 4 * ROW_FOURS * LN_WARP };

/* The sums over lanes of x[v], then over v, as ln_warp_sum adds both. */
static __device__ __forceinline__ float sum_virtual_warps(const float x[ROW_FOURS]) {
    float sums[ROW_FOURS];
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int v = 0; v < ROW_FOURS; v++)
        sums[v] = x[v];
#pragma unroll
    for (int n = ROW_FOURS / 2, step = LN_WARP / 2; n > 0; n /= 2, step /= 2) {
        bool is_upper = (lane & (unsigned)step) != 0; /* goes on with the upper half of sums */
#pragma unroll
        for (int v = 0; v < n; v++) {
            float own = is_upper ? sums[v + n] : sums[v];
            sums[v] = own + __shfl_xor_sync(0xffffffffu, is_upper ? sums[v] : sums[v + n], step);
        }
    }
    float sum = sums[0]; /* of virtual warp lane / 4, over four lanes */
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += 0.0f; /* the virtual warps that are not there */
#pragma unroll
    for (int step = LN_WARP / 2; step >= LN_WARP / ROW_FOURS; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

static __device__ __forceinline__ void
find_statistics(const ln_norm &norm, const float4 (&row)[ROW_FOURS], float *mean, float *inverse) {
    float sums[ROW_FOURS], squares[ROW_FOURS];
    unsigned lane = threadIdx.x % LN_WARP;
    *mean = 0.0f;
#pragma unroll
    for (int v = 0; v < ROW_FOURS; v++)
        sums[v] = 0.0f + (row[v].x + row[v].y + (row[v].z + row[v].w));
    if (norm.kind == LN_NORM_LAYER)
        *mean = sum_virtual_warps(sums) / (float)norm.dim;
#pragma unroll
    for (int v = 0; v < ROW_FOURS; v++) {
        squares[v] = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool is_there = v * LN_WARP + lane < (unsigned)norm.dim / 4;
            float y = is_there ? ln_part(row[v], i) - *mean : 0.0f;
            squares[v] = fmaf(y, y, squares[v]);
        }
    }
    *inverse = 1.0f / sqrtf(sum_virtual_warps(squares) / (float)norm.dim + norm.eps);
}

/* Grid n_rows / 8, block 256. */
template <bool CONVERTS>
static __global__ void __launch_bounds__(ROW_WARPS *LN_WARP, 4)
    norm_short_rows(const __grid_constant__ ln_norm_args p) {
    ln_pdl_launch_and_wait();
    size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / LN_WARP;
    unsigned lane = threadIdx.x % LN_WARP, n_fours = (unsigned)p.norm.dim / 4;
    if (row >= p.n_rows)
        return;
    size_t from = p.rows != NULL ? (size_t)p.rows[row] : row;
    const float4 *x = (const float4 *)(p.x + from * p.norm.dim);
    float4 held[ROW_FOURS];
    float mean, inverse;
#pragma unroll
    for (int v = 0; v < ROW_FOURS; v++) {
        unsigned i = v * LN_WARP + lane;
        held[v] = i < n_fours ? x[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    find_statistics(p.norm, held, &mean, &inverse);
#pragma unroll
    for (int v = 0; v < ROW_FOURS; v++) {
        unsigned i = v * LN_WARP + lane;
        if (i >= n_fours)
            continue;
        float y[4];
        ln_norm_scale_four(held[v], ln_norm_load_factor(p.norm, i), ln_norm_load_bias(p.norm, i),
                           mean, inverse, y);
        if (p.residual != NULL)
            ln_norm_add_residual(p, row, i, y);
        if (p.out != NULL)
            ln_norm_store_four(p, row, i, y);
        if (CONVERTS)
            ln_act_store(p.to, row, 4 * (size_t)i, y);
    }
}

static bool takes_short_rows(const ln_norm_args &p) {
    return p.norm.kind != LN_NORM_NONE && p.norm.dim <= ROW_DIM &&
           ln_norm_find_conversion(p) != LN_NORM_CONVERTED_BY_ROW;
}

static int launch_short_rows(const ln_norm_args &args, ln_cuda_stream stream) {
    dim3 grid(ln_ceil_div(args.n_rows, ROW_WARPS));
    return args.converts
               ? ln_pdl_launch(norm_short_rows<true>, grid, ROW_WARPS * LN_WARP, 0, stream, args)
               : ln_pdl_launch(norm_short_rows<false>, grid, ROW_WARPS * LN_WARP, 0, stream, args);
}

/* ---- rows by blocks ---------------------------------------------------------------------------
 */

/* Grid n_rows, block 512. 48 registers a thread leave room for a small-M GEMM's block on the SM,
 * which starts early (PDL). */
template <int FOURS, ln_norm_conversion TO>
static __global__ void __maxnreg__(FOURS > 2 ? 64 : 48)
    norm_row(const __grid_constant__ ln_norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ unsigned greatest[LN_MAX_WARPS];
    ln_pdl_launch_dependents();
    float4 factor[FOURS], bias[FOURS]; /* ahead of the PDL wait */
    ln_norm_load_constants<1>(p.norm, factor, bias);
    ln_pdl_wait();
    size_t row = blockIdx.x, from = p.rows != NULL ? (size_t)p.rows[row] : row;
    float mean, inverse;
    ln_norm_row<FOURS, 1> held;
    ln_norm_load_row(p.x + from * p.norm.dim, p.norm.dim, held);
    ln_norm_row_statistics(p.norm, held, shared, &mean, &inverse);
    ln_norm_finish_row<TO>(p, row, held, factor, bias, mean, inverse, greatest);
}

/* ---- many rows by persistent blocks -----------------------------------------------------------
 */

/* A thread has eight float4 of a row, and those of the constants in registers: what threads do once
 * for a row is shared by many elements, and 512 threads on an SM leave room for that. */
enum { PER_THREAD = 8, STAGES = 3, SM_THREADS = 512 };

template <int FOURS> struct persistent {
    enum {
        VPT = PER_THREAD / FOURS,
        THREADS = LN_NORM_VTHREADS / VPT,
        BLOCKS = SM_THREADS / THREADS, /* of an SM */
        STAGE = PER_THREAD * THREADS,  /* float4 */
        SHARED_BYTES = STAGES * STAGE * (int)sizeof(float4)
    };
    typedef ln_norm_row<FOURS, VPT> row;
};

/* Queues a thread's part of a row for shared memory, as a cp.async group. */
template <int FOURS>
static __device__ __forceinline__ void fetch_row(const ln_norm_args &p, size_t row, float4 *to) {
    enum { THREADS = persistent<FOURS>::THREADS };
    unsigned n = row < p.n_rows ? (unsigned)p.norm.dim / 4 : 0;
    size_t from = p.rows != NULL && n > 0 ? (size_t)p.rows[row] : row;
    const float4 *x = (const float4 *)(p.x + from * p.norm.dim) + threadIdx.x;
    to += threadIdx.x;
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++)
        if (j * THREADS + threadIdx.x < n)
            ln_cp_async_16(to + j * THREADS, x + j * THREADS);
    ln_cp_async_commit();
}

/* Takes the part of the oldest row that is under way. */
template <int FOURS>
static __device__ __forceinline__ typename persistent<FOURS>::row take_row(const ln_norm_args &p,
                                                                           const float4 *stage) {
    typename persistent<FOURS>::row held;
    ln_cp_async_wait<STAGES - 1>();
    ln_norm_load_row((const float *)stage, p.norm.dim, held);
    return held;
}

/* Threads read back what they fetched themselves, so stages need no barrier. Grid: SMs * BLOCKS,
 * block THREADS, shared memory SHARED_BYTES. The barriers of the sums lie between two uses of
 * `greatest`, and between the last read of a stage and its next row. IS_RMS: without mean and
 * bias. */
template <int FOURS, ln_norm_conversion TO, bool IS_RMS>
static __global__ void __launch_bounds__(persistent<FOURS>::THREADS, persistent<FOURS>::BLOCKS)
    norm_persistent(const __grid_constant__ ln_norm_args p) {
    enum { VPT = persistent<FOURS>::VPT, STAGE = persistent<FOURS>::STAGE };
    extern __shared__ float4 stages[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ unsigned greatest[LN_MAX_WARPS];
    ln_pdl_launch_dependents();
    ln_norm norm = p.norm;
    float4 factor[PER_THREAD], bias[PER_THREAD]; /* ahead of the PDL wait */
    if (IS_RMS)
        norm.bias = NULL;
    ln_norm_load_constants<VPT>(norm, factor, bias);
    if (IS_RMS)
        norm.kind = LN_NORM_RMS;
    ln_pdl_wait();
    for (unsigned k = 0; k < STAGES - 1; k++)
        fetch_row<FOURS>(p, blockIdx.x + (size_t)k * gridDim.x, stages + k * STAGE);
    unsigned stage = 0, next = STAGES - 1;
    for (size_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        float mean, inverse;
        fetch_row<FOURS>(p, row + (size_t)(STAGES - 1) * gridDim.x, stages + next * STAGE);
        typename persistent<FOURS>::row held = take_row<FOURS>(p, stages + stage * STAGE);
        ln_norm_row_statistics(norm, held, shared, &mean, &inverse);
        ln_norm_finish_row<TO>(p, row, held, factor, bias, mean, inverse, greatest);
        next = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
}

template <int FOURS, ln_norm_conversion TO>
static int launch_persistent(const ln_norm_args &args, unsigned n_sms, ln_cuda_stream stream) {
    typedef persistent<FOURS> of;
    const ln_norm &norm = args.norm;
    bool is_rms = norm.kind != LN_NORM_LAYER && norm.bias == NULL;
    void (*kernel)(ln_norm_args) =
        is_rms ? norm_persistent<FOURS, TO, true> : norm_persistent<FOURS, TO, false>;
    int code = cudaFuncSetAttribute((const void *)kernel,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, of::SHARED_BYTES);
    return code != 0 ? code
                     : ln_pdl_launch(kernel, dim3(n_sms * of::BLOCKS), of::THREADS,
                                     of::SHARED_BYTES, stream, args);
}

/* ---- launches ---------------------------------------------------------------------------------
 */

static bool fits_registers(const ln_norm *norm, const float *x, const float *residual,
                           const float *out) {
    return norm->dim % 4 == 0 && norm->dim >= LN_NORM_VTHREADS &&
           norm->dim <= LN_NORM_MAX_FOURS * 4 * LN_NORM_VTHREADS &&
           ((uintptr_t)x | (uintptr_t)residual | (uintptr_t)out | (uintptr_t)norm->weight |
            (uintptr_t)norm->bias) %
                   16 ==
               0;
}

template <int FOURS, ln_norm_conversion TO>
static int launch_to(const ln_norm_args &args, ln_cuda_stream stream) {
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code != 0)
        return code;
    unsigned at_once = n_sms * (FOURS > 2 ? 2 : 3); /* blocks of norm_row */
    if (args.n_rows <= at_once || args.norm.kind == LN_NORM_NONE)
        return ln_pdl_launch(norm_row<FOURS, TO>, dim3((unsigned)args.n_rows), LN_NORM_VTHREADS, 0,
                             stream, args);
    if (FOURS == 1 && takes_short_rows(args))
        return launch_short_rows(args, stream);
    return launch_persistent<FOURS, TO>(args, n_sms, stream);
}

template <int FOURS> static int launch_registers(const ln_norm_args &args, ln_cuda_stream stream) {
    switch (ln_norm_find_conversion(args)) {
    case LN_NORM_CONVERTED: return launch_to<FOURS, LN_NORM_CONVERTED>(args, stream);
    case LN_NORM_CONVERTED_BY_ROW: return launch_to<FOURS, LN_NORM_CONVERTED_BY_ROW>(args, stream);
    default: return launch_to<FOURS, LN_NORM_NOT_CONVERTED>(args, stream);
    }
}

int ln_norm_launch(const ln_norm *norm, size_t n_rows, const int32_t *rows, const float *x,
                   const float *residual, float scale, float *out, const ln_act_view *to,
                   ln_cuda_stream stream) {
    if (n_rows == 0)
        return 0;
    ln_norm_args args = {*norm, n_rows, rows, x, residual, scale, out, to != NULL, {}, norm->dim};
    if (to != NULL)
        args.to = *to;
    bool held = fits_registers(norm, x, residual, out);
    switch (held ? ln_ceil_div(norm->dim, 4 * LN_NORM_VTHREADS) : 0) {
    case 1: return launch_registers<1>(args, stream);
    case 2: return launch_registers<2>(args, stream);
    case 3:
    case LN_NORM_MAX_FOURS: return launch_registers<LN_NORM_MAX_FOURS>(args, stream);
    default:
        return ln_pdl_launch(norm_rows, dim3((unsigned)n_rows), LN_NORM_THREADS, 0, stream, args);
    }
}

int ln_cuda_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_norm *p = &op->norm;
    const int32_t *rows = ln_cuda_norm_rows(op, step);
    if (p->out_stride == 0 || p->n_rows == 0)
        return ln_norm_launch(p->norm, p->n_rows, rows, p->x, p->residual, p->scale, p->out, NULL,
                              stream);
    ln_norm_args args = {
        *p->norm, p->n_rows, rows,         p->x, p->residual, p->scale, p->out + p->out_begin,
        false,    {},        p->out_stride};
    return ln_pdl_launch(norm_rows, dim3((unsigned)p->n_rows), LN_NORM_THREADS, 0, stream, args);
}

static __global__ void gather_columns(const __grid_constant__ ln_op_gather p) {
    size_t row = (size_t)blockIdx.x * p.dim;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        p.out[row + i] = p.x[row + (size_t)p.columns[i]];
}

int ln_cuda_gather(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    if (op->gather.n_rows == 0)
        return 0;
    gather_columns<<<(unsigned)op->gather.n_rows, LN_NORM_THREADS, 0, stream>>>(op->gather);
    return cudaGetLastError();
}
