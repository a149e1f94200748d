/* Dot products of aarch64 with I8MM: unsigned by signed. */
#ifndef LN_BACKEND_CPU_NEON_I8MM_DOT_H
#define LN_BACKEND_CPU_NEON_I8MM_DOT_H

#include "backend/cpu/simd/vec128.h"

/* What dot_bytes takes: the quants as they are stored, unsigned. */
enum { BYTE_OFFSET = 128 };
LN_INLINE vi vi_load_bytes(const void *p) {
    return vi_load(p);
}

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane, w unsigned */
LN_EACH_QUAD(vi, dot_bytes, (vi acc, vi w, vi x),
             vusdotq_s32(acc.q[i], vreinterpretq_u8_s32(w.q[i]), vreinterpretq_s8_s32(x.q[i])))
LN_INLINE vi dot_nibbles(vi acc, vi w, vi x) {
    return dot_bytes(acc, w, x);
}

#endif
