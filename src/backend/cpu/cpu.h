/* The CPU backend: a pool of threads that walk the recorded operations together, with a barrier
 * between operations. Kernels come from one table per instruction set. */
#ifndef LN_BACKEND_CPU_CPU_H
#define LN_BACKEND_CPU_CPU_H

#include "backend/cpu/kernels.h"

ln_status ln_cpu_create(const ln_backend_options *options, ln_backend **backend, ln_error *err);

/* Number `index` of the tables of this build, best last; NULL: there are no more. */
const ln_cpu_kernels *ln_cpu_set(size_t index);

#endif
