/* What the server counts, and its text in Prometheus' format. Names are vLLM's, with a prefix and a
 * colon. */
#ifndef LN_SERVER_METRICS_H
#define LN_SERVER_METRICS_H

#include <linnet.h>

#include "base/strbuf.h"
#include "server/kv_events/publisher.h"

enum { LN_HISTOGRAM_MAX_BOUNDS = 24 };

typedef struct ln_histogram {
    uint64_t counts[LN_HISTOGRAM_MAX_BOUNDS + 1]; /* per bucket, not summed up; the last: above */
    double sum;
} ln_histogram;

enum { LN_METRICS_FINISHES = LINNET_FINISH_TIMEOUT + 1, LN_METRICS_STATUSES = 6 };

/* Of a model's requests, from the server's start, however often the model was loaded. */
typedef struct ln_model_metrics {
    uint64_t n_prompt_tokens, n_output_tokens;
    uint64_t n_finished[LN_METRICS_FINISHES]; /* outputs, by linnet_finish */
    ln_histogram first_token, token, request; /* in seconds */
} ln_model_metrics;

/* Of the server. */
typedef struct ln_metrics {
    uint64_t n_responses[LN_METRICS_STATUSES]; /* by the hundreds of their status; 0: cut before */
    uint64_t n_refused;                        /* with 429 */
    uint64_t n_ignored_fields;                 /* of bodies */
    uint64_t n_cut;                            /* whose client went before the end */
} ln_metrics;

/* A model that is loaded, or has had requests. */
typedef struct ln_metrics_model {
    const char *name;
    const ln_model_metrics *counts;
    bool is_loaded; /* else there is nothing of what follows */
    linnet_engine_stats stats;
    bool hangs;
    size_t max_adapters;       /* that can be loaded; 0: none, and nothing is said of them */
    const char *used_adapters; /* by requests: names with commas between */
} ln_metrics_model;

/* What is so now. */
typedef struct ln_metrics_now {
    const char *prefix, *model; /* "": several */
    size_t n_open;              /* sequences admitted and not over */
    size_t n_connections;
    uint64_t n_dropped_lines;         /* of the log */
    bool has_kv_events;               /* they are published */
    ln_kv_publisher_counts kv_events; /* with has_kv_events */
    const ln_metrics_model *models;   /* [n_models] */
    size_t n_models;
} ln_metrics_now;

void ln_metrics_first_token(ln_model_metrics *metrics, double seconds);
/* n tokens took so long together. */
void ln_metrics_tokens(ln_model_metrics *metrics, double seconds, size_t n);
void ln_metrics_request(ln_model_metrics *metrics, double seconds);

void ln_metrics_render(const ln_metrics *metrics, const ln_metrics_now *now, ln_strbuf *out);

#endif
