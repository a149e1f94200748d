/* Weights for the CPU: packed for the fast kernels where they have a layout for the type; else used
 * where they are mapped when one untransformed tensor suffices, else copied together. */
#ifndef LN_BACKEND_CPU_PREPARE_H
#define LN_BACKEND_CPU_PREPARE_H

#include "backend/backend.h"
#include "backend/cpu/pack.h"
#include "base/pool.h"

/* The threads that prepare, and memory of each to read into; without it files are read where they
 * are mapped. */
typedef struct ln_cpu_preparer {
    ln_pool *pool;
    uint8_t *buffers; /* [pool size][buffer_bytes], or NULL */
    size_t buffer_bytes;
} ln_cpu_preparer;

/* `pack`: the layout to give it; LN_PACK_NONE: rows as in the checkpoint. */
ln_status ln_cpu_plan_weight(const ln_weight_request *request, ln_pack pack, size_t *bytes,
                             ln_error *err);
ln_status ln_cpu_prepare_weight(const ln_weight_request *request, ln_pack pack,
                                const ln_cpu_preparer *preparer, void *memory, ln_weight *weight,
                                ln_error *err);

#endif
