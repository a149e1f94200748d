/* Quants of packed panels (backend/cpu/pack.h) as bytes: a block of 32 columns in 8 vectors, one
 * per step of 4 columns, shifts and masks alone. */
#ifndef LN_BACKEND_CPU_SIMD_UNPACK_H
#define LN_BACKEND_CPU_SIMD_UNPACK_H

#include "backend/cpu/pack.h"

enum { STEPS = 8, STEP_BYTES = 64 };

/* Columns of a matrix of which panels of bf16 are at hand: the first is a multiple of 32. */
typedef struct bf16_range {
    size_t first, n;
} bf16_range;

LN_INLINE vi low_nibbles(vi x) {
    return vi_and(x, vi_set(0x0f0f0f0f));
}

/* 4 vectors: steps i and i + 4. */
LN_INLINE void unpack_nibbles(const uint8_t *p, vi w[STEPS]) {
    for (size_t step = 0; step < STEPS / 2; step++) {
        vi both = vi_load(p + step * STEP_BYTES);
        w[step] = low_nibbles(both);
        w[step + 4] = low_nibbles(vi_shr(both, 4));
    }
}

/* 2 vectors of 2 bits each: steps i, i + 2, i + 4 and i + 6. */
LN_INLINE void unpack_twos(const uint8_t *p, vi w[STEPS]) {
    vi mask = vi_set(0x03030303);
    for (size_t i = 0; i < 2; i++) {
        vi all = vi_load(p + i * STEP_BYTES);
        w[i] = vi_and(all, mask);
        w[i + 2] = vi_and(vi_shr(all, 2), mask);
        w[i + 4] = vi_and(vi_shr(all, 4), mask);
        w[i + 6] = vi_and(vi_shr(all, 6), mask);
    }
}

/* Five trits of a vector, each a fraction of 256: times a power of 3, then the carry of one more
 * times 3. Even bytes and odd ones apart. */
LN_INLINE vi trits(vi all, int32_t power) {
    vi mask = vi_set(0x00ff00ff), by = vi_set(power);
    vi even = vi_and(vi_mul(vi_and(all, mask), by), mask);
    vi odd = vi_and(vi_mul(vi_and(vi_shr(all, 8), mask), by), mask);
    even = vi_shr(vi_add(even, vi_shl(even, 1)), 8);
    odd = vi_add(odd, vi_shl(odd, 1));
    return vi_or_masked(vi_and(even, vi_set(0x00030003)), odd, vi_set(0x03000300));
}

/* Block `at` of 256 columns as 13 vectors of trits. */
LN_INLINE void unpack_trits(const uint8_t *p, size_t at, vi w[STEPS]) {
    static const int32_t powers[5] = {1, 3, 9, 27, 81};
    if (at < 5) {
        for (size_t step = 0; step < STEPS; step++)
            w[step] = trits(vi_load(p + step * STEP_BYTES), powers[at]);
        return;
    }
    for (size_t step = 0; step < STEPS; step++) {
        size_t place = 2 * (at - 5) + step / 4;
        w[step] = place < 5 ? trits(vi_load(p + (8 + step % 4) * STEP_BYTES), powers[place])
                            : trits(vi_load(p + 12 * STEP_BYTES), powers[step % 4]);
    }
}

/* 3 vectors for 4 steps: 6 bits of steps 0, 1 and 2, above each 2 bits of step 3. */
LN_INLINE void unpack_sixes(const uint8_t *p, vi w[STEPS]) {
    vi mask = vi_set(0x3f3f3f3f);
    for (size_t half = 0; half < 2; half++, p += 3 * STEP_BYTES, w += 4) {
        vi a = vi_load(p), b = vi_load(p + STEP_BYTES), c = vi_load(p + 2 * STEP_BYTES);
        w[0] = vi_and(a, mask);
        w[1] = vi_and(b, mask);
        w[2] = vi_and(c, mask);
        vi last = vi_and(vi_shr(a, 6), vi_set(0x03030303));
        last = vi_or_masked(last, vi_shr(b, 4), vi_set(0x0c0c0c0c));
        w[3] = vi_or_masked(last, vi_shr(c, 2), vi_set(0x30303030));
    }
}

/* One vector: bit i of a byte becomes bit `bit` of step i. */
LN_INLINE void unpack_bits(const uint8_t *p, int bit, vi w[STEPS]) {
    vi bits = vi_load(p), mask = vi_set(0x01010101 << bit);
#pragma GCC unroll 8
    for (int step = 0; step < STEPS; step++)
        w[step] = vi_or_masked(
            w[step], step < bit ? vi_shl(bits, bit - step) : vi_shr(bits, step - bit), mask);
}

/* Indices become values, given with 128 added, as dot_bytes takes them. */
LN_INLINE void look_up(const uint8_t table[16], vi w[STEPS]) {
    uint8_t values[16];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)(table[i] - 128 + BYTE_OFFSET);
    for (size_t step = 0; step < STEPS; step++)
        w[step] = vi_lookup(values, w[step]);
}

LN_INLINE vf half_row(const uint8_t *p) {
    return vf_from_f16((const uint16_t *)(const void *)p);
}

LN_INLINE vf float_row(const uint8_t *p) {
    return vf_load((const float *)(const void *)p);
}

/* Whether the stored quants are below 128, so that dot_nibbles takes them. */
LN_INLINE bool is_sub_byte(ln_pack pack) {
    return pack == LN_PACK_I4 || pack == LN_PACK_Q4_0 || pack == LN_PACK_Q4_1 ||
           pack == LN_PACK_Q4_K || pack == LN_PACK_Q3_K || pack == LN_PACK_Q2_K ||
           pack == LN_PACK_TQ1_0 || pack == LN_PACK_TQ2_0 || pack == LN_PACK_Q1_0 ||
           pack == LN_PACK_Q2_0;
}

/* Fetches into the first-level cache, or into the second one: Intel's first one has 16 places for
 * lines that are under way, too few for the time that memory takes. */
LN_INLINE void fetch_near(const uint8_t *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i, 0, 3);
}
LN_INLINE void fetch_far(const uint8_t *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

/* acc + the products of steps [begin, end) with 32 columns of a row of x. Two accumulators of exact
 * sums hide what one waits for. */
LN_INLINE vi dot_steps(bool sub_byte, vi acc, const vi w[STEPS], const int8_t *q, size_t begin,
                       size_t end) {
    vi other = vi_set(0);
#pragma GCC unroll 8
    for (size_t step = begin; step < end; step += 2) {
        vi even = vi_spread(q + step * 4), odd = vi_spread(q + step * 4 + 4);
        acc = sub_byte ? dot_nibbles(acc, w[step], even) : dot_bytes(acc, w[step], even);
        other =
            sub_byte ? dot_nibbles(other, w[step + 1], odd) : dot_bytes(other, w[step + 1], odd);
    }
    return vi_add(acc, other);
}

#endif
