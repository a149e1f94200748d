#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPIN_TURNS = 4000,
    LOOK_TURNS = 16 /* before a waiting thread asks who else is on its processor */
};

/* A counter that threads wait on. `sleepers` lets a signal without sleepers skip the system
 * call. */
typedef struct gate {
    _Atomic uint32_t turn;
    _Atomic uint32_t sleepers;
} gate;

typedef struct worker {
    struct ln_pool *pool;
    size_t index;
    pthread_t thread;
    char before[64];       /* a cache line of its own */
    _Atomic int processor; /* where it last began to wait, plus 1 */
    char behind[64];
} worker;

struct ln_pool {
    size_t n_threads;
    worker *workers; /* [n_threads]; 0 is the caller and has no thread */
    size_t n_started;
    int spin_turns;
    ln_pool_fn fn;
    void *context;
    _Atomic bool stop;
    gate start;
    gate barrier;
    _Atomic size_t arrived;
    char before_next[64]; /* `next` has a cache line of its own */
    _Atomic size_t next;
    char behind_next[64];
};

static void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether another worker was last seen on this one's processor. If so, it may be waiting for the
 * processor on which this one spins. */
static bool shares_processor(const ln_pool *pool, const worker *self) {
    int own = atomic_load_explicit(&self->processor, memory_order_relaxed);
    bool shares = false;
    for (size_t i = 0; i < pool->n_threads && own > 0; i++)
        shares |= i != self->index &&
                  atomic_load_explicit(&pool->workers[i].processor, memory_order_relaxed) == own;
    return shares;
}

static void gate_wait(ln_pool *pool, gate *g, uint32_t turn, size_t index) {
    worker *self = &pool->workers[index];
    if (pool->spin_turns > 0)
        atomic_store_explicit(&self->processor, sched_getcpu() + 1, memory_order_relaxed);
    for (int i = 0; i < pool->spin_turns; i++) {
        if (atomic_load_explicit(&g->turn, memory_order_acquire) != turn)
            return;
        if (i == LOOK_TURNS && shares_processor(pool, self))
            break;
        pause_cpu();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->turn) == turn)
        syscall(SYS_futex, &g->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(gate *g) {
    atomic_fetch_add(&g->turn, 1);
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, &g->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

size_t ln_pool_take(ln_pool *pool) {
    return atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
}

void ln_pool_barrier(ln_pool *pool, size_t index) {
    if (pool->n_threads == 1) {
        pool->next = 0;
        return;
    }
    uint32_t turn = atomic_load(&pool->barrier.turn);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 == pool->n_threads) {
        atomic_store(&pool->arrived, 0);
        atomic_store_explicit(&pool->next, 0, memory_order_relaxed); /* the gate publishes it */
        gate_open(&pool->barrier);
    } else {
        gate_wait(pool, &pool->barrier, turn, index);
    }
}

static void *worker_main(void *argument) {
    worker *self = argument;
    ln_pool *pool = self->pool;
    for (uint32_t turn = 0;; turn++) {
        gate_wait(pool, &pool->start, turn, self->index);
        if (atomic_load(&pool->stop))
            return NULL;
        pool->fn(pool->context, self->index);
        ln_pool_barrier(pool, self->index);
    }
}

ln_status ln_pool_create(size_t n_threads, ln_pool **out, ln_error *err) {
    *out = NULL;
    if (n_threads == 0 || n_threads > 1024)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the number of threads must be 1 to 1024, not %zu",
                       n_threads);
    ln_pool *pool = calloc(1, sizeof *pool);
    worker *workers = calloc(n_threads, sizeof *workers);
    if (pool == NULL || workers == NULL) {
        free(pool);
        free(workers);
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory creating %zu threads", n_threads);
    }
    pool->n_threads = n_threads;
    pool->workers = workers;
    /* with more threads than processors a spinning thread only keeps another from running */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    pool->spin_turns = online > 0 && n_threads <= (size_t)online ? SPIN_TURNS : 0;
    pool->n_started = 1;
    for (size_t i = 1; i < n_threads; i++) {
        workers[i] = (worker){.pool = pool, .index = i};
        int code = pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
        if (code != 0) {
            ln_pool_destroy(pool);
            return ln_fail(err, LINNET_ERR_NOMEM, "cannot start thread %zu: %s", i, strerror(code));
        }
        pool->n_started++;
    }
    *out = pool;
    return LINNET_OK;
}

/* Number `index` of the processors in `all`, counting round; false: there is none. */
static bool pick_processor(const cpu_set_t *all, size_t index, cpu_set_t *one) {
    int n = CPU_COUNT(all);
    size_t left = n > 0 ? index % (size_t)n : 0;
    for (size_t cpu = 0; n > 0 && cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, all) || left-- > 0)
            continue;
        CPU_ZERO(one);
        CPU_SET(cpu, one);
        return true;
    }
    return false;
}

void ln_pool_pin(const ln_pool *pool) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (size_t i = 1; i < pool->n_started; i++)
        if (pick_processor(&all, i, &one))
            (void)pthread_setaffinity_np(pool->workers[i].thread, sizeof one, &one);
}

void ln_pool_pin_caller(void) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) == 0 && pick_processor(&all, 0, &one))
        (void)sched_setaffinity(0, sizeof one, &one);
}

void ln_pool_destroy(ln_pool *pool) {
    if (pool == NULL)
        return;
    atomic_store(&pool->stop, true);
    gate_open(&pool->start);
    for (size_t i = 1; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    free(pool);
}

size_t ln_pool_size(const ln_pool *pool) {
    return pool->n_threads;
}

void ln_pool_run(ln_pool *pool, ln_pool_fn fn, void *context) {
    if (pool->n_threads == 1) {
        fn(context, 0);
        pool->next = 0;
        return;
    }
    pool->fn = fn;
    pool->context = context;
    gate_open(&pool->start);
    fn(context, 0);
    ln_pool_barrier(pool, 0);
}
