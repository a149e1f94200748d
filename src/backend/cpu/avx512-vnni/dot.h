/* Dot products of AVX-512 with VNNI and without BF16. */
#ifndef LN_BACKEND_CPU_AVX512_VNNI_DOT_H
#define LN_BACKEND_CPU_AVX512_VNNI_DOT_H

#include "backend/cpu/simd/bf16_emulated512.h"
#include "backend/cpu/simd/vnni512.h"

/* What attention would store as bf16, were there products of them. */
LN_INLINE void bf16_store(uint16_t *p, vf x) {
    vf_to_bf16(p, x);
}
LN_INLINE vf bf16_pairs(vf x, vf y) {
    (void)y;
    return x;
}

#endif
