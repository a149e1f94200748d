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
 * processor time that the process uses in 200 ms of rest after the steps.
 *
 * The last lines are of a pool beside busy loops, one on each of the first processors: the mean of
 * steps of the pool, and of one thread, over a second each. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "bench.h"

enum { OPS = 176, RUNS = 100, ITEMS = 16 };

static ln_pool *pool;
static size_t n_threads, turns; /* of work per item */

static void work(size_t item) {
    size_t n = item % 2 == 0 ? turns : 2 * turns;
    for (size_t i = 0; i < n; i++)
        __asm__ volatile("" ::: "memory");
}

static void walk_pool(void *context, size_t worker) {
    (void)context;
    for (size_t op = 0; op < OPS; op++) {
        if (turns > 0)
            for (size_t item; (item = ln_pool_take(pool)) < ITEMS;)
                work(item);
        ln_pool_barrier(pool, worker);
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
        double begin = bench_seconds(CLOCK_MONOTONIC);
        step();
        double took = bench_seconds(CLOCK_MONOTONIC) - begin;
        best = took < best ? took : best;
    }
    return best / OPS * 1e6;
}

static void report(const char *name, void (*step)(void), double alone) {
    turns = 0;
    double empty = time_ops(step);
    turns = 2000;
    double uneven = time_ops(step), begin = bench_seconds(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    double idle = bench_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
    printf("%-12s empty %6.2f us   uneven %6.2f us (ideal %6.2f)   idle %5.1f ms\n", name, empty,
           uneven, alone / (double)n_threads, idle * 1e3);
    fflush(stdout);
}

static void step_alone(void) {
    for (size_t op = 0; op < OPS; op++)
        for (size_t item = 0; item < ITEMS; item++)
            work(item);
}

/* Milliseconds of a step on average, over a second. */
static double mean_ms(void (*step)(void)) {
    size_t n = 0;
    double begin = bench_seconds(CLOCK_MONOTONIC), end;
    do {
        step();
        n++;
        end = bench_seconds(CLOCK_MONOTONIC);
    } while (end < begin + 1);
    return (end - begin) / (double)n * 1e3;
}

static pid_t start_busy_loop(int processor) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (;;)
        __asm__ volatile("" ::: "memory");
}

static void report_shared(void) {
    enum { MOST = 2 };
    pid_t loops[MOST];
    turns = 12000;
    for (int n = 0; n <= MOST; n++) {
        if (n > 0)
            loops[n - 1] = start_busy_loop(n - 1);
        printf("%d busy loops: %6.2f ms a step, %6.2f of one thread\n", n, mean_ms(step_pool),
               mean_ms(step_alone));
        fflush(stdout);
    }
    for (int n = 0; n < MOST; n++)
        if (loops[n] > 0) {
            kill(loops[n], SIGKILL);
            waitpid(loops[n], NULL, 0);
        }
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
    report_shared();
    ln_pool_destroy(pool);
    return 0;
}
