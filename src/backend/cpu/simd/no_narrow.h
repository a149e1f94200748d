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
