#include "server/metrics.h"

#include <stdio.h>
#include <time.h>

/* Upper bounds of buckets in seconds; 0 ends them. */
static const double first_token_bounds[LN_HISTOGRAM_MAX_BOUNDS] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
    0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80};
static const double token_bounds[LN_HISTOGRAM_MAX_BOUNDS] = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
    0.15,   0.2,   0.3,    0.4,   0.5,  0.75,  1,    2.5};
static const double request_bounds[LN_HISTOGRAM_MAX_BOUNDS] = {
    0.01, 0.03, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240};

static void observe(ln_histogram *histogram, const double *bounds, double seconds, size_t n) {
    size_t bucket = 0;
    while (bucket < LN_HISTOGRAM_MAX_BOUNDS && bounds[bucket] > 0 && seconds > bounds[bucket])
        bucket++;
    if (bucket < LN_HISTOGRAM_MAX_BOUNDS && bounds[bucket] <= 0)
        bucket = LN_HISTOGRAM_MAX_BOUNDS;
    histogram->counts[bucket] += n;
    histogram->sum += seconds * (double)n;
}

void ln_metrics_first_token(ln_model_metrics *metrics, double seconds) {
    observe(&metrics->first_token, first_token_bounds, seconds, 1);
}

void ln_metrics_tokens(ln_model_metrics *metrics, double seconds, size_t n) {
    if (n > 0)
        observe(&metrics->token, token_bounds, seconds / (double)n, n);
}

void ln_metrics_request(ln_model_metrics *metrics, double seconds) {
    observe(&metrics->request, request_bounds, seconds, 1);
}

/* ---- text ------------------------------------------------------------------------------- */

/* The label's value with what Prometheus wants escaped. */
static void put_label(ln_strbuf *out, const char *value) {
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"')
            ln_strbuf_putc(out, '\\');
        if (*value == '\n')
            ln_strbuf_puts(out, "\\n");
        else
            ln_strbuf_putc(out, *value);
    }
}

/* What all lines have. */
typedef struct page {
    ln_strbuf *out;
    const char *prefix, *model;
} page;

static void put_type(const page *p, const char *name, const char *type, const char *help) {
    ln_strbuf_printf(p->out, "# HELP %s:%s %s\n# TYPE %s:%s %s\n", p->prefix, name, help, p->prefix,
                     name, type);
}

/* A sample; `label` is NULL, or name="value" beside the model's. */
static void put_sample(const page *p, const char *name, const char *label, double value) {
    ln_strbuf_printf(p->out, "%s:%s{model_name=\"", p->prefix, name);
    put_label(p->out, p->model);
    ln_strbuf_printf(p->out, "\"%s%s} %.15g\n", label != NULL ? "," : "",
                     label != NULL ? label : "", value);
}

static void put_one(const page *p, const char *name, const char *type, const char *help,
                    double value) {
    put_type(p, name, type, help);
    put_sample(p, name, NULL, value);
}

static void put_histogram(const page *p, const char *name, const ln_histogram *histogram,
                          const double *bounds) {
    char sample[96], label[32];
    uint64_t total = 0;
    snprintf(sample, sizeof sample, "%s_bucket", name);
    for (size_t i = 0; i < LN_HISTOGRAM_MAX_BOUNDS && bounds[i] > 0; i++) {
        total += histogram->counts[i];
        snprintf(label, sizeof label, "le=\"%g\"", bounds[i]);
        put_sample(p, sample, label, (double)total);
    }
    total += histogram->counts[LN_HISTOGRAM_MAX_BOUNDS];
    put_sample(p, sample, "le=\"+Inf\"", (double)total);
    snprintf(sample, sizeof sample, "%s_sum", name);
    put_sample(p, sample, NULL, histogram->sum);
    snprintf(sample, sizeof sample, "%s_count", name);
    put_sample(p, sample, NULL, (double)total);
}

static void put_finishes(const page *p, const ln_model_metrics *metrics) {
    static const char *const reasons[LN_METRICS_FINISHES] = {
        [LINNET_FINISH_STOP] = "stop",       [LINNET_FINISH_LENGTH] = "length",
        [LINNET_FINISH_CANCELLED] = "abort", [LINNET_FINISH_ERROR] = "error",
        [LINNET_FINISH_TIMEOUT] = "timeout",
    };
    char label[48];
    for (int i = 0; i < LN_METRICS_FINISHES; i++) {
        if (reasons[i] == NULL)
            continue;
        snprintf(label, sizeof label, "finished_reason=\"%s\"", reasons[i]);
        put_sample(p, "request_success_total", label, (double)metrics->n_finished[i]);
    }
}

