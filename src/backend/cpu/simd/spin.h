/* The ceilings of the vector units: twelve chains of dot products on registers, more than the
 * latency of two units needs. */
#ifndef LN_BACKEND_CPU_SIMD_SPIN_H
#define LN_BACKEND_CPU_SIMD_SPIN_H

enum { SPIN_CHAINS = 12 };

/* Keeps the compiler from seeing through a vector. */
#define LN_HIDE(x) __asm__ volatile("" : "+m"(x))

static size_t spin_int8(size_t turns) {
    vi w = vi_set(0x01010101), x = vi_set(0x01010101), sums[SPIN_CHAINS];
    LN_HIDE(w);
    LN_HIDE(x);
    for (size_t i = 0; i < SPIN_CHAINS; i++) {
        sums[i] = vi_set((int32_t)i);
        LN_HIDE(sums[i]);
    }
    for (size_t turn = 0; turn < turns; turn++)
#pragma GCC unroll 12
        for (size_t i = 0; i < SPIN_CHAINS; i++)
            sums[i] = dot_nibbles(sums[i], w, x);
    for (size_t i = 0; i < SPIN_CHAINS; i++)
        LN_HIDE(sums[i]);
    return SPIN_CHAINS * LANES * 4;
}

static size_t spin_float(size_t turns) {
    vf one = vf_set(1.0f), sums[SPIN_CHAINS];
    vi pair = vi_set(0x3f803f80);
    LN_HIDE(one);
    LN_HIDE(pair);
    for (size_t i = 0; i < SPIN_CHAINS; i++) {
        sums[i] = vf_set((float)i);
        LN_HIDE(sums[i]);
    }
    for (size_t turn = 0; turn < turns; turn++)
#pragma GCC unroll 12
        for (size_t i = 0; i < SPIN_CHAINS; i++)
            sums[i] = HAS_DOT_BF16 ? dot_bf16(sums[i], pair, pair) : vf_fma(one, one, sums[i]);
    for (size_t i = 0; i < SPIN_CHAINS; i++)
        LN_HIDE(sums[i]);
    return SPIN_CHAINS * LANES * (HAS_DOT_BF16 ? 2 : 1);
}

#endif
