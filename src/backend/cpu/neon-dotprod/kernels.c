/* Kernels for aarch64 with dot products (SDOT);
 * nothing elsewhere, so that tools can read every file. */
#include "backend/cpu/arm.h"

#if defined(__aarch64__)
#include "backend/cpu/neon-dotprod/dot.h"

#include "backend/cpu/simd/attention_f32.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->dotprod;
}

const ln_cpu_kernels ln_neon_dotprod_kernels = LN_SIMD_TABLE("neon-dotprod");
#endif
