/* Kernels for AVX-512 with VNNI and BF16. */
#include "backend/cpu/avx512-bf16/dot.h"

#include "backend/cpu/simd/attention_16.h"
#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"
#include "backend/cpu/x86.h"

static bool is_usable(const ln_cpu_features *processor) {
    return processor->vnni && processor->bf16;
}

const ln_cpu_kernels ln_avx512_bf16_kernels = LN_SIMD_TABLE("avx512-bf16");
