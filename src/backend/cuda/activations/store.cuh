/* Converts four columns of activations to the form of a view and stores them. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_STORE_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_STORE_CUH

#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/ptx/reduce.cuh"

/* Four columns of one row, from `col` on, a multiple of four. */
static __device__ __forceinline__ void ln_act_store_16(const ln_act_view &x, __nv_bfloat16 *to,
                                                       size_t row, size_t col, uint32_t low,
                                                       uint32_t high) {
    if (x.rows_per_tile == 0) {
        *(uint2 *)(to + row * x.cols + col) = make_uint2(low, high);
        return;
    }
    unsigned step = (unsigned)col % 64 / 32 * 2 + (unsigned)col % 8 / 4;
    unsigned lane = (unsigned)col % 32 / 8;
    char *bytes = (char *)to;
    *(uint32_t *)(bytes + ln_act_tile_byte(x, row, x.cols / 64, col / 64, 2 * step, lane)) = low;
    *(uint32_t *)(bytes + ln_act_tile_byte(x, row, x.cols / 64, col / 64, 2 * step + 1, lane)) =
        high;
}

/* Four values to int8 by 1 / scale, and the largest magnitude of four. */
static __device__ __forceinline__ uint32_t ln_quantize_four(const float v[4], float inverse) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word |= (uint32_t)(__float2int_rn(v[i] * inverse) & 255) << 8 * i;
    return word;
}

static __device__ __forceinline__ float ln_largest_of_four(const float v[4]) {
    float largest = 0.0f;
    for (int i = 0; i < 4; i++)
        largest = fmaxf(largest, isnan(v[i]) ? INFINITY : fabsf(v[i]));
    return largest;
}

/* The inverse scale of values whose largest magnitude is this. */
static __device__ __forceinline__ float ln_inverse_scale(float largest) {
    return largest > 0.0f ? __fdividef(127.0f, largest) : 0.0f;
}

/* Where the byte of a column of int8 or E4M3 is, and, not by_row, the scale of its block. */
static __device__ __forceinline__ void ln_act_find_int8(const ln_act_view &x, size_t row,
                                                        size_t col, size_t *at, size_t *scale_at) {
    unsigned lane = (unsigned)col % 32 / 8, half = (unsigned)col % 8 / 4;
    if (x.rows_per_tile == 0 && x.is_f8) {
        *at = ((col / 32 * 2 + half) * x.n_untiled + row) * 16 + lane * 4;
        *scale_at = 0;
    } else if (x.rows_per_tile == 0) {
        *at = row * x.cols + col / 64 * 64 + lane * 16 + col % 64 / 32 * 8 + half * 4;
        *scale_at = (row * x.cols + col) / LN_SCALE_BLOCK;
    } else {
        unsigned chunk = (unsigned)col % 128 / 32 * 2 + half;
        *at = ln_act_tile_byte(x, row, x.cols / 128, col / 128, chunk, lane);
        *scale_at = (row / x.rows_per_tile * (x.cols / LN_SCALE_BLOCK) + col / LN_SCALE_BLOCK) *
                        x.rows_per_tile +
                    row % x.rows_per_tile;
    }
}

static __device__ __forceinline__ void ln_act_store_int8(const ln_act_view &x, size_t row,
                                                         size_t col, uint32_t word, float scale) {
    size_t at, scale_at;
    ln_act_find_int8(x, row, col, &at, &scale_at);
    *(uint32_t *)(x.int8 + at) = word;
    if (x.by_row ? col == 0 : col % LN_SCALE_BLOCK == 0)
        x.scales[x.by_row ? row : scale_at] = scale;
}

/* The inverse scale of a row of E4M3 of this largest magnitude, which becomes 448; a row with a NaN
 * gets an infinite scale. */
static __device__ __forceinline__ float ln_f8_factor(float largest) {
    return largest >= 0x1p-110f ? __fdividef(448.0f, largest) : 0.0f;
}

/* Four values to E4M3. */
static __device__ __forceinline__ uint32_t ln_f8_four(const float v[4], float inverse) {
    float2 low = make_float2(v[0] * inverse, v[1] * inverse);
    float2 high = make_float2(v[2] * inverse, v[3] * inverse);
    return (uint32_t)__nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E4M3) |
           (uint32_t)__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E4M3) << 16;
}

/* The exponent of the power of two that scales a row to f16: its largest magnitude becomes 2^14 and
 * more. A row with a NaN gets an infinite scale. */
static __device__ __forceinline__ int ln_f16_exponent(float largest) {
    return max((int)(__float_as_uint(largest) >> 23) - 127, -112) - 14;
}

/* That power of two, and the scale that undoes it. */
static __device__ __forceinline__ float ln_f16_factor(float largest) {
    return __uint_as_float((uint32_t)(127 - ln_f16_exponent(largest)) << 23);
}

static __device__ __forceinline__ float ln_f16_scale(float largest) {
    return largest < INFINITY ? __uint_as_float((uint32_t)(127 + ln_f16_exponent(largest)) << 23)
                              : INFINITY;
}

/* Converts four columns of a row whose largest magnitude is known, by_row. */
static __device__ __forceinline__ void ln_act_store_row_scaled(const ln_act_view &x, size_t row,
                                                               size_t col, const float v[4],
                                                               float largest) {
    if (x.is_f8) {
        ln_act_store_int8(x, row, col, ln_f8_four(v, ln_f8_factor(largest)),
                          largest * (1.0f / 448.0f));
        return;
    }
    if (x.is_int8) {
        ln_act_store_int8(x, row, col, ln_quantize_four(v, ln_inverse_scale(largest)),
                          largest * (1.0f / 127.0f));
        return;
    }
    float factor = ln_f16_factor(largest);
    ln_act_store_16(x, x.bf16, row, col, ln_pack_f16(v[0] * factor, v[1] * factor),
                    ln_pack_f16(v[2] * factor, v[3] * factor));
    if (col == 0)
        x.scales[row] = ln_f16_scale(largest);
}

/* The largest of the eight lanes that hold a block of 32 columns. */
static __device__ __forceinline__ float ln_act_largest_of_block(float x) {
    unsigned block_lanes = 0xffu << (threadIdx.x % LN_WARP / 8 * 8);
    for (int step = 4; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(block_lanes, x, step));
    return x;
}

/* Converts four columns of a row, not by_row. The eight lanes that hold a block of 32 columns call
 * together. The largest magnitude of a block becomes 127; a block with a NaN gets an infinite
 * scale, which spoils its sums as the NaN would. */
static __device__ __forceinline__ void ln_act_store(const ln_act_view &x, size_t row, size_t col,
                                                    const float v[4]) {
    if (!x.is_int8) {
        ln_act_store_16(x, x.bf16, row, col, ln_pack_bf16(v[0], v[1]), ln_pack_bf16(v[2], v[3]));
        if (x.lo == NULL)
            return;
        float lo[4];
        for (int i = 0; i < 4; i++)
            lo[i] = v[i] - __bfloat162float(__float2bfloat16_rn(v[i]));
        ln_act_store_16(x, x.lo, row, col, ln_pack_bf16(lo[0], lo[1]), ln_pack_bf16(lo[2], lo[3]));
        return;
    }
    float largest = ln_act_largest_of_block(ln_largest_of_four(v));
    ln_act_store_int8(x, row, col, ln_quantize_four(v, ln_inverse_scale(largest)),
                      largest * (1.0f / 127.0f));
}

#endif
