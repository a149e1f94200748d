/* What an instruction set provides, one table of kernels, and what a kernel sees of the thread that
 * runs it. */
#ifndef LN_BACKEND_CPU_KERNELS_H
#define LN_BACKEND_CPU_KERNELS_H

#include "backend/backend.h"
#include "backend/cpu/pack_write.h"
#include "base/cpuid.h"
#include "base/pool.h"

/* Where a worker stands in the items that the workers take from lists since the last barrier. */
typedef struct ln_cpu_queue {
    size_t base;   /* items of the lists before the current one */
    size_t number; /* taken and not yet handed out, with `holds` */
    bool holds;
} ln_cpu_queue;

/* One thread's view of a running operation. */
typedef struct ln_cpu_worker {
    size_t index, count;
    bool exact;      /* float32 throughout, whatever else is faster */
    float *scratch;  /* its own, as large as the kernels' plan_scratch says; 64-byte aligned */
    uint8_t *panels; /* its own, for ln_lazy_panels; 64-byte aligned */
    void *shared; /* of all workers, as large as the kernels' plan_shared says; 64-byte aligned */
    size_t ahead; /* bytes of weights that loops over few rows fetch in front of where they are; 0:
                     the processor does it better */
    bool far;    /* these go into the second-level cache, and loops that read line after line fetch,
                    too, not only those that skip some */
    bool direct; /* tiles take nibbles apart between products, not once for all rows before */
    ln_pool *pool;
    ln_cpu_queue *queue; /* its own */
    const ln_op *joins;  /* the linear of the same rows of x just before this one, which other
                            workers may still be at; NULL: there was a barrier */
} ln_cpu_worker;

/* Takes the next item of a list of n, which all workers go through; false: none is left. */
static inline bool ln_cpu_take(const ln_cpu_worker *worker, size_t n, size_t *item) {
    ln_cpu_queue *queue = worker->queue;
    if (!queue->holds)
        queue->number = ln_pool_take(worker->pool);
    queue->holds = queue->number >= queue->base + n;
    if (queue->holds)
        queue->base += n;
    else
        *item = queue->number - queue->base;
    return !queue->holds;
}

/* Waits for all workers; lists begin anew. */
static inline void ln_cpu_barrier(const ln_cpu_worker *worker) {
    ln_pool_barrier(worker->pool, worker->index);
    *worker->queue = (ln_cpu_queue){0};
}

/* Does one worker's share of an operation. */
typedef void (*ln_cpu_kernel)(const ln_op *op, const ln_cpu_worker *worker);

/* What an instruction set provides. */
typedef struct ln_cpu_kernels {
    const char *isa;
    bool (*is_usable)(const ln_cpu_features *processor);
    bool (*supports_weight)(ln_dtype dtype);
    uint32_t packs;         /* bit 1 << ln_pack: weights that `fast` packs for these kernels */
    ln_panel_packer packer; /* NULL with `packs` 0 */
    bool rounds_f32;        /* float32 weights that may be bf16 are faster so */
    size_t (*plan_scratch)(const ln_step_limits *limits); /* floats a worker needs */
    size_t (*plan_shared)(const ln_step_limits *limits);  /* bytes that workers share; NULL: none */
    /* Products per turn of the best instructions for int8 and for bf16 or float32, on registers;
     * they run `turns` turns. NULL: unknown. */
    size_t (*spin_int8)(size_t turns), (*spin_float)(size_t turns);
    ln_cpu_kernel kernels[LN_OP_COUNT];
} ln_cpu_kernels;

/* The half-open range of `n` items that a worker handles. */
static inline void ln_cpu_share(const ln_cpu_worker *worker, size_t n, size_t *begin, size_t *end) {
    *begin = n * worker->index / worker->count;
    *end = n * (worker->index + 1) / worker->count;
}

#endif