static void put_prompt_tokens(const page *p, const ln_model_metrics *metrics) {
    put_sample(p, "prompt_tokens_total", NULL, (double)metrics->n_prompt_tokens);
}

static void put_output_tokens(const page *p, const ln_model_metrics *metrics) {
    put_sample(p, "generation_tokens_total", NULL, (double)metrics->n_output_tokens);
}

static void put_first_token(const page *p, const ln_model_metrics *metrics) {
    put_histogram(p, "time_to_first_token_seconds", &metrics->first_token, first_token_bounds);
}

static void put_token(const page *p, const ln_model_metrics *metrics) {
    put_histogram(p, "time_per_output_token_seconds", &metrics->token, token_bounds);
}

static void put_request(const page *p, const ln_model_metrics *metrics) {
    put_histogram(p, "e2e_request_latency_seconds", &metrics->request, request_bounds);
}

/* Of models, each with its name. */
static const struct model_metric {
    const char *name, *type, *help;
    void (*put)(const page *p, const ln_model_metrics *metrics);
} model_metrics[] = {
    {"prompt_tokens_total", "counter", "Tokens of prompts.", put_prompt_tokens},
    {"generation_tokens_total", "counter", "Tokens of output.", put_output_tokens},
    {"request_success_total", "counter", "Outputs that ended, by reason.", put_finishes},
    {"time_to_first_token_seconds", "histogram", "From the request to its first token.",
     put_first_token},
    {"time_per_output_token_seconds", "histogram", "From a token to the next.", put_token},
    {"e2e_request_latency_seconds", "histogram", "From the request to its last token.",
     put_request},
};

static void put_models(const page *p, const ln_metrics_now *now) {
    for (size_t i = 0; i < sizeof model_metrics / sizeof *model_metrics; i++) {
        const struct model_metric *metric = &model_metrics[i];
        put_type(p, metric->name, metric->type, metric->help);
        for (size_t j = 0; j < now->n_models; j++) {
            const page own = {p->out, p->prefix, now->models[j].name};
            metric->put(&own, now->models[j].counts);
        }
    }
}

static void put_responses(const page *p, const ln_metrics *metrics) {
    char label[32];
    put_type(p, "http_responses_total", "counter", "Responses, by the class of their status.");
    for (int i = 1; i < LN_METRICS_STATUSES; i++) {
        snprintf(label, sizeof label, "status=\"%dxx\"", i);
        put_sample(p, "http_responses_total", label, (double)metrics->n_responses[i]);
    }
}

static double count_running(const linnet_engine_stats *stats) {
    return (double)stats->n_running;
}
static double count_waiting(const linnet_engine_stats *stats) {
    return (double)stats->n_waiting;
}
static double count_swapped(const linnet_engine_stats *stats) {
    return (double)stats->n_swapped;
}
static double measure_usage(const linnet_engine_stats *stats) {
    return (double)stats->n_kv_used / (stats->n_kv_blocks > 0 ? (double)stats->n_kv_blocks : 1);
}
static double count_queries(const linnet_engine_stats *stats) {
    return (double)stats->n_prefix_query_tokens;
}
static double count_hits(const linnet_engine_stats *stats) {
    return (double)stats->n_prefix_hit_tokens;
}
static double count_preemptions(const linnet_engine_stats *stats) {
    return (double)(stats->n_swap_preemptions + stats->n_recompute_preemptions);
}
static double count_steps(const linnet_engine_stats *stats) {
    return (double)stats->n_steps;
}

/* Of engines, each with the name of its model. */
static const struct engine_metric {
    const char *name, *type, *help;
    double (*value)(const linnet_engine_stats *stats);
} engine_metrics[] = {
    {"num_requests_running", "gauge", "Requests in the engine's steps.", count_running},
    {"num_requests_waiting", "gauge", "Requests that wait for the engine.", count_waiting},
    {"num_requests_swapped", "gauge", "Requests in the swap space.", count_swapped},
    {"kv_cache_usage_perc", "gauge", "Share of KV blocks in use; 1 is all.", measure_usage},
    {"prefix_cache_queries_total", "counter", "Tokens looked up in the prefix cache.",
     count_queries},
    {"prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.", count_hits},
    {"num_preemptions_total", "counter", "Preemptions, by swap or to recompute.",
     count_preemptions},
    {"engine_steps_total", "counter", "Forward passes.", count_steps},
};

