/* A chain's x: rows, or their norms, in the form that tiles meet, which every block makes in its
 * shared memory: as activations/convert.cuh has it, row after row. What is asked of a linear is read once, ahead
 * of the writes, and arithmetic is of 32 bits: with 16 warps on a multiprocessor it is the number
 * of instructions that costs time here. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ACTIVATIONS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ACTIVATIONS_CUH

#include "backend/cuda/fused/decode_pipeline.cuh"

static_assert((int)LN_HELD_THREADS == LN_FUSED_DECODE_THREADS && LN_FUSED_DECODE_WARPS <= LN_MAX_WARPS / 2,
              "sums as norm.cuh has them, in two places by turns");

/* Columns from one float4 of a thread to its next. */
enum {
    LN_FUSED_DECODE_COLS = 4 * LN_FUSED_DECODE_THREADS,
    LN_FUSED_DECODE_LOOK_NS = 40 /* between looks, which hinder copies of weights */
};

/* The larger magnitude, or a NaN if either is one. */
static __device__ __forceinline__ float ln_fused_decode_largest(float a, float b) {
    float largest;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(fabsf(a)), "f"(fabsf(b)));
    return largest;
}

/* ln_quantize_four, by additions where all products are small: the bits of 1.5 * 2^23 + n end with
 * those of n, and conversions are four times as slow. */
