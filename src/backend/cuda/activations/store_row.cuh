/* Converts a row that a thread block of THREADS holds in registers to the form of a view, and
 * stores it: v[h] are the columns from 4 * (h * THREADS + threadIdx.x) on. Those of h have the
 * places of those of 0 within 128 bytes, so addresses are found once. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_STORE_ROW_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_STORE_ROW_CUH

#include "backend/cuda/activations/store.cuh"

/* 16-bit columns. In tiles threads t and t ^ 2 have neighbouring words of the same two chunks and
 * exchange one, so that each stores eight bytes, and a warp whole sectors. */
template <int THREADS, int FOURS>
static __device__ __forceinline__ void ln_act_store_16_registers(const ln_act_view &x,
                                                                 __nv_bfloat16 *to, size_t row,
                                                                 const uint2 (&v)[FOURS]) {
    static_assert(THREADS % 32 == 0, "the columns of h have the places of those of 0");
    unsigned first = 4 * threadIdx.x, cols = (unsigned)x.cols, lane = first % 32 / 8;
    bool is_tile = x.rows_per_tile > 0;
    bool is_odd = lane % 2 != 0; /* has words of the second chunk then */
    unsigned chunk = 2 * (first % 64 / 32 * 2 + first % 8 / 4) + is_odd;
    char *at =
        is_tile ? (char *)to + ln_act_tile_byte(x, row, cols / 64, first / 64, chunk, lane / 2 * 2)
                : (char *)(to + row * cols + first);
    size_t step = (size_t)(8 * THREADS) * max(x.rows_per_tile, 1u);
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, is_odd ? v[h].x : v[h].y, 2);
        if (h * 4 * THREADS + first < cols)
            *(uint2 *)(at + h * step) =
                make_uint2(is_tile && is_odd ? other : v[h].x, is_tile && !is_odd ? other : v[h].y);
    }
}

/* The bytes from where int8 or E4M3 of a column is to that `cols` further, a multiple of 128. */
static __device__ __forceinline__ size_t ln_act_int8_step(const ln_act_view &x, unsigned cols) {
    return (size_t)cols * (x.rows_per_tile > 0 ? x.rows_per_tile : x.is_f8 ? x.n_untiled : 1);
}

/* Converts a row whose largest magnitude is known, by_row. */
template <int THREADS, int FOURS>
static __device__ __forceinline__ void ln_act_store_row_registers(const ln_act_view &x, size_t row,
                                                                  const float (&v)[FOURS][4],
                                                                  float largest) {
    unsigned first = 4 * threadIdx.x, cols = (unsigned)x.cols;
    if (!x.is_int8) {
        float factor = ln_f16_factor(largest);
        uint2 words[FOURS];
#pragma unroll
        for (int h = 0; h < FOURS; h++)
            words[h] = make_uint2(ln_pack_f16(v[h][0] * factor, v[h][1] * factor),
                                  ln_pack_f16(v[h][2] * factor, v[h][3] * factor));
        ln_act_store_16_registers<THREADS>(x, x.bf16, row, words);
        if (threadIdx.x == 0)
            x.scales[row] = ln_f16_scale(largest);
        return;
    }
    size_t at, scale_at, step = ln_act_int8_step(x, 4 * THREADS);
    ln_act_find_int8(x, row, first, &at, &scale_at);
    float f8 = ln_f8_factor(largest), i8 = ln_inverse_scale(largest);
#pragma unroll
    for (int h = 0; h < FOURS; h++)
        if (h * 4 * THREADS + first < cols)
            *(uint32_t *)(x.int8 + at + h * step) =
                x.is_f8 ? ln_f8_four(v[h], f8) : ln_quantize_four(v[h], i8);
    if (threadIdx.x == 0)
        x.scales[row] = largest * (x.is_f8 ? 1.0f / 448.0f : 1.0f / 127.0f);
}

/* ln_act_store_block_registers of bf16, and of the residual of its rounding. */
template <int THREADS, int FOURS>
static __device__ __forceinline__ void ln_act_store_bf16_registers(const ln_act_view &x, size_t row,
                                                                   const float (&v)[FOURS][4]) {
    uint2 words[FOURS];
#pragma unroll
    for (int h = 0; h < FOURS; h++)
        words[h] = make_uint2(ln_pack_bf16(v[h][0], v[h][1]), ln_pack_bf16(v[h][2], v[h][3]));
    ln_act_store_16_registers<THREADS>(x, x.bf16, row, words);
    if (x.lo == NULL)
        return;
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        float lo[4];
        for (int i = 0; i < 4; i++)
            lo[i] = v[h][i] - __bfloat162float(__float2bfloat16_rn(v[h][i]));
        words[h] = make_uint2(ln_pack_bf16(lo[0], lo[1]), ln_pack_bf16(lo[2], lo[3]));
    }
    ln_act_store_16_registers<THREADS>(x, x.lo, row, words);
}

/* Converts a row, not by_row. */
template <int THREADS, int FOURS>
static __device__ __forceinline__ void
ln_act_store_block_registers(const ln_act_view &x, size_t row, const float (&v)[FOURS][4]) {
    unsigned first = 4 * threadIdx.x, cols = (unsigned)x.cols;
    if (!x.is_int8) {
        ln_act_store_bf16_registers<THREADS>(x, row, v);
        return;
    }
    size_t at, scale_at, step = ln_act_int8_step(x, 4 * THREADS);
    size_t scale_step = (size_t)(4 * THREADS / LN_SCALE_BLOCK) * max(x.rows_per_tile, 1u);
    ln_act_find_int8(x, row, first, &at, &scale_at);
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        float largest = ln_act_largest_of_block(ln_largest_of_four(v[h]));
        if (h * 4 * THREADS + first >= cols)
            continue;
        *(uint32_t *)(x.int8 + at + h * step) = ln_quantize_four(v[h], ln_inverse_scale(largest));
        if (first % LN_SCALE_BLOCK == 0)
            x.scales[scale_at + h * scale_step] = largest * (1.0f / 127.0f);
    }
}

#endif
