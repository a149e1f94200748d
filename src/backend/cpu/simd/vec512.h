/* Vectors of 16 lanes in AVX-512 registers. The names are those of vec256.h; kernels are written
 * against them once and compiled for each instruction set. */
#ifndef LN_BACKEND_CPU_SIMD_VEC512_H
#define LN_BACKEND_CPU_SIMD_VEC512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/avx512/pack.h"

#define LN_PACKER ln_avx512_pack_panel
#define LN_INLINE static inline __attribute__((always_inline, unused))

/* Sums in registers at once: TILE_ROWS rows of x by TILE_PANELS panels of 16 rows of W; for dot
 * products along K, DOT_ROWS rows of x by TILE_DOT rows of W. */
enum { LANES = 16, TILE_ROWS = 4, TILE_PANELS = 2, DOT_ROWS = 6, TILE_DOT = 4 };

/* Whether tiles unpack nibbles on their way to the products. */
enum { DIRECT_TILES = 1 };

/* The same in attention: query rows by vectors of keys, or of elements of values. */
enum { QUERIES_AT_ONCE = 8, VECTORS_AT_ONCE = 2 };

typedef __m512 vf;  /* 16 float32 */
typedef __m512i vi; /* 16 int32, or 16 groups of 4 bytes */

LN_INLINE __mmask16 first_lanes(size_t n) {
    return (__mmask16)((1u << n) - 1u);
}

/* n < 16: the first n lanes; others load as 0 */
LN_INLINE vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LN_INLINE vf vf_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
LN_INLINE void vf_store(float *p, vf x) {
    _mm512_storeu_ps(p, x);
}
/* Past the caches, p on a line of them; vf_stream_end before others read what was written. */
LN_INLINE void vf_stream(float *p, vf x) {
    _mm512_stream_ps(p, x);
}
LN_INLINE void vf_stream_end(void) {
    _mm_sfence();
}
LN_INLINE void vf_store_n(float *p, vf x, size_t n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
}
LN_INLINE vf vf_set(float x) {
    return _mm512_set1_ps(x);
}
LN_INLINE vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
LN_INLINE vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
LN_INLINE vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
LN_INLINE vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
LN_INLINE vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
LN_INLINE vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
LN_INLINE vf vf_abs(vf a) {
    return _mm512_abs_ps(a);
}
LN_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
LN_INLINE vf vf_from_i(vi a) {
    return _mm512_cvtepi32_ps(a);
}
LN_INLINE vi vi_round(vf a) {
    return _mm512_cvtps_epi32(a);
}

/* x * 2^n, n in -126..127 */
LN_INLINE vf vf_scale2(vf x, vi n) {
    return vf_mul(
        x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23)));
}

/* Fixed trees: lanes i and i + 8, then 4, 2, 1. */
LN_INLINE float vf_sum(vf a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
/* out[i] = vf_sum(a[i]) for four vectors. */
LN_INLINE void vf_sum_tile(const vf a[TILE_DOT], float out[TILE_DOT]) {
    vf ab = vf_add(_mm512_shuffle_f32x4(a[0], a[1], 0x44), _mm512_shuffle_f32x4(a[0], a[1], 0xee));
    vf cd = vf_add(_mm512_shuffle_f32x4(a[2], a[3], 0x44), _mm512_shuffle_f32x4(a[2], a[3], 0xee));
    vf all = vf_add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    all = vf_add(all, _mm512_permute_ps(all, 0xee));
    all = vf_add(all, _mm512_permute_ps(all, 0xf5));
    const __m512i firsts = _mm512_castsi128_si512(_mm_set_epi32(12, 8, 4, 0));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, all)));
}
LN_INLINE float vf_largest(vf a) {
    return _mm512_reduce_max_ps(a);
}

LN_INLINE vf vf_from_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LN_INLINE vf vf_from_bf16(const uint16_t *p) {
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
LN_INLINE void vf_to_f16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* Rounds to nearest even; NaN stays NaN. */
LN_INLINE void vf_to_bf16(uint16_t *p, vf x) {
    vi bits = _mm512_castps_si512(x);
    vi odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    vi up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    up = _mm512_mask_set1_epi32(up, nan, 0x7fc00000);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
/* 0 where x is below `limit`, else y */
LN_INLINE vf vf_zero_below(vf x, float limit, vf y) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, vf_set(limit), _CMP_NLT_UQ), y);
}

