/* Y [M][N] = X [M][K] W^T with its epilogue in float32, for every weight type and any M (M = 1 is a
 * GEMV): the kernel of `exact`, and of types without packed tiles.
 *
 * A warp has one output column and up to ROWS rows of X: lane l takes the groups of eight elements
 * l, l + 32, l + 64 .. of K in order, and the lanes' sums are reduced by halves at the end. The
 * order depends on K alone, so one row and many give the same bits.
 *
 * Plain linears of many rows have COLUMNS columns to a warp, with the same sums.
 *
 * Grid: (ceil(N / 8), tiles of ROWS rows, groups). Block: 8 warps. Bytes: W once for ROWS rows (8,
 * or 1 at M 1), X from the caches. */
#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/gemm/groups.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/dequantize_iq.cuh"
#include "backend/cuda/weights/traits.cuh"

enum {
    WARPS = 8,
    MANY = 8,
    COLUMNS = 4,           /* of a warp, of plain linears */
    COLUMNS_MIN_ROWS = 128 /* from which these fill a GPU */
};

typedef struct linear_args {
    ln_dtype dtype, gate_dtype;
    ln_matrices weight, gate;
    size_t n_in, n_out, n_rows;
    size_t first_group, group_step; /* group_step: of n_groups groups without order, else 1 */
    const int32_t *order, *starts;
    ln_activation activation;
    size_t rows_per_x, x_stride, out_stride;
    bool x_is_aligned; /* float4 loads are fine, and n_in is a number of whole groups */
    const float *x, *residual;
    float scale, softcap;
    float *out;
} linear_args;

/* T: a weight type, or LN_DTYPE_COUNT for what `dtype` says. */
template <int T>
static __device__ __forceinline__ void load_weights(ln_dtype dtype, const uint8_t *row, size_t k,
                                                    float *out) {
    switch (T) {
    case LN_DTYPE_F32: ln_load_f32(row, k, out); return;
    case LN_DTYPE_F16: ln_load_f16(row, k, out); return;
    case LN_DTYPE_BF16: ln_load_bf16(row, k, out); return;
    case LN_DTYPE_Q4_0: ln_load_q4_0(row, k, out); return;
    case LN_DTYPE_Q8_0: ln_load_q8_0(row, k, out); return;
    case LN_DTYPE_Q4_K: ln_load_q4_k(row, k, out); return;
    case LN_DTYPE_Q6_K: ln_load_q6_k(row, k, out); return;
    case LN_DTYPE_MXFP4: ln_load_mxfp4(row, k, out); return;
    case LN_DTYPE_NVFP4: ln_load_nvfp4(row, k, out); return;
    case LN_DTYPE_Q1_0: ln_load_q1_0(row, k, out); return;
    case LN_DTYPE_Q2_0: ln_load_q2_0(row, k, out); return;
    default: ln_load_any(dtype, row, k, out); return;
    }
}

/* Eight elements of a row of packed tiles, where no other kernel takes them. */
static __device__ void load_tiled(int kind, const uint8_t *matrix, size_t n_cols, size_t row,
                                  size_t k, float *out) {
    for (size_t i = 0; i < LN_GROUP; i++)
        out[i] = k + i < n_cols ? ln_weight_tile_value(kind, matrix, n_cols, row, k + i) : 0.0f;
}

/* Elements k .. k + 7 of a column's row in a group's matrix. */
template <int T>
static __device__ __forceinline__ void load_row(const linear_args &p, const ln_matrices &m,
                                                ln_dtype dtype, size_t group, size_t column,
                                                size_t k, float *out) {
    const uint8_t *matrix = ln_matrix_of_group(m, group);
    if (T == LN_DTYPE_COUNT && m.tiles != LN_LAYOUT_NONE)
        load_tiled(m.tiles, matrix, p.n_in, column, k, out);
    else
        load_weights<T>(dtype, matrix + column * m.row_bytes, k, out);
}

static __device__ __forceinline__ void load_x(const linear_args &p, const float *x, size_t k,
                                              float *out) {
    if (p.x_is_aligned) {
        ln_load_f32((const uint8_t *)x, k, out);
        return;
    }
    for (size_t i = 0; i < LN_GROUP; i++)
        out[i] = k + i < p.n_in ? x[k + i] : 0.0f;
}

static __device__ __forceinline__ float dot_group(const float *w, const float *x, float sum) {
    for (int i = 0; i < LN_GROUP; i++)
        sum = fmaf(w[i], x[i], sum);
    return sum;
}

