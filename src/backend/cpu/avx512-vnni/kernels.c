/* Kernels for AVX-512 with VNNI. */
#include "backend/cpu/avx512-vnni/dot.h"

#include "backend/cpu/simd/attention_16.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"
#include "backend/cpu/x86.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->vnni;
}

const ln_cpu_kernels ln_avx512_vnni_kernels = LN_SIMD_TABLE("avx512-vnni");
