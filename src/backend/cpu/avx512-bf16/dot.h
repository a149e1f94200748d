/* Dot products of AVX-512 with VNNI and BF16. */
#ifndef LN_BACKEND_CPU_AVX512_BF16_DOT_H
#define LN_BACKEND_CPU_AVX512_BF16_DOT_H

#include "backend/cpu/simd/vec512.h"

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane, w unsigned */
LN_INLINE vi dot_bytes(vi acc, vi w, vi x) {
    return _mm512_dpbusd_epi32(acc, w, x);
}
LN_INLINE vi dot_nibbles(vi acc, vi w, vi x) {
    return dot_bytes(acc, w, x);
}
/* acc + w[0] x[0] + w[1] x[1] of bf16 pairs, in float32 */
LN_INLINE vf dot_bf16(vf acc, vi w, vi x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
}

#endif
