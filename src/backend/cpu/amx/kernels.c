/* Kernels for AVX-512 with VNNI, and the matrix unit AMX for bf16. Its int8 products were
 * no faster than VNNI's: each block's sums leave the unit to meet their scales. */
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/avx512-vnni/dot.h"

#include "backend/cpu/amx/bf16.h"
#include "backend/cpu/simd/attention_16.h"
#include "backend/cpu/simd/no_tiles.h"
#include "backend/cpu/simd/table.h"
#include "backend/cpu/x86.h"

/* The kernel hands out the tiles' state to a process that asks. */
static bool is_usable(const ln_cpu_features *processor) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return processor->vnni && processor->amx &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

const ln_cpu_kernels ln_amx_kernels = LN_SIMD_TABLE("amx");
