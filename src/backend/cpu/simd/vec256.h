/* Vectors of 16 lanes as pairs of AVX2 registers. The names are those of vec512.h. */
#ifndef LN_BACKEND_CPU_SIMD_VEC256_H
#define LN_BACKEND_CPU_SIMD_VEC256_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LN_INLINE static inline __attribute__((always_inline, unused))

/* Sums in registers at once: TILE_ROWS rows of x by TILE_PANELS panels of 16 rows of W; for dot
 * products along K, DOT_ROWS rows of x by TILE_DOT rows of W. */
enum { LANES = 16, TILE_ROWS = 2, TILE_PANELS = 1, DOT_ROWS = 2, TILE_DOT = 2 };

/* Whether tiles unpack nibbles on their way to the products. */
enum { DIRECT_TILES = 0 };

/* The same in attention: query rows by vectors of keys, or of elements of values. */
enum { QUERIES_AT_ONCE = 2, VECTORS_AT_ONCE = 2 };

typedef struct vf {
    __m256 a, b;
} vf;
typedef struct vi {
    __m256i a, b;
} vi;

LN_INLINE vf vf_load(const float *p) {
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
/* n < 16: the first n lanes; others load as 0 */
LN_INLINE vf vf_load_n(const float *p, size_t n) {
    float x[LANES] = {0};
    memcpy(x, p, n * sizeof *x);
    return vf_load(x);
}
LN_INLINE void vf_store(float *p, vf x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
/* Past the caches, p on a line of them; vf_stream_end before others read what was written. */
LN_INLINE void vf_stream(float *p, vf x) {
    _mm256_stream_ps(p, x.a);
    _mm256_stream_ps(p + 8, x.b);
}
LN_INLINE void vf_stream_end(void) {
    _mm_sfence();
}
LN_INLINE void vf_store_n(float *p, vf x, size_t n) {
    float y[LANES];
    vf_store(y, x);
    memcpy(p, y, n * sizeof *y);
}
LN_INLINE vf vf_set(float x) {
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LN_INLINE vf vf_add(vf x, vf y) {
    return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
LN_INLINE vf vf_sub(vf x, vf y) {
    return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
LN_INLINE vf vf_mul(vf x, vf y) {
    return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
LN_INLINE vf vf_div(vf x, vf y) {
    return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
LN_INLINE vf vf_max(vf x, vf y) {
    return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
LN_INLINE vf vf_min(vf x, vf y) {
    return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
LN_INLINE vf vf_abs(vf x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
LN_INLINE vf vf_fma(vf x, vf y, vf z) {
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
LN_INLINE vf vf_from_i(vi x) {
    return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
LN_INLINE vi vi_round(vf x) {
    return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}

LN_INLINE __m256 power2(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
/* x * 2^n, n in -126..127 */
LN_INLINE vf vf_scale2(vf x, vi n) {
    return (vf){_mm256_mul_ps(x.a, power2(n.a)), _mm256_mul_ps(x.b, power2(n.b))};
}

/* Fixed trees: lanes i and i + 8, then 4, 2, 1. */
LN_INLINE float vf_sum(vf x) {
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
LN_INLINE void vf_sum_tile(const vf a[TILE_DOT], float out[TILE_DOT]) {
    for (size_t i = 0; i < TILE_DOT; i++)
        out[i] = vf_sum(a[i]);
}
LN_INLINE float vf_largest(vf x) {
    __m256 b = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

LN_INLINE __m128i load128(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}
LN_INLINE vf vf_from_f16(const uint16_t *p) {
    return (vf){_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 8))};
}
LN_INLINE __m256 bf16_half(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
}
LN_INLINE vf vf_from_bf16(const uint16_t *p) {
    return (vf){bf16_half(p), bf16_half(p + 8)};
}
LN_INLINE void vf_to_f16(uint16_t *p, vf x) {
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(void *)(p + 8),
                     _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
LN_INLINE __m256i bf16_bits(__m256 x) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    up = _mm256_blendv_epi8(up, _mm256_set1_epi32(0x7fc00000), nan);
    return _mm256_srli_epi32(up, 16);
}
/* Rounds to nearest even; NaN stays NaN. */
LN_INLINE void vf_to_bf16(uint16_t *p, vf x) {
    __m256i words = _mm256_packus_epi32(bf16_bits(x.a), bf16_bits(x.b));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(words, 0xd8));
}
/* 0 where x is below `limit`, else y */
LN_INLINE vf vf_zero_below(vf x, float limit, vf y) {
    __m256 least = _mm256_set1_ps(limit);
    return (vf){_mm256_and_ps(_mm256_cmp_ps(x.a, least, _CMP_NLT_UQ), y.a),
                _mm256_and_ps(_mm256_cmp_ps(x.b, least, _CMP_NLT_UQ), y.b)};
}
/* The same bits. */
LN_INLINE vf vf_of_bits(vi x) {
    return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
LN_INLINE vi vi_of_bits(vf x) {
    return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
LN_INLINE vi vi_from_u8(const uint8_t *p) {
    __m128i x = load128(p);
    return (vi){_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
LN_INLINE vi vi_from_i8(const int8_t *p) {
    __m128i x = load128(p);
    return (vi){_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
}
LN_INLINE vf vf_from_i8(const int8_t *p) {
    return vf_from_i(vi_from_i8(p));
}
/* 16 of E4M3, whose bits are those of a half 256 times smaller: a 256th of each. */
LN_INLINE vf vf_from_e4m3(const uint8_t *p) {
    __m256i bytes = _mm256_cvtepi8_epi16(load128(p));
    __m256i mask = _mm256_set1_epi16((int16_t)0xbf80);
    __m256i halves = _mm256_and_si256(_mm256_slli_epi16(bytes, 7), mask);
    return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}

LN_INLINE vi vi_load(const void *p) {
    const char *bytes = p;
    return (vi){_mm256_loadu_si256((const __m256i *)(const void *)bytes),
                _mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32))};
}
LN_INLINE void vi_store(void *p, vi x) {
    char *bytes = p;
    _mm256_storeu_si256((__m256i *)(void *)bytes, x.a);
    _mm256_storeu_si256((__m256i *)(void *)(bytes + 32), x.b);
}
LN_INLINE vi vi_set(int32_t x) {
    return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
LN_INLINE vi vi_add(vi x, vi y) {
    return (vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
LN_INLINE vi vi_mul(vi x, vi y) {
    return (vi){_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)};
}
LN_INLINE vi vi_and(vi x, vi y) {
    return (vi){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
LN_INLINE vi vi_or(vi x, vi y) {
    return (vi){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
/* a | (b & mask) */
LN_INLINE vi vi_or_masked(vi x, vi y, vi mask) {
    return vi_or(x, vi_and(y, mask));
}
LN_INLINE vi vi_shl(vi x, int n) {
    return (vi){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
LN_INLINE vi vi_shr(vi x, int n) {
    return (vi){_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
/* table[x] for each byte, below 16 */
LN_INLINE vi vi_lookup(const uint8_t table[16], vi x) {
    __m256i row = _mm256_broadcastsi128_si256(load128(table));
    return (vi){_mm256_shuffle_epi8(row, x.a), _mm256_shuffle_epi8(row, x.b)};
}
/* Words 2 i of 16 at p, and words 2 i + 1. */
LN_INLINE void load_pairs_half(const char *p, __m256i *even, __m256i *odd) {
    __m256 x = _mm256_loadu_ps((const float *)(const void *)p);
    __m256 y = _mm256_loadu_ps((const float *)(const void *)(p + 32));
    *even = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)), 0xd8);
    *odd = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd)), 0xd8);
}
/* Words 2 i of 32 at p, and words 2 i + 1. */
LN_INLINE void vi_load_pairs(const void *p, vi *even, vi *odd) {
    const char *bytes = p;
    load_pairs_half(bytes, &even->a, &odd->a);
    load_pairs_half(bytes + 64, &even->b, &odd->b);
}
LN_INLINE __m256i mirror_half(__m256i x, __m256i bits, __m256i bit) {
    __m256i mirrored = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
    return _mm256_blendv_epi8(x, _mm256_sub_epi8(_mm256_set1_epi8((char)128), x), mirrored);
}
/* 128 - x for each byte with bit `bit` set in `bits`, x for others. */
LN_INLINE vi vi_mirror(vi x, vi bits, int bit) {
    __m256i mask = _mm256_set1_epi8((char)(1 << bit));
    return (vi){mirror_half(x.a, bits.a, mask), mirror_half(x.b, bits.b, mask)};
}
LN_INLINE int32_t vi_sum(vi x) {
    __m256i b = _mm256_add_epi32(x.a, x.b);
    __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}
/* The low bytes of 16 numbers that fit in int8. */
LN_INLINE void vi_store_i8(int8_t *p, vi x) {
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}
/* 4 bytes at p in every lane. */
LN_INLINE vi vi_spread(const int8_t *p) {
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vi_set(bytes);
}

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane, w unsigned. Pairs of products are summed in 16
 * bits, so bytes go in halves of 4 bits. */
LN_INLINE __m256i dot4_half(__m256i acc, __m256i w, __m256i x) {
    __m256i pairs = _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
LN_INLINE __m256i dot8_half(__m256i acc, __m256i w, __m256i x) {
    __m256i low = _mm256_set1_epi8(0xf);
    __m256i high_pairs = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 4), low), x);
    acc = dot4_half(acc, _mm256_and_si256(w, low), x);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(high_pairs, _mm256_set1_epi16(16)));
}
LN_INLINE vi dot_bytes(vi acc, vi w, vi x) {
    return (vi){dot8_half(acc.a, w.a, x.a), dot8_half(acc.b, w.b, x.b)};
}
/* The same for w below 128. */
LN_INLINE vi dot_nibbles(vi acc, vi w, vi x) {
    return (vi){dot4_half(acc.a, w.a, x.a), dot4_half(acc.b, w.b, x.b)};
}

/* acc + w[0] x[0] + w[1] x[1] of int16 in each lane */
LN_INLINE vi dot_words(vi acc, vi w, vi x) {
    return (vi){_mm256_add_epi32(acc.a, _mm256_madd_epi16(w.a, x.a)),
                _mm256_add_epi32(acc.b, _mm256_madd_epi16(w.b, x.b))};
}
/* Whether that is the fastest way of scaling a sum of 16 bits and adding it. */
enum { WORD_SCALES = 0 };

/* acc + w[0] x[0] + w[1] x[1] of bf16 pairs, in float32 */
LN_INLINE __m256 odd_bf16(__m256i x) {
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u)));
}
LN_INLINE __m256 even_bf16(__m256i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
LN_INLINE vf dot_bf16(vf acc, vi w, vi x) {
    acc.a = _mm256_fmadd_ps(even_bf16(w.a), even_bf16(x.a), acc.a);
    acc.b = _mm256_fmadd_ps(even_bf16(w.b), even_bf16(x.b), acc.b);
    acc.a = _mm256_fmadd_ps(odd_bf16(w.a), odd_bf16(x.a), acc.a);
    acc.b = _mm256_fmadd_ps(odd_bf16(w.b), odd_bf16(x.b), acc.b);
    return acc;
}
enum { HAS_DOT_BF16 = 0 };
/* The same for float32 x. */
LN_INLINE vf dot_pair(vf acc, vi w, const float *x) {
    __m256 first = _mm256_set1_ps(x[0]), second = _mm256_set1_ps(x[1]);
    acc.a = _mm256_fmadd_ps(even_bf16(w.a), first, acc.a);
    acc.b = _mm256_fmadd_ps(even_bf16(w.b), first, acc.b);
    acc.a = _mm256_fmadd_ps(odd_bf16(w.a), second, acc.a);
    acc.b = _mm256_fmadd_ps(odd_bf16(w.b), second, acc.b);
    return acc;
}

/* What dot_bytes takes: the quants as they are stored, unsigned. */
enum { BYTE_OFFSET = 128 };
LN_INLINE vi vi_load_bytes(const void *p) {
    return vi_load(p);
}

/* out[column][row] = in[row][column] of 16 x 16 floats, rows `stride` floats apart in `in` */
LN_INLINE void vf_transpose(const float *in, size_t stride, float *out) {
    for (size_t row = 0; row < LANES; row++)
        for (size_t column = 0; column < LANES; column++)
            out[column * LANES + row] = in[row * stride + column];
}

#endif
