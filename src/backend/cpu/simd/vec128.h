/* Vectors of 16 lanes as quadruples of NEON registers. The names are those of vec512.h. */
#ifndef LN_BACKEND_CPU_SIMD_VEC128_H
#define LN_BACKEND_CPU_SIMD_VEC128_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LN_INLINE static inline __attribute__((always_inline, unused))

/* Sums in registers at once: TILE_ROWS rows of x by TILE_PANELS panels of 16 rows of W; for dot
 * products along K, DOT_ROWS rows of x by TILE_DOT rows of W. */
enum { LANES = 16, TILE_ROWS = 4, TILE_PANELS = 1, DOT_ROWS = 2, TILE_DOT = 2 };

/* Whether tiles unpack nibbles on their way to the products. */
enum { DIRECT_TILES = 0 };

/* The same in attention: query rows by vectors of keys, or of elements of values. */
enum { QUERIES_AT_ONCE = 2, VECTORS_AT_ONCE = 2 };

enum { QUADS = 4 };
typedef struct vf {
    float32x4_t q[QUADS];
} vf;
typedef struct vi {
    int32x4_t q[QUADS];
} vi;

LN_INLINE vf vf_load(const float *p) {
    return (vf){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
/* n < 16: the first n lanes; others load as 0 */
LN_INLINE vf vf_load_n(const float *p, size_t n) {
    float x[LANES] = {0};
    memcpy(x, p, n * sizeof *x);
    return vf_load(x);
}
LN_INLINE void vf_store(float *p, vf x) {
    for (size_t i = 0; i < QUADS; i++)
        vst1q_f32(p + i * 4, x.q[i]);
}
/* Processors that cache what is written in long streams as they see fit: plain stores. */
LN_INLINE void vf_stream(float *p, vf x) {
    vf_store(p, x);
}
LN_INLINE void vf_stream_end(void) {}
LN_INLINE void vf_store_n(float *p, vf x, size_t n) {
    float y[LANES];
    vf_store(y, x);
    memcpy(p, y, n * sizeof *y);
}
LN_INLINE vf vf_set(float x) {
    float32x4_t q = vdupq_n_f32(x);
    return (vf){{q, q, q, q}};
}

#define LN_EACH_QUAD(type, name, arguments, expression)                                            \
    LN_INLINE type name arguments {                                                                \
        type each_;                                                                                \
        for (size_t i = 0; i < QUADS; i++)                                                         \
            each_.q[i] = expression;                                                               \
        return each_;                                                                              \
    }
LN_EACH_QUAD(vf, vf_add, (vf a, vf b), vaddq_f32(a.q[i], b.q[i]))
LN_EACH_QUAD(vf, vf_sub, (vf a, vf b), vsubq_f32(a.q[i], b.q[i]))
LN_EACH_QUAD(vf, vf_mul, (vf a, vf b), vmulq_f32(a.q[i], b.q[i]))
LN_EACH_QUAD(vf, vf_div, (vf a, vf b), vdivq_f32(a.q[i], b.q[i]))
LN_EACH_QUAD(vf, vf_abs, (vf a), vabsq_f32(a.q[i]))
LN_EACH_QUAD(vf, vf_fma, (vf a, vf b, vf c), vfmaq_f32(c.q[i], a.q[i], b.q[i]))
LN_EACH_QUAD(vf, vf_from_i, (vi a), vcvtq_f32_s32(a.q[i]))
LN_EACH_QUAD(vi, vi_round, (vf a), vcvtnq_s32_f32(a.q[i]))
/* the second operand when one is NaN, as on x86 */
LN_EACH_QUAD(vf, vf_max, (vf a, vf b), vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]))
LN_EACH_QUAD(vf, vf_min, (vf a, vf b), vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]))

/* x * 2^n, n in -126..127 */
LN_EACH_QUAD(vf, vf_scale2, (vf x, vi n),
             vmulq_f32(x.q[i],
                       vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.q[i], vdupq_n_s32(127)), 23))))
/* 0 where x is below `limit`, else y */
LN_EACH_QUAD(vf, vf_zero_below, (vf x, float limit, vf y),
             vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(y.q[i]),
                                             vcltq_f32(x.q[i], vdupq_n_f32(limit)))))

