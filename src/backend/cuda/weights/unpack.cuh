/* Dequantises a lane's words of a weight tile to the A operand of a tensor core instruction. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_UNPACK_CUH
#define LN_BACKEND_CUDA_WEIGHTS_UNPACK_CUH

#include "backend/cuda/weights/traits.cuh"

/* a & b | c, as one operation. */
static __device__ __forceinline__ uint32_t ln_and_or(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* The values of E2M1 at bits 4 i of either half to f16, 2^-14 times as large. */
static __device__ __forceinline__ uint32_t ln_two_f4(uint32_t packed, int i) {
    uint32_t magnitudes = i < 3 ? packed << (9 - 4 * i) : packed >> 3;
    return (packed << (12 - 4 * i) & 0x80008000u) | (magnitudes & 0x0e000e00u);
}

/* K steps 2 * half and 2 * half + 1 of a lane, laid out as of BF16, from its words of a tile of Q4,
 * Q5, Q6 or MXFP4: two words of values, the word of high bits (of Q5 and Q6), the scale pairs of
 * rows g and g + 8. 1024 + q as f16 is 0x6400 | q, and 1024 + 16 q is 0x6400 | q << 4: the values
 * of rows g + 8 need no shift. */
template <int LAYOUT>
static __device__ __forceinline__ void ln_dequantize_bits(uint2 packed, uint32_t high,
                                                          uint32_t pair0, uint32_t pair1,
                                                          unsigned lane, uint4 steps[2]) {
    constexpr int ZERO_POINT = ln_weight_tile_zero_point(LAYOUT);
    const __half2 pairs[2] = {*(const __half2 *)&pair0, *(const __half2 *)&pair1};
    const uint32_t swapped = __byte_perm(high, 0, 0x2301);
    const uint32_t high_at[4] = {high, high >> 2, swapped, swapped >> 2};
    uint32_t words[8];
    __half2 scales[2] = {__low2half2(pairs[0]), __low2half2(pairs[1])};
    if constexpr (LAYOUT == LN_LAYOUT_Q6) {
        unsigned which = lane % 4 >= 2 ? 0x3232 : 0x1010;
        *(uint32_t *)&scales[0] = __byte_perm(pair0, 0, which);
        *(uint32_t *)&scales[1] = __byte_perm(pair1, 0, which);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if constexpr (LAYOUT == LN_LAYOUT_MXFP4) {
            uint32_t two = ln_two_f4(i < 4 ? packed.x : packed.y, i % 4);
            __half2 scaled = __hmul2(*(__half2 *)&two, scales[i % 2]);
            words[i] = *(uint32_t *)&scaled;
            continue;
        }
        const bool is_odd = i % 2;
        uint32_t q = (i < 4 ? packed.x : packed.y) >> i % 4 / 2 * 8;
        q = ln_and_or(q, is_odd ? 0x00f000f0u : 0x000f000fu, 0x64006400u);
        if constexpr (ln_weight_tile_has_high_bits(LAYOUT))
            q = ln_and_or(high_at[i / 2], is_odd ? 0x03000300u : 0x00300030u, q);
        __half2 x = *(__half2 *)&q;
        x = is_odd
                ? __hfma2(x, __float2half2_rn(1.0f / 16.0f), __float2half2_rn(-64.0f - ZERO_POINT))
                : __hsub2(x, __float2half2_rn(1024.0f + ZERO_POINT));
        x = LAYOUT == LN_LAYOUT_Q6 ? __hmul2(x, scales[i % 2])
                                   : __hfma2(x, scales[i % 2], __high2half2(pairs[i % 2]));
        words[i] = *(uint32_t *)&x;
    }
    steps[0] = make_uint4(words[0], words[1], words[2], words[3]);
    steps[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

/* The same from a block of F8 or I8. */
template <int LAYOUT>
static __device__ __forceinline__ void ln_dequantize_bytes(const uint4 &block, uint32_t pair0,
                                                           uint32_t pair1, uint4 steps[2]) {
    const uint32_t from[4] = {block.x, block.y, block.z, block.w};
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t scale = __byte_perm(i % 2 ? pair1 : pair0, 0, 0x1010);
        uint32_t two = from[i / 4 * 2 + i % 2] >> i % 4 / 2 * 16 & 0xffff;
        __half2 x = LAYOUT == LN_LAYOUT_F8 ? ln_two_f8(two) : ln_two_i8(two);
        x = __hmul2(x, *(__half2 *)&scale);
        words[i] = *(uint32_t *)&x;
    }
    steps[0] = make_uint4(words[0], words[1], words[2], words[3]);
    steps[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

/* Two blocks of INT4 from 16 bytes: the A operand of one of them. */
static __device__ __forceinline__ uint4 ln_unpack_int4(const uint4 &two, int block) {
    uint32_t first = block % 2 ? two.z : two.x, second = block % 2 ? two.w : two.y;
    return make_uint4(first << 4 & 0xf0f0f0f0u, first & 0xf0f0f0f0u, second << 4 & 0xf0f0f0f0u,
                      second & 0xf0f0f0f0u);
}

/* The f16 scale of a block. */
static __device__ __forceinline__ float ln_block_scale(const uint32_t *scales, int block) {
    return ln_f16((uint16_t)(scales[block / 2] >> block % 2 * 16));
}

#endif
