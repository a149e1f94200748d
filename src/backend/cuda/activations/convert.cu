/* Activations [M][K] of float32 (or bf16) to the form of a view: bf16, f16, int8 or E4M3
 * (view.cuh).
 *
 *     convert                block scales or none. Grid: M * ceil(K / 1,024), 256 threads, four
 *                            columns each
 *     convert_register_rows  row scales, K up to 14,336. Grid: M, 512 threads; the row is held in
 *                            registers
 *     convert_rows           row scales, longer rows, or rows by group: the row is read twice
 *     convert_cluster_rows   row scales, M up to 64, K above 2,048, Hopper: a cluster of CTAs for
 *                            a row
 *
 * Bytes: M K 4 (bf16: 2) in, M K 2 (int8, E4M3: 1) out. */
#include "backend/cuda/activations/convert.cuh"

#include "backend/cuda/activations/store_row.cuh"
#include "backend/cuda/ptx/shared_address.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { CONVERT_THREADS = 256, CONVERT_COLS = 4 * CONVERT_THREADS, ROW_THREADS = 512 };

size_t ln_act_bytes(size_t n_rows, size_t n_cols) {
    size_t cols = ln_weight_tile_padded_cols(LN_LAYOUT_INT8, n_cols),
           rows_per_tile = ln_act_tile_rows(LN_LAYOUT_BF16);
    n_rows = (n_rows + rows_per_tile - 1) / rows_per_tile * rows_per_tile;
    return n_rows * cols * 2 * sizeof(__nv_bfloat16); /* int8 and scales take less */
}

size_t ln_act_groups_bytes(size_t n_groups, size_t n_cols) {
    size_t cols = ln_weight_tile_padded_cols(LN_LAYOUT_INT8, n_cols);
    return n_groups * ln_act_tile_rows(LN_LAYOUT_BF16) * cols * 2 * sizeof(__nv_bfloat16);
}

typedef struct convert_args {
    const float *x;
    const __nv_bfloat16 *bf16; /* or rows of these, [n_rows][n_cols] */
    size_t stride, n_cols;
    bool is_aligned;
    ln_act_view to;
    ln_group_order groups;       /* where rows go to tiles by group: */
    const ln_listed_slot *slots; /* of a tile each */
    size_t rows_per_x;
} convert_args;

/* Four columns of a row; past its end zeros. */
static __device__ __forceinline__ void load_four(const convert_args &p, size_t row, size_t col,
                                                 float v[4]) {
    const float *x = p.x + row * p.stride + col;
    if (p.is_aligned && col < p.n_cols) {
        float4 four = *(const float4 *)x;
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
        for (int i = 0; i < 4; i++)
            v[i] = col + i < p.n_cols ? x[i] : 0.0f;
    }
}

/* The row of x that goes to `row`; false: none does. */
template <bool BY_GROUP>
static __device__ __forceinline__ bool find_source(const convert_args &p, size_t row,
                                                   size_t *from) {
    *from = row;
    if (!BY_GROUP)
        return true;
    ln_group_slot slot = p.slots[row / p.to.rows_per_tile].slot;
    unsigned i = (unsigned)(row % p.to.rows_per_tile);
    if (i >= slot.n)
        return false;
    *from = ln_slot_row(p.groups, slot, i) / p.rows_per_x;
    return true;
}

template <bool BY_GROUP> static __global__ void convert(const __grid_constant__ convert_args p) {
    ln_pdl_launch_and_wait();
    unsigned per_row = ((unsigned)p.to.cols + CONVERT_COLS - 1) / CONVERT_COLS;
    size_t row = blockIdx.x / per_row, from;
    size_t col = blockIdx.x % per_row * CONVERT_COLS + 4 * threadIdx.x;
    if (col >= p.to.cols || !find_source<BY_GROUP>(p, row, &from))
        return;
    float v[4];
    load_four(p, from, col, v);
    ln_act_store(p.to, row, col, v);
}

