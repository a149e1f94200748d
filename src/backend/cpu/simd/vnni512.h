/* Integer dot products of AVX-512 VNNI. */
#ifndef LN_BACKEND_CPU_SIMD_VNNI512_H
#define LN_BACKEND_CPU_SIMD_VNNI512_H

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
/* Whether that is the fastest way of scaling a sum of 16 bits and adding it. */
enum { WORD_SCALES = 1 };

#endif