/* Fixed trees: lanes i and i + 8, then 4, 2, 1. */
LN_INLINE float vf_sum(vf x) {
    float32x4_t a = vaddq_f32(vaddq_f32(x.q[0], x.q[2]), vaddq_f32(x.q[1], x.q[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
LN_INLINE void vf_sum_tile(const vf a[TILE_DOT], float out[TILE_DOT]) {
    for (size_t i = 0; i < TILE_DOT; i++)
        out[i] = vf_sum(a[i]);
}
LN_INLINE float vf_largest(vf x) {
    float32x4_t a = vmaxnmq_f32(vmaxnmq_f32(x.q[0], x.q[2]), vmaxnmq_f32(x.q[1], x.q[3]));
    return vmaxnmvq_f32(a);
}

LN_INLINE vf vf_from_f16(const uint16_t *p) {
    vf y;
    for (size_t i = 0; i < QUADS; i++)
        y.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + i * 4)));
    return y;
}
LN_INLINE vf vf_from_bf16(const uint16_t *p) {
    vf y;
    for (size_t i = 0; i < QUADS; i++)
        y.q[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + i * 4), 16));
    return y;
}
LN_INLINE void vf_to_f16(uint16_t *p, vf x) {
    for (size_t i = 0; i < QUADS; i++)
        vst1_u16(p + i * 4, vreinterpret_u16_f16(vcvt_f16_f32(x.q[i])));
}
/* Rounds to nearest even; NaN stays NaN. */
LN_INLINE void vf_to_bf16(uint16_t *p, vf x) {
    for (size_t i = 0; i < QUADS; i++) {
        uint32x4_t bits = vreinterpretq_u32_f32(x.q[i]);
        uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
        uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        up = vbslq_u32(vceqq_f32(x.q[i], x.q[i]), up, vdupq_n_u32(0x7fc00000));
        vst1_u16(p + i * 4, vshrn_n_u32(up, 16));
    }
}
/* The same bits. */
LN_INLINE vf vf_of_bits(vi x) {
    vf y;
    for (size_t i = 0; i < QUADS; i++)
        y.q[i] = vreinterpretq_f32_s32(x.q[i]);
    return y;
}
LN_INLINE vi vi_of_bits(vf x) {
    vi y;
    for (size_t i = 0; i < QUADS; i++)
        y.q[i] = vreinterpretq_s32_f32(x.q[i]);
    return y;
}
LN_INLINE vi vi_from_words(int16x8_t low, int16x8_t high) {
    return (vi){{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                 vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))}};
}
LN_INLINE vi vi_from_u8(const uint8_t *p) {
    uint8x16_t x = vld1q_u8(p);
    return vi_from_words(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x))),
                         vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(x))));
}
LN_INLINE vi vi_from_i8(const int8_t *p) {
    int8x16_t x = vld1q_s8(p);
    return vi_from_words(vmovl_s8(vget_low_s8(x)), vmovl_s8(vget_high_s8(x)));
}
LN_INLINE vf vf_from_i8(const int8_t *p) {
    return vf_from_i(vi_from_i8(p));
}
/* 16 of E4M3, whose bits are those of a half 256 times smaller: a 256th of each. */
LN_INLINE vf vf_from_e4m3(const uint8_t *p) {
    int8x16_t bytes = vld1q_s8((const int8_t *)p);
    int16x8_t mask = vdupq_n_s16((int16_t)0xbf80);
    int16x8_t low = vandq_s16(vshlq_n_s16(vmovl_s8(vget_low_s8(bytes)), 7), mask);
    int16x8_t high = vandq_s16(vshlq_n_s16(vmovl_s8(vget_high_s8(bytes)), 7), mask);
    float16x8_t halves[2] = {vreinterpretq_f16_s16(low), vreinterpretq_f16_s16(high)};
    vf y;
    for (size_t i = 0; i < QUADS; i++)
        y.q[i] = vcvt_f32_f16(i % 2 ? vget_high_f16(halves[i / 2]) : vget_low_f16(halves[i / 2]));
    return y;
}

LN_INLINE vi vi_load(const void *p) {
    vi y;
    for (size_t i = 0; i < QUADS; i++)
        y.q[i] = vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)p + i * 16));
    return y;
}
LN_INLINE void vi_store(void *p, vi x) {
    for (size_t i = 0; i < QUADS; i++)
        vst1q_u8((uint8_t *)p + i * 16, vreinterpretq_u8_s32(x.q[i]));
}
LN_INLINE vi vi_set(int32_t x) {
    int32x4_t q = vdupq_n_s32(x);
    return (vi){{q, q, q, q}};
}
LN_EACH_QUAD(vi, vi_add, (vi a, vi b), vaddq_s32(a.q[i], b.q[i]))
LN_EACH_QUAD(vi, vi_mul, (vi a, vi b), vmulq_s32(a.q[i], b.q[i]))
LN_EACH_QUAD(vi, vi_and, (vi a, vi b), vandq_s32(a.q[i], b.q[i]))
LN_EACH_QUAD(vi, vi_or, (vi a, vi b), vorrq_s32(a.q[i], b.q[i]))
/* a | (b & mask) */
LN_EACH_QUAD(vi, vi_or_masked, (vi a, vi b, vi mask),
             vorrq_s32(a.q[i], vandq_s32(b.q[i], mask.q[i])))
