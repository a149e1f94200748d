#include "base/cpuid.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* The family of a processor of AMD, from CPUID leaves 0 and 1; 0: another vendor's. */
static unsigned amd_family(void) {
    unsigned a, b, c, d, vendor;
    if (!__get_cpuid(0, &a, &vendor, &c, &d) || !__get_cpuid(1, &a, &b, &c, &d) ||
        vendor != signature_AMD_ebx)
        return 0;
    return (a >> 8 & 0xf) + (a >> 20 & 0xff);
}

static bool all(unsigned value, unsigned bits) {
    return (value & bits) == bits;
}

/* Intel SDM volume 2, CPUID leaves 1 and 7; volume 1, 13.3 for the state bits of XCR0. */
ln_cpu_features ln_cpu_detect(void) {
    enum { YMM_STATE = 0x6, ZMM_STATE = 0xe6, TILE_STATE = 0x60000 };
    ln_cpu_features features = {0};
    unsigned a, b, c, d, b7, c7, d7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return features;
    uint64_t state = read_xcr0();
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || (state & YMM_STATE) != YMM_STATE)
        return features;
    features.avx2 = all(b7, bit_AVX2);
    features.avx512 = features.avx2 && (state & ZMM_STATE) == ZMM_STATE &&
                      all(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ);
    features.vnni = features.avx512 && all(c7, bit_AVX512VNNI);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
        features.bf16 = features.avx512 && (a & 1u << 5) != 0;
    features.wants_fetches = amd_family() != 25;
    features.wants_far_fetches = amd_family() == 0;
    features.hides_shifts = amd_family() != 0;
    features.fast_bf16 = features.bf16 && amd_family() != 0;
    features.amx =
        features.avx512 && (state & TILE_STATE) == TILE_STATE && all(d7, 1u << 22 | 1u << 24);
    return features;
}
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

ln_cpu_features ln_cpu_detect(void) {
    unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    bool dotprod = (first & HWCAP_ASIMDDP) != 0;
    return (ln_cpu_features){.neon = (first & HWCAP_ASIMD) != 0,
                             .dotprod = dotprod,
                             .i8mm = dotprod && (second & HWCAP2_I8MM) != 0};
}
#else
ln_cpu_features ln_cpu_detect(void) {
    return (ln_cpu_features){0};
}
#endif
