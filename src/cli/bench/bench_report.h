/* What linnet bench measured, as text, JSON or a picture. */
#ifndef LN_CLI_BENCH_BENCH_REPORT_H
#define LN_CLI_BENCH_BENCH_REPORT_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

#include "backend/backend.h"

typedef struct ln_bench_phase {
    double tokens_per_s; /* of the median run */
    ln_profile profile;  /* of all runs that count */
    double seconds;      /* of these */
    double of_units;     /* of the products per second that the vector units can do; 0: unknown */
    double of_memory;    /* of the bytes per second that memory can, for reading weights alone */
} ln_bench_phase;

typedef struct ln_bench_measurement {
    ln_bench_phase prefill, decode;
    ln_ceilings ceilings;
} ln_bench_measurement;

typedef struct ln_bench_report {
    const char *model; /* as it was named; borrowed, as is measured */
    size_t n_prefill, n_decode, n_context, n_seqs, n_threads, weight_bytes;
    linnet_sampling sampling;
    bool profile; /* is shown */
    const ln_bench_measurement *measured;
} ln_bench_report;

/* To stdout; the exit status, as of plot. */
int ln_bench_print_text(const ln_bench_report *report);
int ln_bench_print_json(const ln_bench_report *report);
/* Writes an SVG: the speeds, and what this machine could do at most. */
int ln_bench_plot(const ln_bench_report *report, const char *path);

#endif
