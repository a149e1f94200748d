/* Ranks that are threads of one process: what is loaded in place of MPI connects the engines that
 * are created together. Linked with --wrap=ln_module_load. */
#ifndef LN_TESTS_UNIT_ENGINE_RANK_THREADS_H
#define LN_TESTS_UNIT_ENGINE_RANK_THREADS_H

#include "engine_test.h"
#include "thread_transport.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/module.h"
#include "engine/engine.h"

static thread_world rank_world = THREAD_WORLD_INIT;
static thread_transport rank_transports[THREAD_MAX_RANKS];
static atomic_size_t n_opened_ranks;
static size_t n_wanted_ranks; /* that are created together */
static bool ranks_buffer;     /* thread_transport.buffers */

static ln_transport *open_transport(char *why, size_t why_bytes) {
    (void)why;
    (void)why_bytes;
    size_t rank = atomic_fetch_add(&n_opened_ranks, 1);
    thread_transport *transport = &rank_transports[rank];
    *transport = (thread_transport){.base = {.name = "threads",
                                             .rank = rank,
                                             .n_ranks = n_wanted_ranks,
                                             .n_local = n_wanted_ranks,
                                             .local_rank = rank,
                                             .exchange = thread_exchange,
                                             .close = thread_leave},
                                    .world = &rank_world,
                                    .buffers = ranks_buffer};
    return &transport->base;
}

/* In place of ln_module_load (tests/CMakeLists.txt). */
ln_module_fn __wrap_ln_module_load(const char *file, const char *symbol, char *why,
                                   size_t why_bytes);
ln_module_fn __wrap_ln_module_load(const char *file, const char *symbol, char *why,
                                   size_t why_bytes) {
    assert_string_equal(file, "linnet-mpi.so");
    assert_string_equal(symbol, LN_TRANSPORT_SYMBOL);
    (void)why;
    (void)why_bytes;
    return (ln_module_fn)open_transport;
}

typedef struct rank_thread {
    pthread_t thread;
    const golden *g;
    linnet_engine_options options;
    linnet_engine *engine; /* NULL: err says why */
    linnet_error err;
} rank_thread;

static inline void *create_rank(void *argument) {
    rank_thread *rank = argument;
    (void)linnet_engine_create(rank->g->model, &rank->options, &rank->engine, &rank->err);
    return NULL;
}

/* ranks [n], in their order. */
static inline void open_ranks(const golden *g, const linnet_engine_options *options,
                              rank_thread *ranks, size_t n) {
    linnet_engine *by_rank[THREAD_MAX_RANKS] = {NULL};
    atomic_store(&n_opened_ranks, 0);
    memset(rank_world.has_ended, 0, sizeof rank_world.has_ended);
    n_wanted_ranks = n;
    for (size_t i = 0; i < n; i++) {
        ranks[i] = (rank_thread){.g = g, .options = *options};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, create_rank, &ranks[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    for (size_t i = 0; i < n; i++)
        if (ranks[i].engine == NULL)
            fail_msg("%s", ranks[i].err.message);
    for (size_t i = 0; i < n; i++)
        by_rank[ranks[i].engine->ranks.rank] = ranks[i].engine;
    for (size_t i = 0; i < n; i++)
        ranks[i].engine = by_rank[i];
}

static inline void close_ranks(rank_thread *ranks, size_t n) {
    for (size_t i = 0; i < n; i++)
        linnet_engine_destroy(ranks[i].engine);
}

#endif
