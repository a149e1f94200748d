/* Activations of the fused decode kernel: rows, or their norms, in the form of
 * activations/view.cuh, in each block's shared memory, of F8_ROW as WGMMA takes them. Arguments are
 * read once, ahead of stores, and arithmetic is of 32 bits: with 16 warps on an SM the number of
 * instructions limits the speed here. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ACTIVATIONS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ACTIVATIONS_CUH

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/fused/decode_absmax.cuh"
#include "backend/cuda/fused/decode_args.cuh"
#include "backend/cuda/fused/decode_pipeline.cuh"
#include "backend/cuda/ptx/bulk_store.cuh"

static_assert((int)LN_NORM_VTHREADS == LN_DECODE_THREADS && LN_DECODE_WARPS <= LN_MAX_WARPS / 2,
              "sums as norm.cuh has them, in two places by turns");

/* LN_DECODE_COL_STRIDE: columns from one float4 of a thread to its next. */
enum {
    LN_DECODE_COL_STRIDE = 4 * LN_DECODE_THREADS,
    LN_DECODE_POLL_NS = 40 /* between polls, which slow the copies of weights down */
};

/* As ln_quantize_four, by additions where all products are small: the bits of 1.5 * 2^23 + n end
 * with those of n, and conversions are four times as slow. */
