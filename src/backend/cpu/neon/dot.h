/* Dot products of every aarch64 processor. */
#ifndef LN_BACKEND_CPU_NEON_DOT_H
#define LN_BACKEND_CPU_NEON_DOT_H

#include "backend/cpu/simd/vec128.h"

/* What dot_bytes takes: the quants as they are stored, unsigned. */
enum { BYTE_OFFSET = 128 };
LN_INLINE vi vi_load_bytes(const void *p) {
    return vi_load(p);
}

/* Sums of the products of 4 bytes, from 16-bit numbers. */
LN_INLINE int32x4_t dot4(int16x8_t w_low, int16x8_t w_high, int16x8_t x_low, int16x8_t x_high) {
    int32x4_t a = vmull_s16(vget_low_s16(w_low), vget_low_s16(x_low));
    int32x4_t b = vmull_s16(vget_high_s16(w_low), vget_high_s16(x_low));
    int32x4_t c = vmull_s16(vget_low_s16(w_high), vget_low_s16(x_high));
    int32x4_t d = vmull_s16(vget_high_s16(w_high), vget_high_s16(x_high));
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}
LN_INLINE int16x8_t low_unsigned(int32x4_t x) {
    return vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(vreinterpretq_u8_s32(x))));
}
LN_INLINE int16x8_t high_unsigned(int32x4_t x) {
    return vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(vreinterpretq_u8_s32(x))));
}
LN_INLINE int8x8_t low_bytes(int32x4_t x) {
    return vget_low_s8(vreinterpretq_s8_s32(x));
}
LN_INLINE int8x8_t high_bytes(int32x4_t x) {
    return vget_high_s8(vreinterpretq_s8_s32(x));
}

/* acc + w[0] x[0] + .. + w[3] x[3] in each lane, w unsigned */
LN_EACH_QUAD(vi, dot_bytes, (vi acc, vi w, vi x),
             vaddq_s32(acc.q[i], dot4(low_unsigned(w.q[i]), high_unsigned(w.q[i]),
                                      vmovl_s8(low_bytes(x.q[i])), vmovl_s8(high_bytes(x.q[i])))))
/* The same for w below 128: a product fits in 16 bits. */
LN_EACH_QUAD(vi, dot_nibbles, (vi acc, vi w, vi x),
             vaddq_s32(acc.q[i],
                       vpaddq_s32(vpaddlq_s16(vmull_s8(low_bytes(w.q[i]), low_bytes(x.q[i]))),
                                  vpaddlq_s16(vmull_s8(high_bytes(w.q[i]), high_bytes(x.q[i]))))))

#endif
