/* What benchmarks share. They end at the first failure and say what it is. */
#ifndef LN_BENCH_BENCH_H
#define LN_BENCH_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"

static inline void bench_check(ln_status status, const ln_error *err) {
    if (status == LINNET_OK)
        return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

/* Memory that was allocated. */
static inline void *bench_need(void *memory) {
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static inline double bench_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Of qsort, for doubles. */
static inline int bench_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static inline double bench_median(double *values, size_t n) {
    qsort(values, n, sizeof *values, bench_compare);
    return values[n / 2];
}

#endif
