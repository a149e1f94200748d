/* Dot products of AVX-512 with VNNI and BF16. */
#ifndef LN_BACKEND_CPU_AVX512_BF16_DOT_H
#define LN_BACKEND_CPU_AVX512_BF16_DOT_H

#include "backend/cpu/simd/vnni512.h"

/* acc + w[0] x[0] + w[1] x[1] of bf16 pairs, in float32 */
LN_INLINE vf dot_bf16(vf acc, vi w, vi x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
}
enum { HAS_DOT_BF16 = 1 };
/* x rounded to bf16 */
LN_INLINE void bf16_store(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh(x));
}
/* x and y rounded to bf16, in pairs of one of each */
LN_INLINE vf bf16_pairs(vf x, vf y) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(y, x)));
}
/* The same for float32 x, which the kernels do not use here. */
LN_INLINE vf dot_pair(vf acc, vi w, const float *x) {
    vi even = _mm512_slli_epi32(w, 16), odd = _mm512_and_si512(w, vi_set((int32_t)0xffff0000u));
    acc = vf_fma(_mm512_castsi512_ps(even), vf_set(x[0]), acc);
    return vf_fma(_mm512_castsi512_ps(odd), vf_set(x[1]), acc);
}

#endif
