/* What it costs to let threads walk a list of operations together: the pool of the CPU backend
 * beside OpenMP, with no work and with some per operation.
 *
 *     cc -O2 -fopenmp -Isrc -Iinclude bench/pool.c build/liblinnet.a -o pool -pthread
 *     ./pool [THREADS]
 *
 * A step is the list of a decode step of 22 layers, 8 operations each. `pool`: one start a step and
 * a barrier behind each operation, as the backend does. `omp barrier`: the same with one parallel
 * region. `omp fork`: a parallel region per operation. `uneven`: one thread's items take twice as
 * long as the other's, taken from a list (`schedule(dynamic)` in OpenMP). The last column is the
 * processor time that the process uses in 200 ms of rest after the steps. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/pool.h"

enum { OPS = 176, RUNS = 100, ITEMS = 16 };

static ln_pool *pool;
static size_t n_threads, turns; /* of work per item */

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void work(size_t item) {
    size_t n = item % 2 == 0 ? turns : 2 * turns;
    for (size_t i = 0; i < n; i++)
        __asm__ volatile("" ::: "memory");
}

static void walk_pool(void *context, size_t worker) {
    (void)context;
    (void)worker;
    for (size_t op = 0; op < OPS; op++) {
        if (turns > 0)
            for (size_t item; (item = ln_pool_take(pool)) < ITEMS;)
                work(item);
        ln_pool_barrier(pool);
    }
}

static void step_pool(void) {
    ln_pool_run(pool, walk_pool, NULL);
}

static void step_omp_barrier(void) {
#pragma omp parallel num_threads((int)n_threads)
    for (size_t op = 0; op < OPS; op++) {
        if (turns > 0) {
#pragma omp for schedule(dynamic) nowait
            for (size_t item = 0; item < ITEMS; item++)
                work(item);
        }
#pragma omp barrier
    }
}

static void step_omp_fork(void) {
    for (size_t op = 0; op < OPS; op++) {
        if (turns == 0) {
#pragma omp parallel num_threads((int)n_threads)
            __asm__ volatile("" ::: "memory");
            continue;
        }
#pragma omp parallel for schedule(dynamic) num_threads((int)n_threads)
        for (size_t item = 0; item < ITEMS; item++)
            work(item);
    }
}

/* Microseconds of an operation in the best step: others may use the processors, too. */
static double time_ops(void (*step)(void)) {
    double best = 1e9;
    step();
    for (size_t run = 0; run < RUNS; run++) {
        double begin = now(CLOCK_MONOTONIC);
        step();
        double took = now(CLOCK_MONOTONIC) - begin;
        best = took < best ? took : best;
    }
    return best / OPS * 1e6;
}

static void report(const char *name, void (*step)(void), double alone) {
    turns = 0;
    double empty = time_ops(step);
    turns = 2000;
    double uneven = time_ops(step), begin = now(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    double idle = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
    printf("%-12s empty %6.2f us   uneven %6.2f us (ideal %6.2f)   idle %5.1f ms\n", name, empty,
           uneven, alone / (double)n_threads, idle * 1e3);
    fflush(stdout);
}

static void step_alone(void) {
    for (size_t op = 0; op < OPS; op++)
        for (size_t item = 0; item < ITEMS; item++)
            work(item);
}

int main(int argc, char **argv) {
    n_threads = argc > 1 ? strtoull(argv[1], NULL, 10) : 2;
    if (ln_pool_create(n_threads, &pool, NULL) != LINNET_OK)
        return 1;
    turns = 2000;
    double alone = time_ops(step_alone);
    report("pool", step_pool, alone);
    report("omp barrier", step_omp_barrier, alone);
    report("omp fork", step_omp_fork, alone);
    ln_pool_destroy(pool);
    return 0;
}
