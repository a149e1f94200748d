/* The paged cache as the vector kernels lay it out. V is [block][kv head][token in block][head dim]
 * as everywhere; K, whose blocks hold 16 tokens, is [block][kv head][head dim][token in block], so
 * that 16 keys meet one element of a query at once. Latents, where V is a part of K, stay plain.
 * The scales of rows of int8 and E4M3, one for each token of a head, lie behind the rows of the
 * head. */
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
    case LN_KV_Q8_0:
    case LN_KV_FP8: return; /* kv_store_scaled has them */
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

/* One head's rows of `dim` bytes in one block. */
LN_INLINE char *kv_scaled_rows(const ln_kv_layer *kv, void *cache, size_t row, size_t dim) {
    return (char *)cache +
           row / kv->block_tokens * ln_kv_head_bytes(LN_KV_Q8_0, kv->block_tokens, dim);
}

LN_INLINE float *kv_scales(const ln_kv_layer *kv, char *rows, size_t dim) {
    return (float *)(void *)(rows + ln_kv_scales_offset(kv->block_tokens, dim));
}

/* 16 numbers that fit in E4M3, rounded to it, as int32 whose low bytes are theirs. */
LN_INLINE vi kv_to_e4m3(vf x) {
    vf size = vf_abs(x);
    /* of the units that such numbers have: a 2^20th of a float's, 2^-9 at least */
    vf unit =
        vf_of_bits(vi_and(vi_of_bits(vf_max(size, vf_set(0x1p-6f))), vi_set((int32_t)0x7f800000)));
    vf aligned = vf_mul(unit, vf_set(0x1p20f));
    size = vf_sub(vf_add(size, aligned), aligned);
    /* below 2^-6, where there is no leading one, half of the number with one */
    size = vf_max(size, vf_fma(size, vf_set(0.5f), vf_set(0x1p-7f)));
    vi number = vi_shr(vi_add(vi_of_bits(size), vi_set(-(120 << 23))), 20);
    return vi_add(number, vi_mul(vi_shr(vi_of_bits(x), 31), vi_set(-128)));
}

/* 16 numbers of a row with a scale: int8, or a 256th of E4M3. */
LN_INLINE vf kv_from_scaled(ln_kv_dtype dtype, const void *p) {
    return dtype == LN_KV_FP8 ? vf_from_e4m3((const uint8_t *)p) : vf_from_i8((const int8_t *)p);
}
LN_INLINE float kv_scale_unit(ln_kv_dtype dtype) {
    return dtype == LN_KV_FP8 ? 256.0f : 1.0f;
}

/* Writes x[n] to row number `row` of rows with scales, transposed or not. */
static void kv_store_scaled(const ln_kv_layer *kv, void *cache, size_t row, size_t dim,
                            bool transposed, const float *x, size_t n) {
    char *rows = kv_scaled_rows(kv, cache, row, dim);
    size_t token = row % kv->block_tokens, i = 0;
    size_t step = transposed ? kv->block_tokens : 1;
    int8_t *out = (int8_t *)rows + (transposed ? token : token * dim), quants[LANES];
    vf most = vf_set(0.0f), strange = most; /* NaN, once something is infinite or NaN */
    for (; i < n; i += LANES) {
        vf part = n - i < LANES ? vf_load_n(x + i, n - i) : vf_load(x + i);
        most = vf_max(vf_abs(part), most);
        strange = vf_fma(part, vf_set(0.0f), strange);
    }
    float *scale = kv_scales(kv, rows, dim) + token;
    float largest = vf_largest(most) + vf_sum(strange);
    vf inverse = vf_set(ln_scalar_kv_scale(kv->dtype, largest, scale));
    for (i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        vf y = left < LANES ? vf_load_n(x + i, left) : vf_load(x + i);
        y = vf_mul(y, inverse);
        vi_store_i8(quants, kv->dtype == LN_KV_FP8 ? kv_to_e4m3(y) : vi_round(y));
        for (size_t j = 0; j < left; j++)
            out[(i + j) * step] = quants[j];
    }
}

/* One head's key at a slot. */
static void kv_store_key(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    size_t row = ln_scalar_kv_row(kv, slot, head);
    if (ln_kv_has_scales(kv->dtype))
        kv_store_scaled(kv, kv->k, row, kv->k_dim, kv_is_transposed(kv), x, kv->k_dim);
    else if (!kv_is_transposed(kv))
        kv_store(kv->dtype, kv->k, row * kv->k_dim, 1, x, kv->k_dim);
    else
        kv_store(kv->dtype, kv->k, row / LANES * LANES * kv->k_dim + row % LANES, LANES, x,
                 kv->k_dim);
}