/* The epilogue of a row and a column. */
static __device__ void finish(const linear_args &p, size_t group, size_t row, size_t column,
                              float u, float g) {
    ln_epilogue e = {};
    e.bias = ln_bias_of_group(p.weight, group);
    e.gate_bias = ln_bias_of_group(p.gate, group);
    e.has_gate = p.gate.data != NULL;
    e.activation = p.activation;
    e.residual = p.residual;
    e.scale = p.scale;
    e.softcap = p.softcap;
    e.n_out = p.n_out;
    e.out_stride = p.out_stride;
    e.out = p.out;
    ln_finish(e, row, column, u, g);
}

/* Rows i .. i + ROWS - 1 of a group, of which n are there, with one column. */
template <int T, int ROWS>
static __device__ __forceinline__ void multiply(const linear_args &p, size_t group, size_t column,
                                                size_t i, size_t n) {
    unsigned lane = threadIdx.x % LN_WARP;
    bool has_gate = p.gate.data != NULL;
    size_t rows[ROWS];
    const float *x[ROWS];
    float u_sum[ROWS], g_sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        size_t at = i + ((size_t)r < n ? (size_t)r : n - 1);
        rows[r] = p.order != NULL ? (size_t)p.order[at] : p.first_group + group + at * p.group_step;
        x[r] = p.x + rows[r] / p.rows_per_x * p.x_stride;
        u_sum[r] = g_sum[r] = 0.0f;
    }
    constexpr int AT_ONCE = ROWS == 1 && T != LN_DTYPE_COUNT ? 4 : 1; /* loads under way */
