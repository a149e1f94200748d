/* Weights for the CPU: used where they are mapped when one untransformed tensor suffices, else
 * copied together. */
#ifndef LN_BACKEND_CPU_PREPARE_H
#define LN_BACKEND_CPU_PREPARE_H

#include "backend/backend.h"

ln_status ln_cpu_plan_weight(const ln_weight_request *request, size_t *bytes, ln_error *err);
ln_status ln_cpu_prepare_weight(const ln_weight_request *request, void *memory, ln_weight *weight,
                                ln_error *err);

#endif
