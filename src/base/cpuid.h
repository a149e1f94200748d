/* What the processor can do, and the operating system lets it. */
#ifndef LN_BASE_CPUID_H
#define LN_BASE_CPUID_H

#include <stdbool.h>

typedef struct ln_cpu_features {
    /* x86-64 */
    bool avx2;          /* with FMA and F16C */
    bool avx512;        /* F, BW, VL and DQ */
    bool vnni;          /* AVX-512 VNNI */
    bool bf16;          /* AVX-512 BF16 */
    bool amx;           /* AMX TILE and BF16; a thread must still ask for its use */
    bool wants_fetches; /* does not foresee what a loop reads that also skips some lines: all but
                           AMD's family 25 (Zen 3 and 4), which being told makes slower */
    bool wants_far_fetches; /* nor what a loop reads that skips none, and has few places for lines
                               on their way to the first-level cache: Intel's */
    bool hides_shifts; /* shifts and masks of 512 bits have units beside those of products: AMD's.
                          Intel's take turns with products on two ports */
    bool fast_bf16;    /* vdpbf16ps does more than FMA of float32; Intel's does half as much */
    /* aarch64 */
    bool neon;    /* Advanced SIMD */
    bool dotprod; /* SDOT */
    bool i8mm;    /* USDOT and int8 matrix products */
} ln_cpu_features;

/* All false on processors other than x86-64 and aarch64. */
ln_cpu_features ln_cpu_detect(void);

#endif
