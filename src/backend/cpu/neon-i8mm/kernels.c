/* Kernels for aarch64 with I8MM: mixed dot products, and matrix products;
 * nothing elsewhere, so that tools can read every file. */
#include "backend/cpu/arm.h"

#if defined(__aarch64__)
#include "backend/cpu/neon-i8mm/dot.h"

#include "backend/cpu/neon-i8mm/tiles.h"
#include "backend/cpu/simd/attention_f32.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/table.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->i8mm;
}

const ln_cpu_kernels ln_neon_i8mm_kernels = LN_SIMD_TABLE("neon-i8mm");
#endif
