/* Kernels for AVX-512 F, BW, VL and DQ. */
#include "backend/cpu/avx512/dot.h"

#include "backend/cpu/simd/attention_f32.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"
#include "backend/cpu/x86.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->avx512;
}

const ln_cpu_kernels ln_avx512_kernels = LN_SIMD_TABLE("avx512");
