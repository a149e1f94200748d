/* The paged cache as the vector kernels lay it out. V is [block][kv head][token in block][head dim]
 * as everywhere; K, whose blocks hold 16 tokens, is [block][kv head][head dim][token in block], so
 * that 16 keys meet one element of a query at once. Latents, where V is a part of K, stay plain.
 * The scales of int8 rows, one for each token of a head, lie behind the rows of the head. */
#ifndef LN_BACKEND_CPU_SIMD_KV_H
#define LN_BACKEND_CPU_SIMD_KV_H

#include "backend/cpu/scalar/scalar.h"
#include "base/half.h"

LN_INLINE bool kv_is_transposed(const ln_kv_layer *kv) {
    return kv->k != kv->v && kv->block_tokens == LANES;
}

LN_INLINE void kv_store_one(ln_kv_dtype dtype, void *cache, size_t at, float x) {
    switch (dtype) {
    case LN_KV_F32: ((float *)cache)[at] = x; return;
    case LN_KV_F16: ((uint16_t *)cache)[at] = ln_f16_from_f32(x); return;
    case LN_KV_BF16: ((uint16_t *)cache)[at] = ln_bf16_from_f32(x); return;
    case LN_KV_Q8_0: return; /* kv_store_int8 has them */
    }
}

/* Writes x[n] to elements at, at + step, .. */
static void kv_store(ln_kv_dtype dtype, void *cache, size_t at, size_t step, const float *x,
                     size_t n) {
    size_t i = 0;
    uint16_t half[LANES];
    for (; dtype != LN_KV_F32 && i + LANES <= n; i += LANES) {
        if (dtype == LN_KV_F16)
            vf_to_f16(half, vf_load(x + i));
        else
            vf_to_bf16(half, vf_load(x + i));
        for (size_t j = 0; j < LANES; j++)
            ((uint16_t *)cache)[at + (i + j) * step] = half[j];
    }
    for (; i < n; i++)
        kv_store_one(dtype, cache, at + i * step, x[i]);
}

/* One head's rows of `dim` int8 in one block. */
LN_INLINE char *kv_int8_rows(const ln_kv_layer *kv, void *cache, size_t row, size_t dim) {
    return (char *)cache +
           row / kv->block_tokens * ln_kv_head_bytes(LN_KV_Q8_0, kv->block_tokens, dim);
}

LN_INLINE float *kv_scales(const ln_kv_layer *kv, char *rows, size_t dim) {
    return (float *)(void *)(rows + ln_kv_scales_offset(kv->block_tokens, dim));
}

/* Writes x[n] to row number `row` of rows of int8, transposed or not. */
static void kv_store_int8(const ln_kv_layer *kv, void *cache, size_t row, size_t dim,
                          bool transposed, const float *x, size_t n) {
    char *rows = kv_int8_rows(kv, cache, row, dim);
    size_t token = row % kv->block_tokens, i = 0;
    size_t step = transposed ? kv->block_tokens : 1;
    int8_t *out = (int8_t *)rows + (transposed ? token : token * dim), quants[LANES];
    vf most = vf_set(0.0f);
    for (; i + LANES <= n; i += LANES)
        most = vf_max(vf_abs(vf_load(x + i)), most);
    if (i < n)
        most = vf_max(vf_abs(vf_load_n(x + i, n - i)), most);
    vf inverse = vf_set(ln_scalar_kv_scale(vf_largest(most), kv_scales(kv, rows, dim) + token));
    for (i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        vf y = left < LANES ? vf_load_n(x + i, left) : vf_load(x + i);
        vi_store_i8(quants, vi_round(vf_mul(y, inverse)));
        for (size_t j = 0; j < left; j++)
            out[(i + j) * step] = quants[j];
    }
}

/* One head's key at a slot. */
static void kv_store_key(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    size_t row = ln_scalar_kv_row(kv, slot, head);
    if (kv->dtype == LN_KV_Q8_0)
        kv_store_int8(kv, kv->k, row, kv->k_dim, kv_is_transposed(kv), x, kv->k_dim);
    else if (!kv_is_transposed(kv))
        kv_store(kv->dtype, kv->k, row * kv->k_dim, 1, x, kv->k_dim);
    else
        kv_store(kv->dtype, kv->k, row / LANES * LANES * kv->k_dim + row % LANES, LANES, x,
                 kv->k_dim);
}