#pragma unroll AT_ONCE
    for (size_t k = lane * LN_GROUP; k < p.n_in; k += LN_WARP * LN_GROUP) {
        float u_weights[LN_GROUP], g_weights[LN_GROUP], values[LN_GROUP];
        load_row<T>(p, p.weight, p.dtype, group, column, k, u_weights);
        if (has_gate)
            load_row<T>(p, p.gate, p.gate_dtype, group, column, k, g_weights);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            load_x(p, x[r], k, values);
            u_sum[r] = dot_group(u_weights, values, u_sum[r]);
            if (has_gate)
                g_sum[r] = dot_group(g_weights, values, g_sum[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float u = ln_warp_sum(u_sum[r]), z = has_gate ? ln_warp_sum(g_sum[r]) : 0.0f;
        if (lane == (unsigned)r && (size_t)r < n)
            finish(p, group, rows[r], column, u, z);
    }
}

/* The same of COLUMNS columns without gates, for which rows of X are loaded once. */
template <int T, int ROWS>
static __device__ __forceinline__ void multiply_columns(const linear_args &p, size_t column,
                                                        size_t i, size_t n) {
    unsigned lane = threadIdx.x % LN_WARP;
    float sums[COLUMNS][ROWS] = {};
    for (size_t k = lane * LN_GROUP; k < p.n_in; k += LN_WARP * LN_GROUP) {
        float weights[COLUMNS][LN_GROUP];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            size_t at = column + (size_t)c < p.n_out ? column + (size_t)c : p.n_out - 1;
            load_row<T>(p, p.weight, p.dtype, 0, at, k, weights[c]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float values[LN_GROUP];
            size_t row = i + ((size_t)r < n ? (size_t)r : n - 1);
            load_x(p, p.x + row / p.rows_per_x * p.x_stride, k, values);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                sums[c][r] = dot_group(weights[c], values, sums[c][r]);
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float u = ln_warp_sum(sums[c][r]);
            if (lane == (unsigned)r && (size_t)r < n && column + (size_t)c < p.n_out)
                finish(p, 0, i + (size_t)r, column + (size_t)c, u, 0.0f);
        }
}

/* Grid: blocks of WARPS * COLUMNS columns, tiles of rows. */
template <int T>
static __global__ void __launch_bounds__(WARPS *LN_WARP)
    linear_columns(const __grid_constant__ linear_args p) {
    ln_pdl_launch_and_wait();
    size_t column = ((size_t)blockIdx.x * WARPS + threadIdx.x / LN_WARP) * COLUMNS;
    if (column >= p.n_out)
        return;
    for (size_t i = blockIdx.y * MANY; i < p.n_rows; i += (size_t)gridDim.y * MANY)
        multiply_columns<T, MANY>(p, column, i, p.n_rows - i < MANY ? p.n_rows - i : MANY);
}

/* Asks for a column's row of weights, which needs no result of the launch before. */
static __device__ __forceinline__ void prefetch_row(const linear_args &p, size_t group,
                                                    size_t column) {
    enum { LINE = 128 };
    const uint8_t *row = ln_matrix_of_group(p.weight, group) + column * p.weight.row_bytes;
    for (size_t at = threadIdx.x % LN_WARP * LINE; at < p.weight.row_bytes; at += LN_WARP * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
}

template <int T, int ROWS>
static __global__ void __launch_bounds__(WARPS *LN_WARP)
    linear(const __grid_constant__ linear_args p) {
    size_t column = (size_t)blockIdx.x * WARPS + threadIdx.x / LN_WARP;
    size_t group = blockIdx.z, begin = 0, end;
    ln_pdl_launch_dependents();
    if (T != LN_DTYPE_COUNT && p.order == NULL && column < p.n_out)
        prefetch_row(p, group, column);
    ln_pdl_wait();
    if (column >= p.n_out)
        return;
    if (p.order != NULL) {
        begin = (size_t)p.starts[p.first_group + group];
        end = (size_t)p.starts[p.first_group + group + 1];
    } else {
        size_t first = p.first_group + group;
        end = first < p.n_rows ? (p.n_rows - first + p.group_step - 1) / p.group_step : 0;
    }
    for (size_t i = begin + blockIdx.y * ROWS; i < end; i += (size_t)gridDim.y * ROWS)
        multiply<T, ROWS>(p, group, column, i, end - i < ROWS ? end - i : ROWS);
}

/* Two linears of the same rows of X, of which `small_n` has an N below COLUMNS. */
typedef struct pair_args {
    linear_args small_n, large_n;
} pair_args;

/* Grid: blocks of WARPS columns, and one of the linear of small N, whose warps have a row each;
 * tiles of MANY rows. */
template <int T, int ROWS>
static __global__ void __launch_bounds__(WARPS *LN_WARP)
    linear_pair(const __grid_constant__ pair_args p) {
    static_assert((int)WARPS == (int)MANY, "a warp for each row of a tile");
    const unsigned warp = threadIdx.x / LN_WARP;
    const bool is_small_n = blockIdx.x + 1 == gridDim.x;
    const size_t first = blockIdx.y * MANY, row = first + warp;
    size_t column = is_small_n ? 0 : (size_t)blockIdx.x * WARPS + warp;
    ln_pdl_launch_dependents();
    if (is_small_n)
        prefetch_row(p.small_n, 0, min((size_t)warp, p.small_n.n_out - 1));
    else if (column < p.large_n.n_out)
        prefetch_row(p.large_n, 0, column);
    ln_pdl_wait();
    if (!is_small_n && column < p.large_n.n_out)
        multiply<T, ROWS>(p.large_n, 0, column, first, min((size_t)ROWS, p.large_n.n_rows - first));
    for (; is_small_n && row < p.small_n.n_rows && column < p.small_n.n_out; column++)
        multiply<T, 1>(p.small_n, 0, column, row, 1);
}

/* n_groups groups from args->first_group on. */
template <int T> static int launch(const linear_args &args, size_t n_groups, cudaStream_t stream) {
    size_t per_group = args.order != NULL ? args.n_rows : args.n_rows / args.group_step + 1;
    size_t tiles = per_group > 1 ? (per_group + MANY - 1) / MANY : 1;
    unsigned n_tiles = (unsigned)(tiles < 1024 ? tiles : 1024); /* a block takes several */
    dim3 grid(ln_ceil_div(args.n_out, WARPS), n_tiles, (unsigned)n_groups);
    bool is_plain = args.order == NULL && args.group_step == 1 && n_groups == 1 &&
                    args.first_group == 0 && args.gate.data == NULL;
    if (T != LN_DTYPE_COUNT && is_plain && args.n_rows >= COLUMNS_MIN_ROWS && args.n_out >= COLUMNS)
        return ln_pdl_launch(linear_columns<T>,
                             dim3(ln_ceil_div(args.n_out, WARPS * COLUMNS), n_tiles),
                             WARPS * LN_WARP, 0, stream, args);
    if (is_plain && args.n_out < COLUMNS) /* a warp has one row, or few warps would work */
        grid.y = (unsigned)(args.n_rows < 1024 ? args.n_rows : 1024);
    return ln_pdl_launch(args.n_rows == 1 || (is_plain && args.n_out < COLUMNS) ? linear<T, 1>
                                                                                : linear<T, MANY>,
                         grid, WARPS * LN_WARP, 0, stream, args);
}

static int launch_type(const linear_args &args, size_t n_groups, cudaStream_t stream) {
    bool is_mixed = args.gate.data != NULL && args.gate_dtype != args.dtype;
    is_mixed = is_mixed || args.weight.tiles != LN_LAYOUT_NONE || args.gate.tiles != LN_LAYOUT_NONE;
    switch (is_mixed ? LN_DTYPE_COUNT : args.dtype) {
    case LN_DTYPE_F32: return launch<LN_DTYPE_F32>(args, n_groups, stream);
    case LN_DTYPE_F16: return launch<LN_DTYPE_F16>(args, n_groups, stream);
    case LN_DTYPE_BF16: return launch<LN_DTYPE_BF16>(args, n_groups, stream);
    case LN_DTYPE_Q4_0: return launch<LN_DTYPE_Q4_0>(args, n_groups, stream);
    case LN_DTYPE_Q8_0: return launch<LN_DTYPE_Q8_0>(args, n_groups, stream);
    case LN_DTYPE_Q4_K: return launch<LN_DTYPE_Q4_K>(args, n_groups, stream);
    case LN_DTYPE_Q6_K: return launch<LN_DTYPE_Q6_K>(args, n_groups, stream);
    case LN_DTYPE_MXFP4: return launch<LN_DTYPE_MXFP4>(args, n_groups, stream);
    case LN_DTYPE_NVFP4: return launch<LN_DTYPE_NVFP4>(args, n_groups, stream);
    case LN_DTYPE_Q1_0: return launch<LN_DTYPE_Q1_0>(args, n_groups, stream);
    case LN_DTYPE_Q2_0: return launch<LN_DTYPE_Q2_0>(args, n_groups, stream);
    default: return launch<LN_DTYPE_COUNT>(args, n_groups, stream);
    }
}

static linear_args make_args(const ln_op_linear *p) {
    linear_args args = {};
    size_t n_in = p->weight->n_cols;
    args.n_in = n_in;
    args.n_out = p->weight->n_rows;
    args.n_rows = p->n_rows;
    bool is_strided = p->groups.n_groups > 0 && p->groups.order == NULL;
    args.group_step = is_strided ? p->groups.n_groups : 1;
    args.order = p->groups.n_groups > 0 ? p->groups.order : NULL;
    args.starts = p->groups.starts;
    args.activation = p->activation;
    args.rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    args.x_stride = p->x_stride > 0 ? p->x_stride : n_in;
    args.out_stride = p->out_stride > 0 ? p->out_stride : args.n_out;
    args.x_is_aligned = n_in % LN_GROUP == 0 && args.x_stride % 4 == 0 && (uintptr_t)p->x % 16 == 0;
    args.x = p->x;
    args.residual = p->residual;
    args.scale = p->scale;
    args.softcap = p->softcap;
    args.out = p->out;
    return args;
}

int ln_cuda_linear(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    const ln_op_linear *p = &op->linear;
    if (p->n_rows == 0)
        return 0;
    linear_args args = make_args(p);
    size_t n_groups = p->groups.n_groups > 0 ? p->groups.n_groups : 1;
    bool is_even = ln_describe_matrices(p->weight, n_groups, &args.weight) &
                   ln_describe_matrices(p->gate, n_groups, &args.gate);
    size_t at_once = is_even ? n_groups : 1;
    for (size_t i = 0; i < n_groups; i += at_once) {
        args.first_group = i;
        args.dtype = p->weight[i].dtype;
        args.gate_dtype = p->gate != NULL ? p->gate[i].dtype : args.dtype;
        if (!is_even) {
            ln_describe_matrices(p->weight + i, 1, &args.weight);
            ln_describe_matrices(p->gate != NULL ? p->gate + i : NULL, 1, &args.gate);
        }
        int code = launch_type(args, at_once, stream);
        if (code != 0)
            return code;
    }
    return 0;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

template <int T> static int launch_pair(const pair_args &args, cudaStream_t stream) {
    dim3 grid(ln_ceil_div(args.large_n.n_out, WARPS) + 1, ln_ceil_div(args.large_n.n_rows, MANY));
    return ln_pdl_launch(args.large_n.n_rows == 1 ? linear_pair<T, 1> : linear_pair<T, MANY>, grid,
                         WARPS * LN_WARP, 0, stream, args);
}

int ln_cuda_linear_pair(const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    pair_args args = {make_args(&ops[0].linear), make_args(&ops[1].linear)};
    static_assert((int)COLUMNS == (int)LN_PAIR_NARROW + 1 &&
                      (int)COLUMNS_MIN_ROWS == (int)LN_PAIR_ROWS + 1,
                  "more columns or rows have kernels of their own");
    (void)ln_describe_matrices(ops[0].linear.weight, 1, &args.small_n.weight);
    (void)ln_describe_matrices(ops[1].linear.weight, 1, &args.large_n.weight);
    switch (ops[0].linear.weight->dtype) {
    case LN_DTYPE_F32: return launch_pair<LN_DTYPE_F32>(args, stream);
    case LN_DTYPE_F16: return launch_pair<LN_DTYPE_F16>(args, stream);
    default: return launch_pair<LN_DTYPE_BF16>(args, stream);
    }
}
