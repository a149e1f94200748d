/* Steps of tiny models: their operations are over before another thread has come, or has been given
 * a processor where other programs run. Sharing them out gains nothing then, and loses much. */
#ifndef LN_BACKEND_CPU_SMALL_H
#define LN_BACKEND_CPU_SMALL_H

#include <stdbool.h>

#include "backend/op.h"

/* Whether one thread is to compute ops[n_ops] alone: by the work of an operation on average. */
bool ln_cpu_is_small(const ln_op *ops, size_t n_ops);

#endif
