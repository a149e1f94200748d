/* The tables of the x86-64 instruction sets, each from a folder with compile flags of its own. */
#ifndef LN_BACKEND_CPU_X86_H
#define LN_BACKEND_CPU_X86_H

#include "backend/cpu/kernels.h"

extern const ln_cpu_kernels ln_avx2_kernels;        /* AVX2, FMA, F16C */
extern const ln_cpu_kernels ln_avx512_kernels;      /* AVX-512 F, BW, VL, DQ */
extern const ln_cpu_kernels ln_avx512_vnni_kernels; /* with VNNI: int8 dot products */
extern const ln_cpu_kernels ln_avx512_bf16_kernels; /* with VNNI and BF16 dot products */
extern const ln_cpu_kernels ln_amx_kernels;         /* with VNNI and AMX BF16 */

#endif
