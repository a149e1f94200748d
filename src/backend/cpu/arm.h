/* The tables of the aarch64 instruction sets, each from a folder with compile flags of its own. */
#ifndef LN_BACKEND_CPU_ARM_H
#define LN_BACKEND_CPU_ARM_H

#include "backend/cpu/kernels.h"

extern const ln_cpu_kernels ln_neon_kernels;         /* what every processor has */
extern const ln_cpu_kernels ln_neon_dotprod_kernels; /* with SDOT */
extern const ln_cpu_kernels ln_neon_i8mm_kernels;    /* with USDOT and USMMLA */

#endif
