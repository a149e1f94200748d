#include "backend/cpu/sets.h"

#include <stdio.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"
#if defined(__x86_64__)
#include "backend/cpu/x86.h"
#elif defined(__aarch64__)
#include "backend/cpu/arm.h"
#endif

#if defined(LN_CPU_TABLES) /* of one processor: cmake/native.cmake */
#elif defined(__x86_64__)
#define LN_CPU_TABLES                                                                              \
    &ln_avx2_kernels, &ln_avx512_kernels, &ln_avx512_vnni_kernels, &ln_avx512_bf16_kernels,        \
        &ln_amx_kernels
#elif defined(__aarch64__)
#define LN_CPU_TABLES &ln_neon_kernels, &ln_neon_dotprod_kernels, &ln_neon_i8mm_kernels
#else
#define LN_CPU_TABLES
#endif

static const ln_cpu_kernels *const instruction_sets[] = {&ln_scalar_kernels, LN_CPU_TABLES};

enum { N_SETS = sizeof instruction_sets / sizeof *instruction_sets };

const ln_cpu_kernels *ln_cpu_set(size_t index) {
    return index < N_SETS ? instruction_sets[index] : NULL;
}

static ln_status refuse_isa(const char *isa, ln_error *err) {
    char names[128] = "";
    for (size_t i = 0; i < N_SETS; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                 instruction_sets[i]->isa);
    }
    return ln_fail(err, LINNET_ERR_ARGUMENT,
                   "there is no instruction set \"%s\"; this build has: %s", isa, names);
}

/* Whether a processor has bf16 products, and float32 is faster all the same. */
static bool has_slow_bf16(const ln_cpu_features *processor) {
    return processor->bf16 && !processor->fast_bf16;
}

/* Whether the processor has a set, but is faster with the one before it. */
static bool is_slower(const ln_cpu_features *processor, const ln_cpu_kernels *set) {
    return strcmp(set->isa, "avx512-bf16") == 0 && has_slow_bf16(processor);
}

ln_status ln_cpu_choose_set(const ln_cpu_features *processor, const char *isa,
                            const ln_cpu_kernels **set, ln_error *err) {
    bool any = strcmp(isa, "auto") == 0;
    *set = NULL;
    for (size_t i = 0; i < N_SETS; i++) {
        const ln_cpu_kernels *kernels = instruction_sets[i];
        if (any ? i > 1 && is_slower(processor, kernels) : strcmp(isa, kernels->isa) != 0)
            continue;
        if (kernels->is_usable(processor))
            *set = kernels;
        else if (!any)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "this processor has no %s", isa);
    }
    if (*set == NULL)
        return refuse_isa(isa, err);
    return LINNET_OK;
}

/* The set that stands for avx512-bf16 rounds, too, and reads half the bytes by that. */
bool ln_cpu_rounds_f32(const ln_cpu_features *processor, const ln_cpu_kernels *set) {
    return set->rounds_f32 || (strcmp(set->isa, "avx512-vnni") == 0 && has_slow_bf16(processor));
}
