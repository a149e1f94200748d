/* Attention in 16 bits, for AVX-512 with VNNI: queries and keys as int16, and values and weights as
 * bf16 where the processor multiplies these. Two elements in each lane of 32 bits.
 *
 * A query is scaled to a length of 32000 and a key so that its length stays below 65000, so sums of
 * products fit in int32 and are exact: their order does not matter. What is rounded off a key is
 * less than what f16 or E4M3 have rounded off, but where one element is far larger than all others;
 * of a query it is 1/2 of 32000 of its length. */
#ifndef LN_BACKEND_CPU_SIMD_ATTENTION_16_H
#define LN_BACKEND_CPU_SIMD_ATTENTION_16_H

#include <math.h>

#include "backend/cpu/simd/kv.h"
#include "backend/cpu/simd/math.h"

enum { INT16_KEYS = 1, BF16_VALUES = HAS_DOT_BF16 };

/* sum + a[0] b[0] + a[1] b[1] of int16 in each lane, int32 */
LN_INLINE vf dot_int16_pairs(vf sum, vf a, vf b) {
    return _mm512_castsi512_ps(
        dot_words(_mm512_castps_si512(sum), _mm512_castps_si512(a), _mm512_castps_si512(b)));
}
/* The same of bf16, in float32. */
LN_INLINE vf dot_bf16_pairs(vf sum, vf a, vf b) {
    return dot_bf16(sum, _mm512_castps_si512(a), _mm512_castps_si512(b));
}
LN_INLINE vf int32_to_float(vf sums) {
    return _mm512_cvtepi32_ps(_mm512_castps_si512(sums));
}

/* exp(x) for x <= 0 within 3e-6 of the result: 2^n times a polynomial of degree 4 on |r| <= 1/2
 * with the least relative error. 0 below -104, and for -infinity; NaN stays NaN. */
