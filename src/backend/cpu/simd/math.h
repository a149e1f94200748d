/* Functions of vectors: exp and the activations. */
#ifndef LN_BACKEND_CPU_SIMD_MATH_H
#define LN_BACKEND_CPU_SIMD_MATH_H

#include <math.h>

#include "backend/op.h"

/* exp(x) within 2 units in the last place; 0 below -87.3, and the largest result at 88.3 and
 * above; NaN stays NaN, being second where numbers are compared. x = n ln 2 + r, and exp(r) is its
 * Taylor polynomial of degree 7 on |r| <= ln 2 / 2. */
LN_INLINE vf vf_exp(vf x) {
    vf bounded = vf_max(vf_set(-87.3f), vf_min(vf_set(88.3f), x));
    vi n = vi_round(vf_mul(bounded, vf_set(1.44269504f)));
    vf r = vf_fma(vf_from_i(n), vf_set(-0.693145752f), bounded);
    r = vf_fma(vf_from_i(n), vf_set(-1.42860677e-6f), r);
    vf p = vf_set(1.0f / 5040.0f);
    p = vf_fma(p, r, vf_set(1.0f / 720.0f));
    p = vf_fma(p, r, vf_set(1.0f / 120.0f));
    p = vf_fma(p, r, vf_set(1.0f / 24.0f));
    p = vf_fma(p, r, vf_set(1.0f / 6.0f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r, vf_set(1.0f));
    p = vf_fma(p, r, vf_set(1.0f));
    return vf_zero_below(x, -87.3f, vf_scale2(p, n));
}

/* log(1 + e^x) = max(x, 0) + log(1 + z) with z = e^-|x|, and log(1 + z) = 2 atanh(z / (2 + z)) by
 * its series, whose terms from t^17 on are below 2^-27 of the sum. */
LN_INLINE vf vf_softplus(vf x) {
    vf z = vf_exp(vf_sub(vf_set(0.0f), vf_abs(x)));
    vf t = vf_div(z, vf_add(vf_set(2.0f), z)), square = vf_mul(t, t);
    vf sum = vf_set(2.0f / 15.0f);
    sum = vf_fma(sum, square, vf_set(2.0f / 13.0f));
    sum = vf_fma(sum, square, vf_set(2.0f / 11.0f));
    sum = vf_fma(sum, square, vf_set(2.0f / 9.0f));
    sum = vf_fma(sum, square, vf_set(2.0f / 7.0f));
    sum = vf_fma(sum, square, vf_set(2.0f / 5.0f));
    sum = vf_fma(sum, square, vf_set(2.0f / 3.0f));
    sum = vf_fma(sum, square, vf_set(2.0f));
    return vf_fma(sum, t, vf_max(x, vf_set(0.0f)));
}

/* x / (1 + exp(-a x)) */
LN_INLINE vf vf_swish(vf x, float a) {
    vf e = vf_exp(vf_mul(x, vf_set(-a)));
    return vf_div(x, vf_add(vf_set(1.0f), e));
}

/* One lane at a time, for what has no vector form. */
LN_INLINE vf vf_each(vf x, float (*function)(float)) {
    float lanes[LANES];
    vf_store(lanes, x);
    for (size_t lane = 0; lane < LANES; lane++)
        lanes[lane] = function(lanes[lane]);
    return vf_load(lanes);
}

/* x Phi(x) = max(x, 0) - |x| exp(-p(|x|)): p, a polynomial for -log of the normal distribution's
 * tail on [0, 6], is off by 2e-8 at most. So results are within 2e-7 |x|, and 0 below -6, where
 * they are less than 1e-8. */
LN_INLINE vf vf_gelu(vf x) {
    vf zero = vf_set(0.0f), t = vf_min(vf_set(6.0f), vf_abs(x));
    vf p = vf_set(-1.72847592e-9f);
    p = vf_fma(p, t, vf_set(6.47905054e-8f));
    p = vf_fma(p, t, vf_set(-1.07696201e-6f));
    p = vf_fma(p, t, vf_set(1.03692555e-5f));
    p = vf_fma(p, t, vf_set(-6.20804058e-5f));
    p = vf_fma(p, t, vf_set(2.10481594e-4f));
    p = vf_fma(p, t, vf_set(-1.42123381e-5f));
    p = vf_fma(p, t, vf_set(-4.81543504e-3f));
    p = vf_fma(p, t, vf_set(0.0363584794f));
    p = vf_fma(p, t, vf_set(0.318302423f));
    p = vf_fma(p, t, vf_set(0.797885478f));
    p = vf_fma(p, t, vf_set(0.693147182f));
    vf tail = vf_zero_below(x, -6.0f, vf_mul(t, vf_exp(vf_sub(zero, p))));
    return vf_sub(vf_max(zero, x), tail);
}

/* 1 - 2 / (1 + exp(2 x)) */
LN_INLINE vf vf_tanh(vf x) {
    vf one = vf_set(1.0f);
    vf e = vf_add(one, vf_exp(vf_add(x, x)));
    return vf_sub(one, vf_div(vf_set(2.0f), e));
}

LN_INLINE vf vf_gelu_tanh(vf x) {
    vf cube = vf_mul(vf_mul(vf_mul(vf_set(0.044715f), x), x), x);
    vf z = vf_mul(vf_set(0.79788456080286535588f), vf_add(x, cube));
    return vf_mul(vf_mul(vf_set(0.5f), x), vf_add(vf_set(1.0f), vf_tanh(z)));
}

LN_INLINE vf vf_activate(ln_activation activation, vf x) {
    vf zero = vf_set(0.0f);
    switch (activation) {
    case LN_ACT_SILU: return vf_swish(x, 1.0f);
    case LN_ACT_GELU: return vf_gelu(x);
    case LN_ACT_GELU_TANH: return vf_gelu_tanh(x);
    case LN_ACT_RELU: return vf_max(x, zero);
    case LN_ACT_RELU_SQUARED: return vf_mul(vf_max(x, zero), vf_max(x, zero));
    case LN_ACT_NONE:
    case LN_ACT_SWIGLU_CLAMPED: return x;
    }
    return x;
}

/* act(g) * u */
LN_INLINE vf vf_gate(ln_activation activation, vf g, vf u) {
    if (activation != LN_ACT_SWIGLU_CLAMPED)
        return vf_mul(vf_activate(activation, g), u);
    g = vf_min(g, vf_set(7.0f));
    u = vf_min(vf_max(u, vf_set(-7.0f)), vf_set(7.0f));
    return vf_mul(vf_add(u, vf_set(1.0f)), vf_swish(g, 1.702f));
}

LN_INLINE vf vf_softcap(vf x, float cap) {
    return vf_mul(vf_set(cap), vf_each(vf_div(x, vf_set(cap)), tanhf));
}

#endif