static void put_engines(const page *p, const ln_metrics_now *now) {
    for (size_t i = 0; i < sizeof engine_metrics / sizeof *engine_metrics; i++) {
        const struct engine_metric *metric = &engine_metrics[i];
        put_type(p, metric->name, metric->type, metric->help);
        for (size_t j = 0; j < now->n_models; j++) {
            const page own = {p->out, p->prefix, now->models[j].name};
            if (now->models[j].is_loaded)
                put_sample(&own, metric->name, NULL, metric->value(&now->models[j].stats));
        }
    }
    put_type(p, "engine_hangs", "gauge", "1 while the engine has requests and makes no progress.");
    for (size_t j = 0; j < now->n_models; j++) {
        const page own = {p->out, p->prefix, now->models[j].name};
        if (now->models[j].is_loaded)
            put_sample(&own, "engine_hangs", NULL, now->models[j].hangs);
    }
}

/* The loaded model, if there is only one; else NULL. */
static const ln_metrics_model *find_only(const ln_metrics_now *now) {
    const ln_metrics_model *only = NULL;
    for (size_t i = 0; i < now->n_models; i++) {
        if (now->models[i].is_loaded && only != NULL)
            return NULL;
        only = now->models[i].is_loaded ? &now->models[i] : only;
    }
    return only;
}

/* What never changes but by its labels, as pickers of replicas read it. */
static void put_infos(const page *p, const ln_metrics_model *model) {
    put_type(p, "cache_config_info", "gauge", "The KV cache: tokens of a block, and blocks.");
    ln_strbuf_printf(p->out, "%s:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%zu\"} 1\n",
                     p->prefix, LN_KV_BLOCK_TOKENS, model->stats.n_kv_blocks);
    if (model->max_adapters == 0)
        return;
    put_type(p, "lora_requests_info", "gauge", "Adapters that requests have; when that was so.");
    ln_strbuf_printf(p->out, "%s:lora_requests_info{max_lora=\"%zu\",running_lora_adapters=\"",
                     p->prefix, model->max_adapters);
    put_label(p->out, model->used_adapters);
    ln_strbuf_printf(p->out, "\",waiting_lora_adapters=\"\"} %lld\n", (long long)time(NULL));
}

static void put_kv_events(const page *p, const ln_kv_publisher_counts *counts) {
    put_one(p, "kv_event_batches_total", "counter", "Batches of KV events that were published.",
            (double)counts->n_batches);
    put_one(p, "kv_events_total", "counter", "KV events in them.", (double)counts->n_events);
    put_one(p, "kv_events_dropped_total", "counter",
            "KV events that were dropped because too many waited.", (double)counts->n_dropped);
    put_one(p, "kv_event_subscriber_stalls_total", "counter",
            "Batches at which a slow subscriber began to miss some.", (double)counts->n_stalls);
}

void ln_metrics_render(const ln_metrics *metrics, const ln_metrics_now *now, ln_strbuf *out) {
    const page whole = {out, now->prefix, now->model}, *p = &whole;
    const ln_metrics_model *only = find_only(now);
    put_one(p, "num_requests_open", "gauge", "Sequences admitted and not over.",
            (double)now->n_open);
    put_one(p, "http_connections", "gauge", "Open connections.", (double)now->n_connections);
    put_engines(p, now);
    if (only != NULL) /* these have no label for the model */
        put_infos(p, only);
    put_models(p, now);
    put_one(p, "requests_refused_total", "counter", "Requests refused with 429.",
            (double)metrics->n_refused);
    put_one(p, "requests_cut_total", "counter", "Exchanges whose client went before their end.",
            (double)metrics->n_cut);
    put_one(p, "request_fields_ignored_total", "counter",
            "Fields of requests that nobody knows and that were ignored.",
            (double)metrics->n_ignored_fields);
    put_one(p, "log_lines_dropped_total", "counter", "Lines of the log that nobody read in time.",
            (double)now->n_dropped_lines);
    if (now->has_kv_events)
        put_kv_events(p, &now->kv_events);
    put_responses(p, metrics);
}
