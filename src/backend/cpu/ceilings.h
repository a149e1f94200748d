/* What the machine can do: the ceilings that `linnet bench` compares with. */
#ifndef LN_BACKEND_CPU_CEILINGS_H
#define LN_BACKEND_CPU_CEILINGS_H

#include "backend/cpu/kernels.h"

/* Bytes of memory that a thread reads. */
enum { LN_CPU_MEASURE_BYTES = 128 << 20 };

/* Each the best of a few short runs with all threads of the pool, which read `memory`
 * [threads][LN_CPU_MEASURE_BYTES]. */
void ln_cpu_measure(ln_pool *pool, const ln_cpu_kernels *kernels, void *memory,
                    ln_ceilings *ceilings);

#endif
