/* A pool of threads that run one function together. The caller of ln_pool_run is worker 0, so a
 * pool of n threads starts n - 1. Waiting spins briefly and then sleeps on a futex: an idle pool
 * costs nothing. It sleeps at once where another worker may need the same processor, as when other
 * programs keep the rest busy. */
#ifndef LN_BASE_POOL_H
#define LN_BASE_POOL_H

#include <stddef.h>

#include "base/error.h"

typedef struct ln_pool ln_pool;
typedef void (*ln_pool_fn)(void *context, size_t worker);

ln_status ln_pool_create(size_t n_threads, ln_pool **pool, ln_error *err);

/* Lets each thread that the pool started run on one processor only: worker i on number i of those
 * that the calling thread may run on, counting round. Best effort. */
void ln_pool_pin(const ln_pool *pool);
/* The same for the calling thread, which is to be worker 0. */
void ln_pool_pin_caller(void);

void ln_pool_destroy(ln_pool *pool); /* NULL is fine */
size_t ln_pool_size(const ln_pool *pool);

/* Calls fn(context, worker) once on every worker and returns when all have returned. */
void ln_pool_run(ln_pool *pool, ln_pool_fn fn, void *context);

/* Inside fn, for its `worker`: returns when every worker has called it. */
void ln_pool_barrier(ln_pool *pool, size_t worker);

/* Inside fn: 0, 1, 2 .. to whoever asks, since the last barrier. */
size_t ln_pool_take(ln_pool *pool);

#endif
