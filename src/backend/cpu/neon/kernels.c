/* Kernels for every aarch64 processor;
 * nothing elsewhere, so that tools can read every file. */
#include "backend/cpu/arm.h"

#if defined(__aarch64__)
#include "backend/cpu/neon/dot.h"

#include "backend/cpu/simd/attention_f32.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->neon;
}

const ln_cpu_kernels ln_neon_kernels = LN_SIMD_TABLE("neon");
#endif