template <bool BY_GROUP>
static __global__ void __launch_bounds__(ROW_THREADS)
    convert_rows(const __grid_constant__ convert_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    ln_pdl_launch_and_wait();
    size_t row = blockIdx.x, from;
    if (!find_source<BY_GROUP>(p, row, &from))
        return;
    float v[4], largest = 0.0f;
#pragma unroll 4
    for (size_t col = 4 * threadIdx.x; col < p.n_cols; col += 4 * ROW_THREADS) {
        load_four(p, from, col, v);
        largest = fmaxf(largest, ln_largest_of_four(v));
    }
    largest = ln_block_max(largest, shared);
#pragma unroll 4
    for (size_t col = 4 * threadIdx.x; col < p.to.cols; col += 4 * ROW_THREADS) {
        load_four(p, from, col, v);
        ln_act_store_row_scaled(p.to, row, col, v, largest);
    }
}

/* A row of at most FOURS * 4 * ROW_THREADS columns in registers. */
template <int FOURS>
static __device__ __forceinline__ float load_row(const convert_args &p, size_t row,
                                                 float (&v)[FOURS][4]) {
    float largest = 0.0f;
    const float4 *x = (const float4 *)(p.x + row * p.stride);
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        unsigned four = h * ROW_THREADS + threadIdx.x;
        if (p.is_aligned && 4 * four < (unsigned)p.n_cols) {
            float4 y = x[four];
            v[h][0] = y.x, v[h][1] = y.y, v[h][2] = y.z, v[h][3] = y.w;
        } else if (4 * four < (unsigned)p.n_cols) {
            load_four(p, row, 4 * (size_t)four, v[h]);
        }
    }
#pragma unroll
    for (int h = 0; h < FOURS; h++)
        largest = fmaxf(largest, ln_largest_of_four(v[h]));
    return largest;
}

/* The same of a row of bf16, whose magnitudes compare as unsigned integers. */
template <int FOURS>
static __device__ __forceinline__ float load_bf16_row(const convert_args &p, size_t row,
                                                      float (&v)[FOURS][4]) {
    const uint2 *x = (const uint2 *)(p.bf16 + row * p.n_cols);
    uint2 fours[FOURS] = {};
    unsigned two = 0;
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        unsigned i = h * ROW_THREADS + threadIdx.x;
        if (4 * i < (unsigned)p.n_cols)
            fours[h] = __ldcs(x + i);
    }
#pragma unroll
    for (int h = 0; h < FOURS; h++)
        two = __vmaxu2(two, __vmaxu2(fours[h].x & 0x7fff7fff, fours[h].y & 0x7fff7fff));
    unsigned largest = max(two >> 16, two & 0xffff);
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        v[h][0] = __uint_as_float(fours[h].x << 16);
        v[h][1] = __uint_as_float(fours[h].x & 0xffff0000u);
        v[h][2] = __uint_as_float(fours[h].y << 16);
        v[h][3] = __uint_as_float(fours[h].y & 0xffff0000u);
    }
    return __uint_as_float(min(largest, 0x7f80u) << 16); /* NaN counts as infinite */
}

template <int FOURS, bool FROM_BF16>
static __global__ void __launch_bounds__(ROW_THREADS, FOURS < 4 ? 4 : FOURS == 4 ? 3 : 2)
    convert_register_rows(const __grid_constant__ convert_args p) {
    __shared__ unsigned shared[LN_MAX_WARPS];
    ln_pdl_launch_and_wait();
    size_t row = blockIdx.x;
    float v[FOURS][4] = {}, largest = FROM_BF16 ? load_bf16_row(p, row, v) : load_row(p, row, v);
    ln_act_store_row_registers<ROW_THREADS>(p.to, row, v, ln_block_greatest(largest, shared));
}

enum { MAX_FOURS = 7, MAX_CLUSTER_ROWS = 64 };
static_assert(LN_ACT_MAX_ROW_COLS == MAX_FOURS * 4 * ROW_THREADS, "as the planner has it");
static_assert(sizeof(ln_listed_slot) == LN_GROUP_SLOT_BYTES, "as the planner has it");

/* A row by the CTAs of a cluster, four columns to a thread: which takes less time where rows are
 * few. */
