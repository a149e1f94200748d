/* The CPU backend: a pool of threads that walk the recorded operations together, with a barrier
 * between operations. Kernels come from one table per instruction set. */
#ifndef LN_BACKEND_CPU_CPU_H
#define LN_BACKEND_CPU_CPU_H

#include "backend/cpu/kernels.h"

ln_status ln_cpu_create(const ln_backend_options *options, ln_backend **backend, ln_error *err);

/* The same on a processor that is described, which must not be better than the real one when
 * anything is computed. */
ln_status ln_cpu_create_on(const ln_cpu_features *processor, const ln_backend_options *options,
                           ln_backend **backend, ln_error *err);

#endif
