/* Dot products of bf16 where AVX-512 has none: both of a pair widened to float32. */
#ifndef LN_BACKEND_CPU_SIMD_BF16_EMULATED512_H
#define LN_BACKEND_CPU_SIMD_BF16_EMULATED512_H

#include "backend/cpu/simd/vec512.h"

LN_INLINE vf odd_bf16(vi x) {
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
LN_INLINE vf even_bf16(vi x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
/* acc + w[0] x[0] + w[1] x[1] of bf16 pairs, in float32 */
LN_INLINE vf dot_bf16(vf acc, vi w, vi x) {
    acc = vf_fma(even_bf16(w), even_bf16(x), acc);
    return vf_fma(odd_bf16(w), odd_bf16(x), acc);
}
enum { HAS_DOT_BF16 = 0 };
/* The same for float32 x. */
LN_INLINE vf dot_pair(vf acc, vi w, const float *x) {
    acc = vf_fma(even_bf16(w), vf_set(x[0]), acc);
    return vf_fma(odd_bf16(w), vf_set(x[1]), acc);
}

#endif