static __device__ __forceinline__ uint32_t ln_fused_decode_quantize(const float v[4], float inverse) {
    if (!(inverse > 0.0f && inverse < INFINITY))
        return ln_quantize_four(v, inverse);
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = __float_as_uint(v[i] * inverse + 12582912.0f);
    uint32_t low = __byte_perm(bits[0], bits[1], 0x0040);
    return __byte_perm(low, __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
}

/* Where a thread's first four columns of a row go: elements of values, and of scales. The next are
 * LN_FUSED_DECODE_COLS further on. */
typedef struct ln_fused_decode_place {
    unsigned value, scale;
} ln_fused_decode_place;

template <int KIND>
static __device__ __forceinline__ ln_fused_decode_place ln_fused_decode_find(const ln_act_view &to,
                                                               unsigned row) {
    unsigned col = threadIdx.x * 4, at = row * (unsigned)to.cols;
    ln_fused_decode_place place = {at + col, (at + col) / LN_SCALE_BLOCK};
    if (!ln_weight_tile_has_16_bit_act(KIND))
        place.value = at + col / 64 * 64 + col % 32 / 8 * 16 + col % 64 / 32 * 8 + col % 8;
    return place;
}

/* ln_act_store of columns number h of a thread, where rows are in no panel; by whole warps, as 128
 * columns are all in a tile or none. */
template <int KIND>
static __device__ __forceinline__ void
ln_fused_decode_put(const ln_act_view &to, const ln_fused_decode_place &place, int h, const float v[4]) {
    if constexpr (KIND == LN_LAYOUT_BF16) {
        unsigned at = place.value + h * LN_FUSED_DECODE_COLS;
        uint2 words = make_uint2(ln_pack_bf16(v[0], v[1]), ln_pack_bf16(v[2], v[3]));
        *(uint2 *)(to.bf16 + at) = words;
        if (to.rest == NULL)
            return;
        float rest[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            rest[i] = v[i] - ln_bf16((uint16_t)((i < 2 ? words.x : words.y) >> i % 2 * 16));
        *(uint2 *)(to.rest + at) =
            make_uint2(ln_pack_bf16(rest[0], rest[1]), ln_pack_bf16(rest[2], rest[3]));
    } else {
        float largest =
            ln_fused_decode_largest(ln_fused_decode_largest(v[0], v[1]), ln_fused_decode_largest(v[2], v[3]));
#pragma unroll
        for (int step = 4; step > 0; step /= 2)
            largest = ln_fused_decode_largest(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        largest = fminf(largest, INFINITY); /* for a NaN, too */
        *(uint32_t *)(to.int8 + place.value + h * LN_FUSED_DECODE_COLS) =
            ln_fused_decode_quantize(v, ln_inverse_scale(largest));
        if (threadIdx.x % (LN_SCALE_BLOCK / 4) == 0)
            to.scales[place.scale + h * (LN_FUSED_DECODE_COLS / LN_SCALE_BLOCK)] =
                largest * (1.0f / 127.0f);
    }
}

/* The largest magnitude of a row, from what threads have; infinite if anything is a NaN. shared
 * [LN_FUSED_DECODE_WARPS] is used again only behind another barrier. */
static __device__ __forceinline__ float ln_fused_decode_row_largest(float largest, float *shared) {
    return fminf(ln_block_greatest(largest, (unsigned *)shared), INFINITY);
}

/* What a row of x in f16 is multiplied with, by its largest magnitude; its scale goes where sums
 * find it. */
static __device__ __forceinline__ float ln_fused_decode_f16_factor(const ln_act_view &to, unsigned row,
                                                            float largest) {
    if (threadIdx.x == 0)
        to.scales[row] = ln_f16_scale(largest);
    return ln_f16_factor(largest);
}

/* ln_act_store_row_scaled of columns number h of a thread. */
static __device__ __forceinline__ void ln_fused_decode_put_f16(const ln_act_view &to,
                                                        const ln_fused_decode_place &place, int h,
                                                        const float v[4], float factor) {
    *(uint2 *)(to.bf16 + place.value + h * LN_FUSED_DECODE_COLS) = make_uint2(
        ln_pack_f16(v[0] * factor, v[1] * factor), ln_pack_f16(v[2] * factor, v[3] * factor));
}

/* Number h of a thread's fours of a row, from `first` columns on, zeros past its end; as soon as
 * they are there where others pass them. */
template <int N>
static __device__ __forceinline__ void ln_fused_decode_take(const float *row, bool is_passed,
                                                     unsigned n_cols, unsigned first,
                                                     float4 (&held)[N]) {
#pragma unroll
    for (int h = 0; h < N; h++)
        held[h] = first + h * LN_FUSED_DECODE_COLS < n_cols
                      ? ln_look((const float4 *)(row + first + h * LN_FUSED_DECODE_COLS))
                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (bool waits = is_passed; waits;) {
        waits = false;
#pragma unroll
        for (int h = 0; h < N; h++)
            waits |= ln_is_missing(held[h]);
        if (!waits)
            return;
        __nanosleep(LN_FUSED_DECODE_LOOK_NS);
#pragma unroll
        for (int h = 0; h < N; h++)
            if (ln_is_missing(held[h]))
                held[h] = ln_look((const float4 *)(row + first + h * LN_FUSED_DECODE_COLS));
    }
}

/* Four of a row, zeros past its end. */
static __device__ __forceinline__ float4 ln_fused_decode_four(const float *row, unsigned col,
                                                       unsigned n_cols) {
    return col < n_cols ? *(const float4 *)(row + col) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

static __device__ __forceinline__ float ln_fused_decode_largest(const float4 &v) {
    return ln_fused_decode_largest(ln_fused_decode_largest(v.x, v.y), ln_fused_decode_largest(v.z, v.w));
}

/* ln_fused_decode_convert to f16. What of a row threads cannot hold is read twice.
 * shared [LN_MAX_WARPS] */
static __device__ __forceinline__ void ln_fused_decode_convert_f16(const ln_fused_decode_linear &l,
                                                            unsigned n_rows,
                                                            const ln_act_view &to,
                                                            unsigned padded, float *shared) {
    enum { AT_ONCE = 8, HELD_COLS = AT_ONCE * LN_FUSED_DECODE_COLS };
    const float *x = l.x;
    const unsigned n_cols = l.n_cols, stride = l.stride, last = (padded - 1) / HELD_COLS;
    for (unsigned row = 0; row < n_rows; row++, x += stride) {
        ln_fused_decode_place place = ln_fused_decode_find<LN_LAYOUT_Q4>(to, row);
        float4 held[AT_ONCE];
        float largest = 0.0f;
        for (unsigned part = 0; part <= last; part++) {
            ln_fused_decode_take(x, l.x_is_passed, n_cols, part * HELD_COLS + threadIdx.x * 4, held);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (part * HELD_COLS + i * LN_FUSED_DECODE_COLS >= padded) /* for all threads */
                    break;
                largest = ln_fused_decode_largest(largest, ln_fused_decode_largest(held[i]));
            }
        }
        largest = ln_fused_decode_row_largest(largest, shared + row % 2 * LN_FUSED_DECODE_WARPS);
        const float factor = ln_fused_decode_f16_factor(to, row, largest);
        place.value += last * HELD_COLS;
        for (unsigned part = last + 1; part-- > 0; place.value -= HELD_COLS) {
            unsigned col = part * HELD_COLS + threadIdx.x * 4;
            if (part < last)
                ln_fused_decode_take(x, false, n_cols, col, held);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const float v[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
                if (part * HELD_COLS + i * LN_FUSED_DECODE_COLS >= padded)
                    break;
                if (col + i * LN_FUSED_DECODE_COLS < padded)
                    ln_fused_decode_put_f16(to, place, i, v, factor);
            }
        }
    }
}

/* Rows as they are, filled up with zeros to `padded` columns. */
template <int KIND>
static __device__ __forceinline__ void ln_fused_decode_convert(const ln_fused_decode_linear &l, unsigned n_rows,
                                                        const ln_act_view &to,
                                                        unsigned padded) {
    enum { AT_ONCE = 8 };
    const float *x = l.x;
    const unsigned n_cols = l.n_cols, stride = l.stride;
    for (unsigned row = 0; row < n_rows; row++, x += stride) {
        ln_fused_decode_place place = ln_fused_decode_find<KIND>(to, row);
        for (unsigned first = 0; first < padded; first += AT_ONCE * LN_FUSED_DECODE_COLS) {
            unsigned col = first + threadIdx.x * 4;
            float4 held[AT_ONCE];
            ln_fused_decode_take(x, l.x_is_passed, n_cols, col, held);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (first + i * LN_FUSED_DECODE_COLS >= padded) /* for all threads */
                    break;
                const float v[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
                if (col + i * LN_FUSED_DECODE_COLS < padded)
                    ln_fused_decode_put<KIND>(to, place, i, v);
            }
            place.value += AT_ONCE * LN_FUSED_DECODE_COLS;
            place.scale += AT_ONCE * LN_FUSED_DECODE_COLS / LN_SCALE_BLOCK;
        }
    }
}

/* ln_held_sum; `shared` [LN_FUSED_DECODE_WARPS] is used again only behind another barrier. */
static __device__ __forceinline__ float ln_fused_decode_sum(float x, float *shared) {
    unsigned lane = threadIdx.x % LN_WARP;
    x = ln_warp_sum(x);
    if (lane == 0)
        shared[threadIdx.x / LN_WARP] = x;
    __syncthreads();
    x = shared[lane % LN_FUSED_DECODE_WARPS]; /* the other half would be zeros */
#pragma unroll
    for (int step = LN_FUSED_DECODE_WARPS / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* Mean and 1 / deviation of the row that the block holds, by ln_held_statistics. */
template <int HELD>
static __device__ __forceinline__ void ln_fused_decode_statistics(const ln_norm &norm, unsigned dim,
                                                           const float4 x[HELD], float *shared,
                                                           float *mean, float *inverse) {
    float sum = 0.0f, squares = 0.0f;
    bool is_layer = norm.kind == LN_NORM_LAYER;
    *mean = 0.0f;
    if (is_layer) {
#pragma unroll
        for (int h = 0; h < HELD; h++)
            sum += x[h].x + x[h].y + (x[h].z + x[h].w);
        *mean = ln_fused_decode_sum(sum, shared) / (float)dim;
        __syncthreads();
    }
#pragma unroll
    for (int h = 0; h < HELD; h++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            /* what is not there is 0 already, but for the mean */
            bool counts = !is_layer || threadIdx.x * 4 + h * LN_FUSED_DECODE_COLS < dim;
            float y = counts ? ln_part(x[h], i) - *mean : 0.0f;
            squares = fmaf(y, y, squares);
        }
    *inverse = 1.0f / sqrtf(ln_fused_decode_sum(squares, shared) / (float)dim + norm.eps);
    if (norm.kind == LN_NORM_NONE)
        *inverse = 1.0f;
}

static __device__ __forceinline__ void ln_fused_decode_leave_normed(float *normed, float *passed,
                                                             unsigned at, const float y[4]) {
    if (normed != NULL)
        *(float4 *)(normed + at) = make_float4(y[0], y[1], y[2], y[3]);
    for (int i = 0; i < 4 && passed != NULL; i++)
        ln_pass(passed + at + i, y[i]);
}

/* The norms of rows, of which every block with rows of tiles writes a share to l.normed. shared
 * [LN_MAX_WARPS] */
template <int KIND, int HELD>
static __device__ __forceinline__ void
ln_fused_decode_normalize(const ln_fused_decode_args &p, const ln_fused_decode_weights *weights,
                   const ln_fused_decode_linear &l, unsigned n_rows, const ln_act_view &to,
                   float *shared, ln_fused_decode_ring *r) {
    const ln_norm norm = l.norm;
    const float *const x = l.x;
    const int32_t *const rows = l.rows;
    float *const normed = l.normed, *const passed = l.passed_normed;
    const bool is_passed = l.x_is_passed;
    const unsigned n_writers = min(gridDim.x, l.n_tile_rows);
    const unsigned dim = (unsigned)norm.dim, first = threadIdx.x * 4;
    const unsigned share = (dim / 4 + n_writers - 1) / n_writers * 4, own = blockIdx.x * share;
    const bool weighs = norm.weight != NULL && norm.kind != LN_NORM_NONE;
    const bool adds = norm.bias != NULL && norm.kind != LN_NORM_NONE;
    const float plus = norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f;
    constexpr bool IS_F16 = ln_weight_tile_dequantizes_to_f16(KIND);
    float4 held[HELD], weight[HELD] = {}, bias[HELD] = {};
    for (unsigned row = 0; row < n_rows; row++) {
        const float *from = x + (rows != NULL ? (size_t)rows[row] : row) * dim;
        ln_fused_decode_place place = ln_fused_decode_find<KIND>(to, row);
        float mean, inverse, largest = 0.0f;
        unsigned sums_at = IS_F16 ? 0 : row % 2 * LN_FUSED_DECODE_WARPS; /* there is a second barrier */
#pragma unroll
        for (int h = 0; h < HELD && row == 0; h++) {
            if (weighs)
                weight[h] = ln_fused_decode_four(norm.weight, first + h * LN_FUSED_DECODE_COLS, dim);
            if (adds)
                bias[h] = ln_fused_decode_four(norm.bias, first + h * LN_FUSED_DECODE_COLS, dim);
        }
        ln_fused_decode_take(from, is_passed, dim, first, held);
        if (HELD <= 2 && row + 1 == n_rows) /* else registers would not do */
            ln_fused_decode_fill<KIND>(p, weights, r);
        ln_fused_decode_statistics<HELD>(norm, dim, held, shared + sums_at, &mean, &inverse);
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            unsigned col = first + h * LN_FUSED_DECODE_COLS;
            if (col >= dim)
                break;
            float y[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                y[i] = (ln_part(held[h], i) - mean) * inverse;
                if (weighs)
                    y[i] *= ln_part(weight[h], i) + plus;
                if (adds)
                    y[i] += ln_part(bias[h], i);
            }
            if (col - own < share)
                ln_fused_decode_leave_normed(normed, passed, row * dim + col, y);
            if constexpr (IS_F16) {
                held[h] = make_float4(y[0], y[1], y[2], y[3]);
                largest = ln_fused_decode_largest(largest, ln_fused_decode_largest(held[h]));
            } else {
                ln_fused_decode_put<KIND>(to, place, h, y);
            }
        }
        if constexpr (IS_F16) {
            largest = ln_fused_decode_row_largest(largest, shared + LN_FUSED_DECODE_WARPS);
            const float factor = ln_fused_decode_f16_factor(to, row, largest);
#pragma unroll
            for (int h = 0; h < HELD; h++) {
                const float y[4] = {held[h].x, held[h].y, held[h].z, held[h].w};
                if (first + h * LN_FUSED_DECODE_COLS < dim)
                    ln_fused_decode_put_f16(to, place, h, y, factor);
            }
        }
    }
}

/* Has the norm's weights brought near; by one warp. */
static __device__ __forceinline__ void ln_fused_decode_expect_norm(const ln_fused_decode_linear &l) {
    enum { LINE = 128 / sizeof(float) };
    for (unsigned i = threadIdx.x % LN_WARP * LINE;
         l.normalizes && l.norm.weight != NULL && i < (unsigned)l.norm.dim; i += LN_WARP * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(l.norm.weight + i));
}

/* Makes x at `work`, to be waited for by the block. shared [LN_MAX_WARPS] */
template <int KIND>
static __device__ __forceinline__ ln_act_view
ln_fused_decode_x(const ln_fused_decode_args &p, const ln_fused_decode_weights *weights, const ln_fused_decode_linear &l,
           unsigned n_rows, uint8_t *work, float *shared, ln_fused_decode_ring *r) {
    ln_act_view x = {};
    x.cols = l.x_cols;
    x.is_int8 = !ln_weight_tile_has_16_bit_act(KIND);
    x.bf16 = (__nv_bfloat16 *)work;
    x.rest = l.precise ? x.bf16 + n_rows * x.cols : NULL;
    x.int8 = (int8_t *)work;
    x.scales = (float *)(work + n_rows * x.cols * (x.is_int8 ? 1 : 2));
    unsigned held = l.normalizes ? ((unsigned)l.norm.dim + LN_FUSED_DECODE_COLS - 1) / LN_FUSED_DECODE_COLS : 0;
    if (held == 1)
        ln_fused_decode_normalize<KIND, 1>(p, weights, l, n_rows, x, shared, r);
    else if (held == 2)
        ln_fused_decode_normalize<KIND, 2>(p, weights, l, n_rows, x, shared, r);
    else if (held > 2)
        ln_fused_decode_normalize<KIND, LN_MAX_HELD>(p, weights, l, n_rows, x, shared, r);
    else if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        ln_fused_decode_convert_f16(l, n_rows, x, l.n_tiles * (unsigned)ln_weight_tile_cols(KIND), shared);
    else
        ln_fused_decode_convert<KIND>(l, n_rows, x, l.n_tiles * (unsigned)ln_weight_tile_cols(KIND));
    ln_fused_decode_fill<KIND>(p, weights, r);
    return x;
}

#endif