/* The same bits. */
LN_INLINE vf vf_of_bits(vi x) {
    return _mm512_castsi512_ps(x);
}
LN_INLINE vi vi_of_bits(vf x) {
    return _mm512_castps_si512(x);
}

LN_INLINE vi vi_from_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LN_INLINE vi vi_from_i8(const int8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LN_INLINE vf vf_from_i8(const int8_t *p) {
    return vf_from_i(vi_from_i8(p));
}
/* 16 of E4M3, whose bits are those of a half 256 times smaller: a 256th of each. */
LN_INLINE vf vf_from_e4m3(const uint8_t *p) {
    __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
    __m256i mask = _mm256_set1_epi16((int16_t)0xbf80);
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(bytes, 7), mask));
}
LN_INLINE vi vi_load(const void *p) {
    return _mm512_loadu_si512(p);
}
LN_INLINE void vi_store(void *p, vi x) {
    _mm512_storeu_si512(p, x);
}
LN_INLINE vi vi_set(int32_t x) {
    return _mm512_set1_epi32(x);
}
LN_INLINE vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
LN_INLINE vi vi_mul(vi a, vi b) {
    return _mm512_mullo_epi32(a, b);
}
LN_INLINE vi vi_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
LN_INLINE vi vi_or(vi a, vi b) {
    return _mm512_or_si512(a, b);
}
/* a | (b & mask) */
LN_INLINE vi vi_or_masked(vi a, vi b, vi mask) {
    return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}
LN_INLINE vi vi_shl(vi a, int n) {
    return _mm512_slli_epi32(a, (unsigned)n);
}
LN_INLINE vi vi_shr(vi a, int n) {
    return _mm512_srli_epi32(a, (unsigned)n);
}
/* table[x] for each byte, below 16 */
LN_INLINE vi vi_lookup(const uint8_t table[16], vi x) {
    __m128i row = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(row), x);
}
/* Words 2 i of 32 at p, and words 2 i + 1. */
LN_INLINE void vi_load_pairs(const void *p, vi *even, vi *odd) {
    const char *bytes = p;
    vi first = vi_load(bytes), second = vi_load(bytes + 64);
    vi numbers = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_epi32(first, numbers, second);
    *odd = _mm512_permutex2var_epi32(first, vi_add(numbers, vi_set(1)), second);
}
/* 128 - x for each byte with bit `bit` set in `bits`, x for others. */
LN_INLINE vi vi_mirror(vi x, vi bits, int bit) {
    __mmask64 mirrored = _mm512_test_epi8_mask(bits, _mm512_set1_epi8((char)(1 << bit)));
    return _mm512_mask_sub_epi8(x, mirrored, _mm512_set1_epi8((char)128), x);
}
LN_INLINE int32_t vi_sum(vi a) {
    return _mm512_reduce_add_epi32(a);
}
/* The low bytes of 16 numbers that fit in int8. */
LN_INLINE void vi_store_i8(int8_t *p, vi x) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(x));
}
/* 4 bytes at p in every lane. */
LN_INLINE vi vi_spread(const int8_t *p) {
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vi_set(bytes);
}

/* What dot_bytes takes: the quants as they are stored, unsigned. */
enum { BYTE_OFFSET = 128 };
LN_INLINE vi vi_load_bytes(const void *p) {
    return vi_load(p);
}

/* out[column][row] = in[row][column] of 16 x 16 floats, rows `stride` floats apart in `in` */
LN_INLINE void vf_transpose(const float *in, size_t stride, float *out) {
    const __m512i rows =
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                           vi_set((int32_t)stride));
    for (size_t column = 0; column < LANES; column++)
        vf_store(out + column * LANES, _mm512_i32gather_ps(rows, in + column, sizeof(float)));
}

#endif
