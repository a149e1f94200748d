/* Dot products of AVX-512 without VNNI and BF16. */
#ifndef LN_BACKEND_CPU_AVX512_DOT_H
#define LN_BACKEND_CPU_AVX512_DOT_H

#include "backend/cpu/simd/bf16_emulated512.h"

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane, w unsigned and below 128. */
LN_INLINE vi dot_nibbles(vi acc, vi w, vi x) {
    vi pairs = _mm512_maddubs_epi16(w, x);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
/* The same for any w. Pairs of products are summed in 16 bits, so bytes go in halves of 4 bits. */
LN_INLINE vi dot_bytes(vi acc, vi w, vi x) {
    vi low = _mm512_set1_epi8(0xf);
    vi pairs = _mm512_maddubs_epi16(_mm512_and_si512(_mm512_srli_epi16(w, 4), low), x);
    acc = dot_nibbles(acc, _mm512_and_si512(w, low), x);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(16)));
}
/* acc + w[0] x[0] + w[1] x[1] of int16 in each lane */
LN_INLINE vi dot_words(vi acc, vi w, vi x) {
    return _mm512_add_epi32(acc, _mm512_madd_epi16(w, x));
}
/* Whether that is the fastest way of scaling a sum of 16 bits and adding it. */
enum { WORD_SCALES = 0 };

#endif
