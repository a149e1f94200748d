/* Stands in for attention_16.h where attention is float32 throughout. */
#ifndef LN_BACKEND_CPU_SIMD_ATTENTION_F32_H
#define LN_BACKEND_CPU_SIMD_ATTENTION_F32_H

#include "backend/cpu/simd/kv.h"
#include "backend/cpu/simd/math.h"

enum { INT16_KEYS = 0, BF16_VALUES = 0 };

LN_INLINE vf dot_int16_pairs(vf sum, vf a, vf b) {
    (void)a;
    (void)b;
    return sum;
}
LN_INLINE vf dot_bf16_pairs(vf sum, vf a, vf b) {
    return dot_int16_pairs(sum, a, b);
}
LN_INLINE vf int32_to_float(vf sums) {
    return sums;
}
LN_INLINE vf exp_16(vf x) {
    return x;
}
LN_INLINE void store_bf16(float *out, vf x) {
    vf_store(out, x);
}
LN_INLINE float int16_query(const float *q, size_t dim, float *out) {
    out[0] = q[dim - 1];
    return 0.0f;
}

typedef struct int16_keys {
    float scale;
} int16_keys;
LN_INLINE int16_keys begin_keys(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row,
                                float *scales) {
    (void)dtype;
    (void)kv;
    scales[0] = (float)row;
    return (int16_keys){0.0f};
}
LN_INLINE vf two_of_keys(ln_kv_dtype dtype, const int16_keys *k, size_t i) {
    (void)dtype;
    return vf_set(k->scale + (float)i);
}

typedef struct bf16_values {
    float scale;
} bf16_values;
LN_INLINE bf16_values begin_values(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row) {
    (void)dtype;
    (void)kv;
    return (bf16_values){(float)row};
}
LN_INLINE vf two_values(ln_kv_dtype dtype, const bf16_values *v, size_t i, size_t at) {
    (void)dtype;
    return vf_set(v->scale + (float)(i + at));
}

LN_INLINE void store_int16_keys(const ln_kv_layer *kv, size_t row, float *out, float *scales) {
    (void)kv;
    out[0] = scales[0] = (float)row;
}
LN_INLINE float int16_row(const float *x, size_t dim, float *out) {
    return int16_query(x, dim, out);
}
LN_INLINE void bf16_values_of(const ln_kv_layer *kv, size_t row, size_t n, float *out) {
    (void)kv;
    out[0] = (float)(row + n);
}

#endif
