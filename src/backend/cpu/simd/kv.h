/* The paged cache as the vector kernels lay it out. V is [block][kv head][token in block][head dim]
 * as everywhere; K, whose blocks hold 16 tokens, is [block][kv head][head dim][token in block], so
 * that 16 keys meet one element of a query at once. Latents, where V is a part of K, stay plain. */
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

/* One head's key at a slot. */
static void kv_store_key(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    size_t row = ln_scalar_kv_row(kv, slot, head);
    if (!kv_is_transposed(kv)) {
        kv_store(kv->dtype, kv->k, row * kv->k_dim, 1, x, kv->k_dim);
        return;
    }
    kv_store(kv->dtype, kv->k, row / LANES * LANES * kv->k_dim + row % LANES, LANES, x, kv->k_dim);
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
    }
}

#endif