LN_EACH_QUAD(vi, vi_shl, (vi a, int n), vshlq_s32(a.q[i], vdupq_n_s32(n)))
LN_EACH_QUAD(vi, vi_shr, (vi a, int n),
             vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a.q[i]), vdupq_n_s32(-n))))
/* table[x] for each byte, below 16 */
LN_INLINE vi vi_lookup(const uint8_t table[16], vi x) {
    uint8x16_t row = vld1q_u8(table);
    for (size_t i = 0; i < QUADS; i++)
        x.q[i] = vreinterpretq_s32_u8(vqtbl1q_u8(row, vreinterpretq_u8_s32(x.q[i])));
    return x;
}
/* Words 2 i of 32 at p, and words 2 i + 1. */
LN_INLINE void vi_load_pairs(const void *p, vi *even, vi *odd) {
    for (size_t i = 0; i < QUADS; i++) {
        uint8x16_t x = vld1q_u8((const uint8_t *)p + i * 32);
        uint8x16_t y = vld1q_u8((const uint8_t *)p + i * 32 + 16);
        even->q[i] = vuzp1q_s32(vreinterpretq_s32_u8(x), vreinterpretq_s32_u8(y));
        odd->q[i] = vuzp2q_s32(vreinterpretq_s32_u8(x), vreinterpretq_s32_u8(y));
    }
}
/* 128 - x for each byte with bit `bit` set in `bits`, x for others. */
LN_INLINE vi vi_mirror(vi x, vi bits, int bit) {
    uint8x16_t mask = vdupq_n_u8((uint8_t)(1 << bit));
    for (size_t i = 0; i < QUADS; i++) {
        uint8x16_t bytes = vreinterpretq_u8_s32(x.q[i]);
        uint8x16_t mirrored = vtstq_u8(vreinterpretq_u8_s32(bits.q[i]), mask);
        x.q[i] = vreinterpretq_s32_u8(vbslq_u8(mirrored, vsubq_u8(vdupq_n_u8(128), bytes), bytes));
    }
    return x;
}
LN_INLINE int32_t vi_sum(vi x) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.q[0], x.q[1]), vaddq_s32(x.q[2], x.q[3])));
}
/* The low bytes of 16 numbers that fit in int8. */
LN_INLINE void vi_store_i8(int8_t *p, vi x) {
    int16x8_t low = vcombine_s16(vmovn_s32(x.q[0]), vmovn_s32(x.q[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(x.q[2]), vmovn_s32(x.q[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
/* 4 bytes at p in every lane. */
LN_INLINE vi vi_spread(const int8_t *p) {
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vi_set(bytes);
}

/* acc + w[0] x[0] + w[1] x[1] of int16 in each lane */
LN_INLINE int32x4_t dot_words_of(int32x4_t acc, int16x8_t w, int16x8_t x) {
    int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(x));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_s16(vget_high_s16(w), vget_high_s16(x))));
}
LN_EACH_QUAD(vi, dot_words, (vi acc, vi w, vi x),
             dot_words_of(acc.q[i], vreinterpretq_s16_s32(w.q[i]), vreinterpretq_s16_s32(x.q[i])))
/* Whether that is the fastest way of scaling a sum of 16 bits and adding it. */
enum { WORD_SCALES = 0 };

/* acc + w[0] x[0] + w[1] x[1] of bf16 pairs, in float32 */
LN_INLINE float32x4_t odd_bf16(int32x4_t x) {
    return vreinterpretq_f32_s32(vandq_s32(x, vdupq_n_s32((int32_t)0xffff0000u)));
}
LN_INLINE float32x4_t even_bf16(int32x4_t x) {
    return vreinterpretq_f32_s32(vshlq_n_s32(x, 16));
}
LN_INLINE vf dot_bf16(vf acc, vi w, vi x) {
    for (size_t i = 0; i < QUADS; i++) {
        acc.q[i] = vfmaq_f32(acc.q[i], even_bf16(w.q[i]), even_bf16(x.q[i]));
        acc.q[i] = vfmaq_f32(acc.q[i], odd_bf16(w.q[i]), odd_bf16(x.q[i]));
    }
    return acc;
}

enum { HAS_DOT_BF16 = 0 };
/* The same for float32 x. */
LN_INLINE vf dot_pair(vf acc, vi w, const float *x) {
    for (size_t i = 0; i < QUADS; i++) {
        acc.q[i] = vfmaq_n_f32(acc.q[i], even_bf16(w.q[i]), x[0]);
        acc.q[i] = vfmaq_n_f32(acc.q[i], odd_bf16(w.q[i]), x[1]);
    }
    return acc;
}

/* out[column][row] = in[row][column] of 16 x 16 floats, rows `stride` floats apart in `in` */
LN_INLINE void vf_transpose(const float *in, size_t stride, float *out) {
    for (size_t row = 0; row < LANES; row++)
        for (size_t column = 0; column < LANES; column++)
            out[column * LANES + row] = in[row * stride + column];
}

#endif