/* One head's value at a slot. */
static void kv_store_value(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    size_t row = ln_scalar_kv_row(kv, slot, head);
    if (kv->dtype == LN_KV_Q8_0)
        kv_store_int8(kv, kv->v, row, kv->v_stride, false, x, kv->v_dim);
    else
        kv_store(kv->dtype, kv->v, row * kv->v_stride, 1, x, kv->v_dim);
}

/* Elements at .. at + n of a cache array as float32. */
static void kv_load(ln_kv_dtype dtype, const void *cache, size_t at, size_t n, float *out) {
    const uint16_t *half = (const uint16_t *)cache + at;
    size_t i = 0;
    switch (dtype) {
    case LN_KV_F32: memcpy(out, (const float *)cache + at, n * sizeof *out); return;
    case LN_KV_F16:
        for (; i + LANES <= n; i += LANES)
            vf_store(out + i, vf_from_f16(half + i));
        for (; i < n; i++)
            out[i] = ln_f32_from_f16(half[i]);
        return;
    case LN_KV_BF16:
        for (; i + LANES <= n; i += LANES)
            vf_store(out + i, vf_from_bf16(half + i));
        for (; i < n; i++)
            out[i] = ln_f32_from_bf16(half[i]);
        return;
    case LN_KV_Q8_0: return; /* kv_load_int8_keys and kv_load_int8_row have them */
    }
}

/* The 16 keys of a head's block that begins with row number `row`, as out [k_dim][16]. */
static void kv_load_int8_keys(const ln_kv_layer *kv, size_t row, float *out) {
    char *rows = kv_int8_rows(kv, kv->k, row, kv->k_dim);
    vf scales = vf_load(kv_scales(kv, rows, kv->k_dim));
    for (size_t i = 0; i < kv->k_dim; i++)
        vf_store(out + i * LANES, vf_mul(vf_from_i8((int8_t *)rows + i * LANES), scales));
}

/* The first n elements of a row of `dim` int8 that follow one another. */
static void kv_load_int8_row(const ln_kv_layer *kv, void *cache, size_t row, size_t dim, size_t n,
                             float *out) {
    char *rows = kv_int8_rows(kv, cache, row, dim);
    const int8_t *quants = (int8_t *)rows + row % kv->block_tokens * dim;
    float scale = kv_scales(kv, rows, dim)[row % kv->block_tokens];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(out + i, vf_mul(vf_from_i8(quants + i), vf_set(scale)));
    for (; i < n; i++)
        out[i] = (float)quants[i] * scale;
}

/* The 16 keys of a head's block that begins with row number `row`, as out [k_dim][16]. */
static void kv_load_keys(const ln_kv_layer *kv, size_t row, float *out) {
    if (kv->dtype == LN_KV_Q8_0)
        kv_load_int8_keys(kv, row, out);
    else
        kv_load(kv->dtype, kv->k, row * kv->k_dim, LANES * kv->k_dim, out);
}

/* The key of row number `row` where keys are not transposed: out [k_dim]. */
static void kv_load_key_row(const ln_kv_layer *kv, size_t row, float *out) {
    if (kv->dtype == LN_KV_Q8_0)
        kv_load_int8_row(kv, kv->k, row, kv->k_dim, kv->k_dim, out);
    else
        kv_load(kv->dtype, kv->k, row * kv->k_dim, kv->k_dim, out);
}

/* The value of row number `row`: out [v_dim]. */
static void kv_load_value(const ln_kv_layer *kv, size_t row, float *out) {
    if (kv->dtype == LN_KV_Q8_0)
        kv_load_int8_row(kv, kv->v, row, kv->v_stride, kv->v_dim, out);
    else
        kv_load(kv->dtype, kv->v, row * kv->v_stride, kv->v_dim, out);
}

#endif