static __device__ __forceinline__ uint32_t ln_decode_quantize(const float v[4], float inverse) {
    if (!(inverse > 0.0f && inverse < INFINITY))
        return ln_quantize_four(v, inverse);
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = __float_as_uint(v[i] * inverse + 12582912.0f);
    uint32_t low = __byte_perm(bits[0], bits[1], 0x0040);
    return __byte_perm(low, __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
}

/* Where a thread's first four columns of a row go: elements of values, and of scales. */
typedef struct ln_decode_act_offset {
    unsigned value, scale;
} ln_decode_act_offset;

template <int KIND>
static __device__ __forceinline__ ln_decode_act_offset ln_decode_find_act(const ln_act_view &to,
                                                                          unsigned row) {
    unsigned col = threadIdx.x * 4, at = row * (unsigned)to.cols;
    ln_decode_act_offset place = {at + col, (at + col) / LN_SCALE_BLOCK};
    if (KIND == LN_LAYOUT_F8_ROW)
        place.value = ((col / 32 * 2 + col % 8 / 4) * to.n_untiled + row) * 16 + col % 32 / 8 * 4;
    else if (!ln_weight_tile_has_16_bit_act(KIND))
        place.value = at + col / 64 * 64 + col % 32 / 8 * 16 + col % 64 / 32 * 8 + col % 8;
    return place;
}

/* As ln_act_store, of a thread's four columns number h; by whole warps, as 128 columns are all in a
 * tile or none. */
template <int KIND>
static __device__ __forceinline__ void ln_decode_store_act(const ln_act_view &to,
                                                           const ln_decode_act_offset &place, int h,
                                                           const float v[4]) {
    if constexpr (KIND == LN_LAYOUT_BF16) {
        unsigned at = place.value + h * LN_DECODE_COL_STRIDE;
        uint2 words = make_uint2(ln_pack_bf16(v[0], v[1]), ln_pack_bf16(v[2], v[3]));
        *(uint2 *)(to.bf16 + at) = words;
        if (to.lo == NULL)
            return;
        float lo[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            lo[i] = v[i] - ln_bf16((uint16_t)((i < 2 ? words.x : words.y) >> i % 2 * 16));
        *(uint2 *)(to.lo + at) = make_uint2(ln_pack_bf16(lo[0], lo[1]), ln_pack_bf16(lo[2], lo[3]));
    } else {
        float largest =
            ln_decode_absmax(ln_decode_absmax(v[0], v[1]), ln_decode_absmax(v[2], v[3]));
#pragma unroll
        for (int step = 4; step > 0; step /= 2)
            largest = ln_decode_absmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        largest = fminf(largest, INFINITY); /* for a NaN, too */
        *(uint32_t *)(to.int8 + place.value + h * LN_DECODE_COL_STRIDE) =
            ln_decode_quantize(v, ln_inverse_scale(largest));
        if (threadIdx.x % (LN_SCALE_BLOCK / 4) == 0)
            to.scales[place.scale + h * (LN_DECODE_COL_STRIDE / LN_SCALE_BLOCK)] =
                largest * (1.0f / 127.0f);
    }
}

/* The largest magnitude of a row, from those of threads; infinite for a NaN. shared
 * [LN_DECODE_WARPS] is used again only behind another barrier. */
static __device__ __forceinline__ float ln_decode_row_absmax(float largest, float *shared) {
    return fminf(ln_block_greatest(largest, (unsigned *)shared), INFINITY);
}

/* What a row with a scale is multiplied by; the scale goes to to.scales. */
template <int KIND>
static __device__ __forceinline__ float ln_decode_row_factor(const ln_act_view &to, unsigned row,
                                                             float largest) {
    constexpr bool IS_F16 = ln_weight_tile_has_16_bit_act(KIND), IS_F8 = KIND == LN_LAYOUT_F8_ROW;
    if (threadIdx.x == 0)
        to.scales[row] =
            IS_F16 ? ln_f16_scale(largest) : largest * (IS_F8 ? 1.0f / 448.0f : 1.0f / 127.0f);
    return IS_F16  ? ln_f16_factor(largest)
           : IS_F8 ? ln_f8_factor(largest)
                   : ln_inverse_scale(largest);
}

/* Elements of a row between columns LN_DECODE_COL_STRIDE apart. */
template <int KIND>
static __device__ __forceinline__ unsigned ln_decode_act_stride(const ln_act_view &to) {
    return LN_DECODE_COL_STRIDE * (KIND == LN_LAYOUT_F8_ROW ? to.n_untiled : 1);
}

/* As ln_act_store_row_scaled, of a thread's four columns number h. */
template <int KIND>
static __device__ __forceinline__ void
ln_decode_store_row_scaled(const ln_act_view &to, const ln_decode_act_offset &place, int h,
                           const float v[4], float factor) {
    const unsigned at = place.value + h * ln_decode_act_stride<KIND>(to);
    if constexpr (KIND == LN_LAYOUT_F8_ROW)
        *(uint32_t *)(to.int8 + at) = ln_f8_four(v, factor);
    else if constexpr (KIND == LN_LAYOUT_INT8_ROW)
        *(uint32_t *)(to.int8 + at) = ln_decode_quantize(v, factor);
    else
        *(uint2 *)(to.bf16 + at) = make_uint2(ln_pack_f16(v[0] * factor, v[1] * factor),
                                              ln_pack_f16(v[2] * factor, v[3] * factor));
}

/* A thread's float4 of a row, from column `first` on, zeros past its end; polls if other blocks
 * hand them off. */
template <int N>
static __device__ __forceinline__ void ln_decode_load_row(const float *row, bool is_handed_off,
                                                          unsigned n_cols, unsigned first,
                                                          float4 (&held)[N]) {
#pragma unroll
    for (int h = 0; h < N; h++)
        held[h] = first + h * LN_DECODE_COL_STRIDE < n_cols
                      ? ln_load_relaxed((const float4 *)(row + first + h * LN_DECODE_COL_STRIDE))
                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (bool waits = is_handed_off; waits;) {
        waits = false;
#pragma unroll
        for (int h = 0; h < N; h++)
            waits |= ln_handoff_is_empty(held[h]);
        if (!waits)
            return;
        __nanosleep(LN_DECODE_POLL_NS);
#pragma unroll
        for (int h = 0; h < N; h++)
            if (ln_handoff_is_empty(held[h]))
                held[h] = ln_load_relaxed((const float4 *)(row + first + h * LN_DECODE_COL_STRIDE));
    }
}

/* Four of a row, zeros past its end. */
static __device__ __forceinline__ float4 ln_decode_load_four(const float *row, unsigned col,
                                                             unsigned n_cols) {
    return col < n_cols ? *(const float4 *)(row + col) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* Four columns of the row that `plain` keeps as it is. Functions take nullptr, too, as PLAIN: what
 * keeps nothing is compiled as if this were not there. */
static __device__ __forceinline__ void ln_decode_store_plain(float *plain, unsigned col,
                                                             unsigned n_cols, const float v[4]) {
    if (col < n_cols)
        *(float4 *)(plain + col) = make_float4(v[0], v[1], v[2], v[3]);
}

static __device__ __forceinline__ void ln_decode_store_plain(decltype(nullptr), unsigned, unsigned,
                                                             const float[4]) {}

/* ln_decode_convert to rows that have a scale each. What of a row does not fit registers is read
 * twice. shared [LN_MAX_WARPS]; plain: of one row */
template <int KIND, class PLAIN = decltype(nullptr)>
static __device__ __forceinline__ void
ln_decode_convert_row_scaled(const ln_decode_rows &from, unsigned n_rows, const ln_act_view &to,
                             unsigned padded, float *shared, PLAIN plain = nullptr) {
    enum { AT_ONCE = 8, REGISTER_COLS = AT_ONCE * LN_DECODE_COL_STRIDE };
    const float *x = from.at;
    const unsigned n_cols = from.n_cols, stride = from.stride, last = (padded - 1) / REGISTER_COLS;
    const unsigned per_part = AT_ONCE * ln_decode_act_stride<KIND>(to);
    for (unsigned row = 0; row < n_rows; row++, x += stride) {
        ln_decode_act_offset place = ln_decode_find_act<KIND>(to, row);
        float4 held[AT_ONCE];
        float largest = 0.0f;
        for (unsigned part = 0; part <= last; part++) {
            ln_decode_load_row(x, from.is_handed_off, n_cols,
                               part * REGISTER_COLS + threadIdx.x * 4, held);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (part * REGISTER_COLS + i * LN_DECODE_COL_STRIDE >= padded) /* for all threads */
                    break;
                largest = ln_decode_absmax(largest, ln_decode_absmax(held[i]));
            }
        }
        largest = ln_decode_row_absmax(largest, shared + row % 2 * LN_DECODE_WARPS);
        const float factor = ln_decode_row_factor<KIND>(to, row, largest);
        place.value += last * per_part;
        for (unsigned part = last + 1; part-- > 0; place.value -= per_part) {
            unsigned col = part * REGISTER_COLS + threadIdx.x * 4;
            if (part < last)
                ln_decode_load_row(x, false, n_cols, col, held);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const float v[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
                if (part * REGISTER_COLS + i * LN_DECODE_COL_STRIDE >= padded)
                    break;
                if (col + i * LN_DECODE_COL_STRIDE < padded)
                    ln_decode_store_row_scaled<KIND>(to, place, i, v, factor);
                ln_decode_store_plain(plain, col + i * LN_DECODE_COL_STRIDE, n_cols, v);
            }
        }
    }
}

/* Rows as they are, filled up with zeros to `padded` columns. plain: of one row
 */
template <int KIND, class PLAIN = decltype(nullptr)>
static __device__ __forceinline__ void ln_decode_convert(const ln_decode_rows &from,
                                                         unsigned n_rows, const ln_act_view &to,
                                                         unsigned padded, PLAIN plain = nullptr) {
    enum { AT_ONCE = 8 };
    const float *x = from.at;
    const unsigned n_cols = from.n_cols, stride = from.stride;
    for (unsigned row = 0; row < n_rows; row++, x += stride) {
        ln_decode_act_offset place = ln_decode_find_act<KIND>(to, row);
        for (unsigned first = 0; first < padded; first += AT_ONCE * LN_DECODE_COL_STRIDE) {
            unsigned col = first + threadIdx.x * 4;
            float4 held[AT_ONCE];
            ln_decode_load_row(x, from.is_handed_off, n_cols, col, held);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (first + i * LN_DECODE_COL_STRIDE >= padded) /* for all threads */
                    break;
                const float v[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
                if (col + i * LN_DECODE_COL_STRIDE < padded)
                    ln_decode_store_act<KIND>(to, place, i, v);
                ln_decode_store_plain(plain, col + i * LN_DECODE_COL_STRIDE, n_cols, v);
            }
            place.value += AT_ONCE * LN_DECODE_COL_STRIDE;
            place.scale += AT_ONCE * LN_DECODE_COL_STRIDE / LN_SCALE_BLOCK;
        }
    }
}

/* As ln_norm_sum; shared [LN_DECODE_WARPS] is used again only behind another barrier. */
static __device__ __forceinline__ float ln_decode_block_sum(float x, float *shared) {
    unsigned lane = threadIdx.x % LN_WARP;
    x = ln_warp_sum(x);
    if (lane == 0)
        shared[threadIdx.x / LN_WARP] = x;
    __syncthreads();
    x = shared[lane % LN_DECODE_WARPS]; /* the other half would be zeros */
#pragma unroll
    for (int step = LN_DECODE_WARPS / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* Mean and 1 / standard deviation of the row in the block's registers, as ln_norm_row_statistics.
 */
template <int FOURS>
static __device__ __forceinline__ void
ln_decode_norm_statistics(const ln_norm &norm, unsigned dim, const float4 x[FOURS], float *shared,
                          float *mean, float *inverse) {
    float sum = 0.0f, squares = 0.0f;
    bool is_layer = norm.kind == LN_NORM_LAYER;
    *mean = 0.0f;
    if (is_layer) {
#pragma unroll
        for (int h = 0; h < FOURS; h++)
            sum += x[h].x + x[h].y + (x[h].z + x[h].w);
        *mean = ln_decode_block_sum(sum, shared) / (float)dim;
        __syncthreads();
    }
#pragma unroll
    for (int h = 0; h < FOURS; h++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            /* what is not there is 0 already, but for the mean */
            bool counts = !is_layer || threadIdx.x * 4 + h * LN_DECODE_COL_STRIDE < dim;
            float y = counts ? ln_part(x[h], i) - *mean : 0.0f;
            squares = fmaf(y, y, squares);
        }
    *inverse = 1.0f / sqrtf(ln_decode_block_sum(squares, shared) / (float)dim + norm.eps);
    if (norm.kind == LN_NORM_NONE)
        *inverse = 1.0f;
}

static __device__ __forceinline__ void ln_decode_store_normed(float *normed, float *handoff,
                                                              unsigned at, const float y[4]) {
    if (normed != NULL)
        *(float4 *)(normed + at) = make_float4(y[0], y[1], y[2], y[3]);
    for (int i = 0; i < 4 && handoff != NULL; i++)
        ln_handoff_store(handoff + at + i, y[i]);
}

/* A row of dim columns in the block's registers, with a scale; first, absmax: the thread's. */
template <int KIND, int FOURS>
static __device__ __forceinline__ void
ln_decode_store_row(const ln_act_view &to, unsigned row, const ln_decode_act_offset &place,
                    const float4 (&held)[FOURS], unsigned first, unsigned dim, float absmax,
                    float *shared) {
    absmax = ln_decode_row_absmax(absmax, shared);
    const float factor = ln_decode_row_factor<KIND>(to, row, absmax);
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        const float y[4] = {held[h].x, held[h].y, held[h].z, held[h].w};
        if (first + h * LN_DECODE_COL_STRIDE < dim)
            ln_decode_store_row_scaled<KIND>(to, place, h, y, factor);
    }
}

/* The norms of rows. Each block with output tiles also stores a share of them to l.normed. shared
 * [LN_MAX_WARPS]; plain: of one row */
template <int KIND, int FOURS, class PIPELINE, class PLAIN>
static __device__ __forceinline__ void
ln_decode_normalize(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                    const ln_decode_linear &l, unsigned n_rows, const ln_act_view &to,
                    float *shared, PIPELINE *r, PLAIN plain) {
    const ln_norm norm = l.norm;
    const float *const x = l.x.at;
    const int32_t *const rows = l.rows;
    float *const normed = l.normed, *const handoff = l.normed_handoff;
    const unsigned n_writers = min(gridDim.x, l.n_output_tiles), dim = (unsigned)norm.dim;
    const unsigned share = (dim / 4 + n_writers - 1) / n_writers * 4, first = threadIdx.x * 4;
    const bool weighs = norm.weight != NULL && norm.kind != LN_NORM_NONE;
    const bool adds = norm.bias != NULL && norm.kind != LN_NORM_NONE;
    const float plus = norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f;
    constexpr bool BY_ROW = ln_weight_tile_has_act_row_scales(KIND);
    float4 held[FOURS], weight[FOURS] = {}, bias[FOURS] = {};
    for (unsigned row = 0; row < n_rows; row++) {
        const float *from = x + (rows != NULL ? (size_t)rows[row] : row) * dim;
        ln_decode_act_offset place = ln_decode_find_act<KIND>(to, row);
        float mean, inverse, largest = 0.0f;
        unsigned sums_at = BY_ROW ? 0 : row % 2 * LN_DECODE_WARPS; /* there is a second barrier */
#pragma unroll
        for (int h = 0; h < FOURS && row == 0; h++) {
            if (weighs)
                weight[h] = ln_decode_load_four(norm.weight, first + h * LN_DECODE_COL_STRIDE, dim);
            if (adds)
                bias[h] = ln_decode_load_four(norm.bias, first + h * LN_DECODE_COL_STRIDE, dim);
        }
        ln_decode_load_row(from, l.x.is_handed_off, dim, first, held);
        if (FOURS <= 2 && row + 1 == n_rows) /* else registers would not do */
            ln_decode_fill_free_stage<KIND>(p, weights, r);
        ln_decode_norm_statistics<FOURS>(norm, dim, held, shared + sums_at, &mean, &inverse);
#pragma unroll
        for (int h = 0; h < FOURS; h++) {
            unsigned col = first + h * LN_DECODE_COL_STRIDE;
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
            if (col - blockIdx.x * share < share)
                ln_decode_store_normed(normed, handoff, row * dim + col, y);
            ln_decode_store_plain(plain, col, dim, y);
            if constexpr (BY_ROW)
                held[h] = make_float4(y[0], y[1], y[2], y[3]),
                largest = ln_decode_absmax(largest, ln_decode_absmax(held[h]));
            else
                ln_decode_store_act<KIND>(to, place, h, y);
        }
        if constexpr (BY_ROW)
            ln_decode_store_row<KIND>(to, row, place, held, first, dim, largest,
                                      shared + LN_DECODE_WARPS);
    }
}

/* Prefetches the norm's weights to the L2 cache; by one warp. */
static __device__ __forceinline__ void ln_decode_prefetch_norm(const ln_decode_linear &l) {
    enum { LINE = 128 / sizeof(float) };
    for (unsigned i = threadIdx.x % LN_WARP * LINE;
         l.normalizes && l.norm.weight != NULL && i < (unsigned)l.norm.dim; i += LN_WARP * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(l.norm.weight + i));
}

/* Makes the activations at `work`; the block waits for them with a barrier. shared [LN_MAX_WARPS];
 * plain: where the one row goes in float32, too */
template <int KIND, class PIPELINE, class PLAIN = decltype(nullptr)>
static __device__ __forceinline__ ln_act_view ln_decode_make_act(
    const ln_decode_args &p, const ln_decode_weight_tiles *weights, const ln_decode_linear &l,
    unsigned n_rows, uint8_t *work, float *shared, PIPELINE *r, PLAIN plain = nullptr) {
    ln_act_view x = {};
    x.cols = l.x_cols;
    x.n_untiled = n_rows;
    x.is_int8 = !ln_weight_tile_has_16_bit_act(KIND);
    x.bf16 = (__nv_bfloat16 *)work;
    x.lo = l.precise ? x.bf16 + n_rows * x.cols : NULL;
    x.int8 = (int8_t *)work;
    x.scales = (float *)(work + n_rows * x.cols * (x.is_int8 ? 1 : 2));
    unsigned held =
        l.normalizes ? ((unsigned)l.norm.dim + LN_DECODE_COL_STRIDE - 1) / LN_DECODE_COL_STRIDE : 0;
    if (held == 1)
        ln_decode_normalize<KIND, 1>(p, weights, l, n_rows, x, shared, r, plain);
    else if (held == 2)
        ln_decode_normalize<KIND, 2>(p, weights, l, n_rows, x, shared, r, plain);
    else if (held > 2)
        ln_decode_normalize<KIND, LN_NORM_MAX_FOURS>(p, weights, l, n_rows, x, shared, r, plain);
    else if constexpr (ln_weight_tile_has_act_row_scales(KIND))
        ln_decode_convert_row_scaled<KIND>(
            l.x, n_rows, x, l.k_tiles * (unsigned)ln_weight_tile_cols(KIND), shared, plain);
    else
        ln_decode_convert<KIND>(l.x, n_rows, x, l.k_tiles * (unsigned)ln_weight_tile_cols(KIND),
                                plain);
    if (KIND == LN_LAYOUT_F8_ROW)
        ln_fence_proxy_async();
    ln_decode_fill_free_stage<KIND>(p, weights, r);
    return x;
}

#endif
