/* The CPU backend: a pool of threads that walk the recorded operations together, with a barrier
 * between operations. Kernels come from one table per instruction set. */
#ifndef LN_BACKEND_CPU_CPU_H
#define LN_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/pack.h"

ln_status ln_cpu_create(const ln_backend_options *options, ln_backend **backend, ln_error *err);

/* One thread's view of a running operation. */
typedef struct ln_cpu_worker {
    size_t index, count;
    float *scratch; /* its own, as large as the kernels' plan_scratch says; 64-byte aligned */
} ln_cpu_worker;

/* Does one worker's share of an operation. */
typedef void (*ln_cpu_kernel)(const ln_op *op, const ln_cpu_worker *worker);

/* What an instruction set provides. */
typedef struct ln_cpu_kernels {
    const char *isa;
    bool (*is_usable)(void); /* asks the processor */
    bool (*supports_weight)(ln_dtype dtype);
    uint32_t packs; /* bit 1 << ln_pack: weights that `fast` packs for these kernels */
    size_t (*plan_scratch)(const ln_step_limits *limits); /* floats a worker needs */
    ln_cpu_kernel kernels[LN_OP_COUNT];
} ln_cpu_kernels;

/* The half-open range of `n` items that a worker handles. */
static inline void ln_cpu_share(const ln_cpu_worker *worker, size_t n, size_t *begin, size_t *end) {
    *begin = n * worker->index / worker->count;
    *end = n * (worker->index + 1) / worker->count;
}

#endif