static __global__ void __launch_bounds__(ROW_THREADS)
    convert_cluster_rows(const __grid_constant__ convert_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ unsigned shared[LN_MAX_WARPS];
    __shared__ float greatest[MAX_FOURS];
    unsigned n, rank;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("barrier.cluster.arrive.relaxed.aligned;");
    ln_pdl_launch_and_wait();
    size_t row = blockIdx.x / n, col = 4 * ((size_t)rank * ROW_THREADS + threadIdx.x);
    float v[4] = {};
    if (col < p.n_cols)
        load_four(p, row, col, v);
    float largest = ln_block_greatest(ln_largest_of_four(v), shared);
    asm volatile("barrier.cluster.wait.aligned;"); /* all blocks are there */
    if (threadIdx.x < n)
        asm volatile("{\n"
                     ".reg .b32 at;\n"
                     "mapa.shared::cluster.u32 at, %0, %1;\n"
                     "st.shared::cluster.f32 [at], %2;\n"
                     "}" ::"r"(ln_shared_address(&greatest[rank])),
                     "r"(threadIdx.x), "f"(largest)
                     : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    for (unsigned i = 0; i < n; i++)
        largest = fmaxf(largest, greatest[i]);
    if (col < p.to.cols)
        ln_act_store_row_scaled(p.to, row, col, v, largest);
#endif
}

static int launch_cluster(const convert_args &args, size_t n_rows, ln_cuda_stream stream) {
    unsigned n = ln_ceil_div(args.to.cols, 4 * ROW_THREADS);
    return ln_pdl_launch_clusters(convert_cluster_rows, dim3((unsigned)n_rows * n), ROW_THREADS, 0,
                                  n, stream, args);
}

template <bool FROM_BF16>
static int launch_registers(const convert_args &args, size_t n_rows, ln_cuda_stream stream) {
    dim3 grid((unsigned)n_rows);
    if (!FROM_BF16 && n_rows <= MAX_CLUSTER_ROWS && args.to.cols > 4 * ROW_THREADS &&
        ln_has_sm90a_code())
        return launch_cluster(args, n_rows, stream);
    switch (ln_ceil_div(args.to.cols, 4 * ROW_THREADS)) {
    case 1:
        return ln_pdl_launch(convert_register_rows<1, FROM_BF16>, grid, ROW_THREADS, 0, stream,
                             args);
    case 2:
        return ln_pdl_launch(convert_register_rows<2, FROM_BF16>, grid, ROW_THREADS, 0, stream,
                             args);
    case 3:
    case 4:
        return ln_pdl_launch(convert_register_rows<4, FROM_BF16>, grid, ROW_THREADS, 0, stream,
                             args);
    default:
        return ln_pdl_launch(convert_register_rows<MAX_FOURS, FROM_BF16>, grid, ROW_THREADS, 0,
                             stream, args);
    }
}

template <bool BY_GROUP>
static int launch_rows(const convert_args &args, size_t n_rows, ln_cuda_stream stream) {
    if (!BY_GROUP && args.to.cols <= MAX_FOURS * 4 * ROW_THREADS)
        return launch_registers<false>(args, n_rows, stream);
    return ln_pdl_launch(convert_rows<BY_GROUP>, dim3((unsigned)n_rows), ROW_THREADS, 0, stream,
                         args);
}

static convert_args make_args(const ln_converted_act *x) {
    convert_args args = {};
    args.x = x->of;
    args.stride = x->stride;
    args.n_cols = x->n_cols;
    args.is_aligned =
        x->n_cols % 4 == 0 && x->stride % 4 == 0 && (uintptr_t)x->of % sizeof(float4) == 0;
    args.to = ln_act_view_of(x);
    return args;
}

template <bool BY_GROUP>
static int launch(const convert_args &args, size_t n_rows, ln_cuda_stream stream) {
    if (args.to.by_row)
        return launch_rows<BY_GROUP>(args, n_rows, stream);
    unsigned grid = (unsigned)(ln_ceil_div(args.to.cols, CONVERT_COLS) * n_rows);
    return ln_pdl_launch(convert<BY_GROUP>, dim3(grid), CONVERT_THREADS, 0, stream, args);
}

int ln_act_convert(const ln_converted_act *x, ln_cuda_stream stream) {
    return launch<false>(make_args(x), x->n_rows, stream);
}

int ln_act_convert_bf16(const ln_converted_act *x, const void *rows, ln_cuda_stream stream) {
    convert_args args = make_args(x);
    args.bf16 = (const __nv_bfloat16 *)rows;
    return launch_registers<true>(args, x->n_rows, stream);
}

int ln_act_convert_groups(const ln_converted_act *x, const ln_group_order &groups,
                          const ln_listed_slot *slots, size_t rows_per_x, ln_cuda_stream stream) {
    convert_args args = make_args(x);
    args.groups = groups;
    args.slots = slots;
    args.rows_per_x = rows_per_x;
    return launch<true>(args, x->n_rows, stream);
}
