/* Dot products of aarch64 with SDOT. */
#ifndef LN_BACKEND_CPU_NEON_DOTPROD_DOT_H
#define LN_BACKEND_CPU_NEON_DOTPROD_DOT_H

#include "backend/cpu/simd/vec128.h"

/* What dot_bytes takes: signed. Only Q8_0 has quants of more than 7 bits, which lose their offset
 * as they are loaded. */
enum { BYTE_OFFSET = 0 };
LN_EACH_QUAD(vi, vi_flip_signs, (vi x), veorq_s32(x.q[i], vdupq_n_s32((int32_t)0x80808080u)))
LN_INLINE vi vi_load_bytes(const void *p) {
    return vi_flip_signs(vi_load(p));
}

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane */
LN_EACH_QUAD(vi, dot_bytes, (vi acc, vi w, vi x),
             vdotq_s32(acc.q[i], vreinterpretq_s8_s32(w.q[i]), vreinterpretq_s8_s32(x.q[i])))
LN_INLINE vi dot_nibbles(vi acc, vi w, vi x) {
    return dot_bytes(acc, w, x);
}

#endif