/* One head's value at a slot. */
static void kv_store_value(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    size_t row = ln_scalar_kv_row(kv, slot, head);
    if (ln_kv_has_scales(kv->dtype))
        kv_store_scaled(kv, kv->v, row, kv->v_stride, false, x, kv->v_dim);
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
    case LN_KV_Q8_0:
    case LN_KV_FP8: return; /* kv_load_scaled_keys and kv_load_scaled_row have them */
    }
}

/* The 16 keys of a head's block that begins with row number `row`, as out [k_dim][16]. */
LN_INLINE void kv_load_scaled_keys(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row,
                                   float *out) {
    char *rows = kv_scaled_rows(kv, kv->k, row, kv->k_dim);
    vf scales = vf_load(kv_scales(kv, rows, kv->k_dim));
    scales = vf_mul(scales, vf_set(kv_scale_unit(dtype)));
    for (size_t i = 0; i < kv->k_dim; i++)
        vf_store(out + i * LANES, vf_mul(kv_from_scaled(dtype, rows + i * LANES), scales));
}

/* The first n elements of a row of `dim` that follow one another. */
LN_INLINE void kv_load_scaled_row(ln_kv_dtype dtype, const ln_kv_layer *kv, void *cache, size_t row,
                                  size_t dim, size_t n, float *out) {
    char *rows = kv_scaled_rows(kv, cache, row, dim), last[LANES] = {0};
    const char *quants = rows + row % kv->block_tokens * dim;
    vf scale = vf_set(kv_scales(kv, rows, dim)[row % kv->block_tokens] * kv_scale_unit(dtype));
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(out + i, vf_mul(kv_from_scaled(dtype, quants + i), scale));
    if (i == n)
        return;
    memcpy(last, quants + i, n - i);
    vf_store_n(out + i, vf_mul(kv_from_scaled(dtype, last), scale), n - i);
}

/* The 16 keys of a head's block that begins with row number `row`, as out [k_dim][16]. */
static void kv_load_keys(const ln_kv_layer *kv, size_t row, float *out) {
    if (kv->dtype == LN_KV_Q8_0)
        kv_load_scaled_keys(LN_KV_Q8_0, kv, row, out);
    else if (kv->dtype == LN_KV_FP8)
        kv_load_scaled_keys(LN_KV_FP8, kv, row, out);
    else
        kv_load(kv->dtype, kv->k, row * kv->k_dim, LANES * kv->k_dim, out);
}

/* The first n elements of row number `row` of rows of `dim`. */
static void kv_load_row(const ln_kv_layer *kv, void *cache, size_t row, size_t dim, size_t n,
                        float *out) {
    if (kv->dtype == LN_KV_Q8_0)
        kv_load_scaled_row(LN_KV_Q8_0, kv, cache, row, dim, n, out);
    else if (kv->dtype == LN_KV_FP8)
        kv_load_scaled_row(LN_KV_FP8, kv, cache, row, dim, n, out);
    else
        kv_load(kv->dtype, cache, row * dim, n, out);
}

/* One of the 16 keys of a transposed block whose rows have scales: out [k_dim]. */
static void kv_gather_scaled_key(const ln_kv_layer *kv, size_t row, float *out) {
    char *rows = kv_scaled_rows(kv, kv->k, row, kv->k_dim);
    vf scale = vf_set(kv_scales(kv, rows, kv->k_dim)[row % LANES] * kv_scale_unit(kv->dtype));
    for (size_t i = 0; i < kv->k_dim; i += LANES) {
        size_t n = kv->k_dim - i < LANES ? kv->k_dim - i : LANES;
        char quants[LANES] = {0};
        for (size_t j = 0; j < n; j++)
            quants[j] = rows[(i + j) * LANES + row % LANES];
        vf_store_n(out + i, vf_mul(kv_from_scaled(kv->dtype, quants), scale), n);
    }
}

/* The same of any transposed block. */
static void kv_gather_key(const ln_kv_layer *kv, size_t row, float *out) {
    size_t at = row / LANES * LANES * kv->k_dim + row % LANES;
    if (ln_kv_has_scales(kv->dtype)) {
        kv_gather_scaled_key(kv, row, out);
        return;
    }
    for (size_t i = 0; i < kv->k_dim; i++)
        kv_load(kv->dtype, kv->k, at + i * LANES, 1, out + i);
}

/* The key of row number `row`: out [k_dim]. */
static void kv_load_key_row(const ln_kv_layer *kv, size_t row, float *out) {
    if (kv_is_transposed(kv)) {
        kv_gather_key(kv, row, out);
        return;
    }
    kv_load_row(kv, kv->k, row, kv->k_dim, kv->k_dim, out);
}

/* The value of row number `row`: out [v_dim]. */
static void kv_load_value(const ln_kv_layer *kv, size_t row, float *out) {
    kv_load_row(kv, kv->v, row, kv->v_stride, kv->v_dim, out);
}

#endif
