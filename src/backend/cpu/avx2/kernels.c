/* Kernels for AVX2 with FMA and F16C. */
#include "backend/cpu/simd/vec256.h"

#include "backend/cpu/simd/attention_f32.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"
#include "backend/cpu/x86.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->avx2;
}

const ln_cpu_kernels ln_avx2_kernels = LN_SIMD_TABLE("avx2");
