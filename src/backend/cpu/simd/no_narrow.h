/* Stands in for narrow.h where attention is float32 throughout. */
#ifndef LN_BACKEND_CPU_SIMD_NO_NARROW_H
#define LN_BACKEND_CPU_SIMD_NO_NARROW_H

#include "backend/cpu/simd/kv.h"
#include "backend/cpu/simd/math.h"

enum { NARROW_KEYS = 0, NARROW_VALUES = 0 };

LN_INLINE vf add_words(vf sum, vf a, vf b) {
    (void)a;
    (void)b;
    return sum;
}
LN_INLINE vf add_halves(vf sum, vf a, vf b) {
    return add_words(sum, a, b);
}
LN_INLINE vf words_to_floats(vf sums) {
    return sums;
}
LN_INLINE vf narrow_exp(vf x) {
    return x;
}
LN_INLINE void put_halves(float *out, vf x) {
    vf_store(out, x);
}
LN_INLINE float words_query(const float *q, size_t dim, float *out) {
    out[0] = q[dim - 1];
    return 0.0f;
}

typedef struct narrow_keys {
    float scale;
} narrow_keys;
LN_INLINE narrow_keys begin_keys(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row,
                                 float *scales) {
    (void)dtype;
    (void)kv;
    scales[0] = (float)row;
    return (narrow_keys){0.0f};
}
LN_INLINE vf two_of_keys(ln_kv_dtype dtype, const narrow_keys *k, size_t i) {
    (void)dtype;
    return vf_set(k->scale + (float)i);
}

typedef struct narrow_values {
    float scale;
} narrow_values;
LN_INLINE narrow_values begin_values(ln_kv_dtype dtype, const ln_kv_layer *kv, size_t row) {
    (void)dtype;
    (void)kv;
    return (narrow_values){(float)row};
}
LN_INLINE vf two_values(ln_kv_dtype dtype, const narrow_values *v, size_t i, size_t at) {
    (void)dtype;
    return vf_set(v->scale + (float)(i + at));
}

LN_INLINE void words_keys(const ln_kv_layer *kv, size_t row, float *out, float *scales) {
    (void)kv;
    out[0] = scales[0] = (float)row;
}
LN_INLINE float words_row(const float *x, size_t dim, float *out) {
    return words_query(x, dim, out);
}
LN_INLINE void halves_values(const ln_kv_layer *kv, size_t row, size_t n, float *out) {
    (void)kv;
    out[0] = (float)(row + n);
}

#endif
