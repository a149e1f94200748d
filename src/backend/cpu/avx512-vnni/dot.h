/* Dot products of AVX-512 with VNNI and without BF16. */
#ifndef LN_BACKEND_CPU_AVX512_VNNI_DOT_H
#define LN_BACKEND_CPU_AVX512_VNNI_DOT_H

#include "backend/cpu/simd/vec512.h"

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane, w unsigned */
LN_INLINE vi dot_bytes(vi acc, vi w, vi x) {
    return _mm512_dpbusd_epi32(acc, w, x);
}
LN_INLINE vi dot_nibbles(vi acc, vi w, vi x) {
    return dot_bytes(acc, w, x);
}
/* acc + w[0] x[0] + w[1] x[1] of int16 in each lane */
LN_INLINE vi dot_words(vi acc, vi w, vi x) {
    return _mm512_dpwssd_epi32(acc, w, x);
}

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
/* What attention would store as bf16, were there products of them. */
LN_INLINE void bf16_store(uint16_t *p, vf x) {
    vf_to_bf16(p, x);
}
LN_INLINE vf bf16_pairs(vf x, vf y) {
    (void)y;
    return x;
}
/* The same for float32 x. */
LN_INLINE vf dot_pair(vf acc, vi w, const float *x) {
    acc = vf_fma(even_bf16(w), vf_set(x[0]), acc);
    return vf_fma(odd_bf16(w), vf_set(x[1]), acc);
}

#endif
