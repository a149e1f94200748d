/* The instruction sets of this build, and which of them a processor computes with. */
#ifndef LN_BACKEND_CPU_SETS_H
#define LN_BACKEND_CPU_SETS_H

#include "backend/cpu/kernels.h"

/* Number `index` of the tables of this build, best last; NULL: there are no more. */
const ln_cpu_kernels *ln_cpu_set(size_t index);

/* The set called `isa`, or with "auto" the fastest that the processor has. */
ln_status ln_cpu_choose_set(const ln_cpu_features *processor, const char *isa,
                            const ln_cpu_kernels **set, ln_error *err);

/* Whether float32 weights that may be bf16 become so for these kernels. */
bool ln_cpu_rounds_f32(const ln_cpu_features *processor, const ln_cpu_kernels *set);

#endif