LN_INLINE vf exp_16(vf x) {
    x = _mm512_max_ps(vf_set(-150.0f), x);
    vf n = _mm512_roundscale_ps(vf_mul(x, vf_set(1.44269504f)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vf r = _mm512_fmsub_ps(x, vf_set(1.44269504f), n);
    vf p = vf_set(9.58281e-3f);
    p = vf_fma(p, r, vf_set(5.590636e-2f));
    p = vf_fma(p, r, vf_set(2.4024099e-1f));
    p = vf_fma(p, r, vf_set(6.931242e-1f));
    p = vf_fma(p, r, vf_set(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* x rounded to bf16: 8 pairs. */
LN_INLINE void store_bf16(float *out, vf x) {
    bf16_store((uint16_t *)(void *)out, x);
}

/* The largest number that an element of a key may have. */
LN_INLINE float int16_limit(size_t dim) {
    float limit = 65000.0f / sqrtf((float)dim);
    return limit < 32000.0f ? limit : 32000.0f;
}

/* x[dim] * inverse as int16, pairs filled up with zeros to whole vectors of 16 pairs. */
LN_INLINE void store_int16(const float *x, size_t dim, float inverse, float *out) {
    int16_t *words = (int16_t *)(void *)out;
    size_t whole = (dim + 2 * LANES - 1) / (2 * LANES) * (2 * LANES);
    for (size_t i = 0; i < whole; i += LANES) {
        vf part = i + LANES <= dim ? vf_load(x + i) : vf_load_n(x + i, i < dim ? dim - i : 0);
        __m256i packed = _mm512_cvtsepi32_epi16(vi_round(vf_mul(part, vf_set(inverse))));
        _mm256_storeu_si256((__m256i *)(void *)(words + i), packed);
    }
}

/* A query as int16; returns what they are to be multiplied with. */
static float int16_query(const float *q, size_t dim, float *out) {
    vf sum = vf_set(0.0f);
    for (size_t i = 0; i < dim; i += LANES) {
        vf x = dim - i < LANES ? vf_load_n(q + i, dim - i) : vf_load(q + i);
        sum = vf_fma(x, x, sum);
    }
    float length = sqrtf(vf_sum(sum));
    bool counts = !(length <= 1e-30f);
    store_int16(q, dim, counts ? 32000.0f / length : 0.0f, out);
    return counts ? length / 32000.0f : 0.0f;
}

/* A key that lies in a row, already as float32; returns its scale. */
static float int16_row(const float *x, size_t dim, float *out) {
    vf most = vf_set(0.0f);
    for (size_t i = 0; i < dim; i += LANES)
        most = vf_max(vf_abs(dim - i < LANES ? vf_load_n(x + i, dim - i) : vf_load(x + i)), most);
    float largest = vf_largest(most), limit = int16_limit(dim);
    bool counts = !(largest <= 1e-30f);
    store_int16(x, dim, counts ? limit / largest : 0.0f, out);
    return counts ? largest / limit : 0.0f;
}

/* 16 f16 or bf16 as float32. */
LN_INLINE vf load_f16_or_bf16(bool is_f16, const uint16_t *p) {
    return is_f16 ? vf_from_f16(p) : vf_from_bf16(p);
}

/* 16 elements from number `at` on, without their scales. */
LN_INLINE vf load_16(ln_kv_dtype dtype, const void *p, size_t at) {
    return ln_kv_has_scales(dtype) ? kv_from_scaled(dtype, (const char *)p + at)
                                   : load_f16_or_bf16(dtype == LN_KV_F16, (const uint16_t *)p + at);
}

LN_INLINE vf int16_pair(vi even, vi odd) {
    return _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaaaaaau, even, odd));
}

/* The largest magnitudes of 16 keys [dim][16]: without their signs, bits are in the order of the
 * numbers. */
LN_INLINE vf largest_f16_or_bf16(bool is_f16, const uint16_t *keys, size_t dim) {
    __m512i magnitude = _mm512_set1_epi16(0x7fff), most = _mm512_setzero_si512(), other = most;
    size_t i = 0;
    for (; i + 4 <= dim; i += 4) {
        most = _mm512_max_epu16(most, _mm512_and_si512(vi_load(keys + i * LANES), magnitude));
        other =
            _mm512_max_epu16(other, _mm512_and_si512(vi_load(keys + (i + 2) * LANES), magnitude));
    }
    most = _mm512_max_epu16(most, other);
    if (i + 2 <= dim) {
        most = _mm512_max_epu16(most, _mm512_and_si512(vi_load(keys + i * LANES), magnitude));
        i += 2;
    }
    __m256i low =
        _mm256_max_epu16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    if (i < dim) {
        __m256i last = _mm256_loadu_si256((const __m256i *)(const void *)(keys + i * LANES));
        low = _mm256_max_epu16(low, _mm256_and_si256(last, _mm256_set1_epi16(0x7fff)));
    }
    uint16_t bits[LANES];
    _mm256_storeu_si256((__m256i *)(void *)bits, low);
    return load_f16_or_bf16(is_f16, bits);
}

/* 16 keys of a transposed block on their way to int16. */
typedef struct int16_keys {
    const void *keys;        /* [dim][16] */
    vf inverse, inverse_odd; /* 1 / scale, and 65536 times that */
} int16_keys;

/* The keys of a head's block that begins with row number `row`, and their scales [16]. */
LN_INLINE int16_keys begin_keys(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row,
                                float *scales) {
    if (ln_kv_has_scales(dtype)) {
        char *rows = kv_scaled_rows(kv, kv->k, row, kv->k_dim);
        vf own = vf_load(kv_scales(kv, rows, kv->k_dim));
        /* of E4M3 the largest number of a key is 448 */
        float limit = dtype == LN_KV_FP8 ? int16_limit(kv->k_dim) : 448.0f;
        float inverse = dtype == LN_KV_FP8 ? limit * (256.0f / 448.0f) : 1.0f;
        vf_store(scales, vf_mul(own, vf_set(448.0f / limit)));
        return (int16_keys){rows, vf_set(inverse), vf_set(inverse * 65536.0f)};
    }
    const uint16_t *keys = (const uint16_t *)kv->k + row * kv->k_dim;
    vf largest = largest_f16_or_bf16(dtype == LN_KV_F16, keys, kv->k_dim);
    vf limit = vf_set(int16_limit(kv->k_dim));
    __mmask16 counts = _mm512_cmp_ps_mask(largest, vf_set(1e-30f), _CMP_NLE_UQ);
    vf inverse = _mm512_maskz_div_ps(counts, limit, largest);
    vf_store(scales, _mm512_maskz_div_ps(counts, largest, limit));
    return (int16_keys){keys, inverse, vf_mul(inverse, vf_set(65536.0f))};
}

LN_INLINE vi load_int8(const int8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Elements i and i + 1 of the keys as pairs of int16. An odd one is rounded in the upper half of
 * its lane. */
LN_INLINE vf two_of_keys(ln_kv_dtype dtype, const int16_keys *k, size_t i) {
    if (dtype == LN_KV_Q8_0) {
        const int8_t *keys = (const int8_t *)k->keys + i * LANES;
        return int16_pair(load_int8(keys), vi_shl(load_int8(keys + LANES), 16));
    }
    vf even = load_16(dtype, k->keys, i * LANES);
    vf odd = load_16(dtype, k->keys, (i + 1) * LANES);
    vi high = vi_round(vf_fma(odd, k->inverse_odd, vf_set(32768.0f)));
    return int16_pair(vi_round(vf_mul(even, k->inverse)), high);
}

/* Element i of the keys, which is the last, paired with zeros. */
LN_INLINE vf one_of_keys(ln_kv_dtype dtype, const int16_keys *k, size_t i) {
    if (dtype == LN_KV_Q8_0)
        return int16_pair(load_int8((const int8_t *)k->keys + i * LANES), vi_set(0));
    vf last = load_16(dtype, k->keys, i * LANES);
    return int16_pair(vi_round(vf_mul(last, k->inverse)), vi_set(0));
}

LN_INLINE void words_keys_of(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row, float *out,
                             float *scales) {
    int16_keys keys = begin_keys(dtype, kv, row, scales);
    size_t i = 0;
    for (; i + 2 <= kv->k_dim; i += 2)
        vf_store(out + i / 2 * LANES, two_of_keys(dtype, &keys, i));
    if (i < kv->k_dim)
        vf_store(out + i / 2 * LANES, one_of_keys(dtype, &keys, i));
}

/* The 16 keys of a transposed block as int16 [pairs][16][2], and their scales [16]. */
static void store_int16_keys(const ln_kv_layer *kv, size_t row, float *out, float *scales) {
    if (kv->dtype == LN_KV_Q8_0)
        words_keys_of(LN_KV_Q8_0, kv, row, out, scales);
    else if (kv->dtype == LN_KV_FP8)
        words_keys_of(LN_KV_FP8, kv, row, out, scales);
    else if (kv->dtype == LN_KV_F16)
        words_keys_of(LN_KV_F16, kv, row, out, scales);
    else
        words_keys_of(LN_KV_BF16, kv, row, out, scales);
}

/* The values of a head's block: [16][v_stride]. */
typedef struct bf16_values {
    const void *values;
    const float *scales; /* [16] where there are any */
    size_t stride;
} bf16_values;

LN_INLINE bf16_values begin_values(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row) {
    if (ln_kv_has_scales(dtype)) {
        char *rows = kv_scaled_rows(kv, kv->v, row, kv->v_stride);
        return (bf16_values){rows, kv_scales(kv, rows, kv->v_stride), kv->v_stride};
    }
    return (bf16_values){(const uint16_t *)kv->v + row * kv->v_stride, NULL, kv->v_stride};
}

/* 16 elements from number `at` on of the values of tokens i and i + 1, as pairs of bf16. */
LN_INLINE vf two_values(ln_kv_dtype dtype, const bf16_values *v, size_t i, size_t at) {
    vf even = load_16(dtype, v->values, i * v->stride + at);
    vf odd = load_16(dtype, v->values, (i + 1) * v->stride + at);
    if (ln_kv_has_scales(dtype)) {
        even = vf_mul(even, vf_set(kv_scale_unit(dtype) * v->scales[i]));
        odd = vf_mul(odd, vf_set(kv_scale_unit(dtype) * v->scales[i + 1]));
    }
    return bf16_pairs(even, odd);
}

LN_INLINE void bf16_of_16(bool is_f16, const uint16_t *values, size_t stride, size_t dim, size_t n,
                          float *out) {
    for (size_t i = 0; i < dim; i += LANES) {
        const uint16_t *even = values + i, *odd = n > 1 ? even + stride : NULL;
        uint16_t last[2 * LANES] = {0};
        if (dim - i < LANES) {
            memcpy(last, even, (dim - i) * sizeof *last);
            even = last;
            if (n > 1)
                memcpy(last + LANES, odd, (dim - i) * sizeof *last);
            odd = n > 1 ? last + LANES : NULL;
        }
        vf_store(out + i, bf16_pairs(load_f16_or_bf16(is_f16, even),
                                     n > 1 ? load_f16_or_bf16(is_f16, odd) : vf_set(0.0f)));
    }
}

LN_INLINE void bf16_of_8(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row, size_t n,
                         float *out) {
    char *rows = kv_scaled_rows(kv, kv->v, row, kv->v_stride);
    size_t token = row % kv->block_tokens;
    const char *values = rows + token * kv->v_stride;
    const float *scales = kv_scales(kv, rows, kv->v_stride) + token;
    for (size_t i = 0; i < kv->v_dim; i += LANES) {
        char last[2 * LANES] = {0};
        const char *even = values + i, *odd = n > 1 ? even + kv->v_stride : last;
        size_t left = kv->v_dim - i;
        if (left < LANES) {
            memcpy(last, even, left);
            if (n > 1)
                memcpy(last + LANES, odd, left);
            even = last;
            odd = last + LANES;
        }
        vf x = vf_mul(kv_from_scaled(dtype, even), vf_set(kv_scale_unit(dtype) * scales[0]));
        vf y = vf_set(0.0f);
        if (n > 1)
            y = vf_mul(kv_from_scaled(dtype, odd), vf_set(kv_scale_unit(dtype) * scales[1]));
        vf_store(out + i, bf16_pairs(x, y));
    }
}

/* The values of n rows, 1 or 2, from number `row` on as bf16 pairs: out [v_dim, filled up][2]. */
static void bf16_values_of(const ln_kv_layer *kv, size_t row, size_t n, float *out) {
    const uint16_t *halves = (const uint16_t *)kv->v + row * kv->v_stride;
    if (kv->dtype == LN_KV_Q8_0)
        bf16_of_8(LN_KV_Q8_0, kv, row, n, out);
    else if (kv->dtype == LN_KV_FP8)
        bf16_of_8(LN_KV_FP8, kv, row, n, out);
    else if (kv->dtype == LN_KV_F16)
        bf16_of_16(true, halves, kv->v_stride, kv->v_dim, n, out);
    else
        bf16_of_16(false, halves, kv->v_stride, kv->v_dim, n, out);
}

#endif
