/* linnet bench: how fast a model runs. */
#include <argp.h>
#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench_serve.h"
#include "cli/bench_shape.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/engine.h"

enum {
    KEY_SHAPE = LN_KEYS_COMMAND,
    KEY_TYPE,
    KEY_WRITE,
    KEY_PREFILL,
    KEY_DECODE,
    KEY_SEQS,
    KEY_RUNS,
    KEY_PROFILE,
    KEY_JSON,
    KEY_SERVE_TRACE,
    KEY_REQUESTS,
    KEY_CONCURRENCY,
    KEY_RATE,
    KEY_SHARED
};
enum {
    MAX_RUNS = 100,
    MAX_TOKENS = 1 << 20,
    MAX_SEQS = 1024,
    MAX_REQUESTS = 100000,
    MAX_SERVED = 256
};

typedef struct bench_args {
    const char *model, *shape, *type, *write;
    size_t n_prefill, n_decode, n_seqs, n_runs;
    bool profile, json;
    bool serves;
    ln_bench_load load;
    linnet_engine_options engine;
} bench_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Instead of MODEL:", 1},
    {"shape", KEY_SHAPE, "NAME", 0,
     "Random weights in the shape of NAME: tinyllama-1.1b, llama-2-7b or llama-3-8b", 1},
    {"type", KEY_TYPE, "TYPE", 0,
     "With --shape: types as a file of that name has them, q4_0, q8_0, q4_k_m, f16, bf16 or f32 "
     "(q4_0)",
     1},
    {"write", KEY_WRITE, "FILE", 0, "With --shape: keep the checkpoint as FILE, in GGUF", 1},
    {NULL, 0, NULL, 0, "Measurement:", 2},
    {"prefill", KEY_PREFILL, "N", 0, "Tokens of the prompt, on an empty cache (512)", 2},
    {"decode", KEY_DECODE, "N", 0, "Tokens to generate, from an empty context (64)", 2},
    {"seqs", KEY_SEQS, "N", 0, "Sequences that decode together (1)", 2},
    {"runs", KEY_RUNS, "N", 0, "Runs, of which the median counts, after a warm-up (3)", 2},
    {"profile", KEY_PROFILE, NULL, 0, "Times of the kinds of operation, too", 2},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 2},
    {NULL, 0, NULL, 0, "With --serve-trace, of --prefill and --decode tokens each:", 3},
    {"serve-trace", KEY_SERVE_TRACE, NULL, 0,
     "Measure many requests at once: throughput, time to the first token and per token", 3},
    {"requests", KEY_REQUESTS, "N", 0, "Requests (32)", 3},
    {"concurrency", KEY_CONCURRENCY, "N", 0,
     "Requests that are open at any time (all; closed load)", 3},
    {"rate", KEY_RATE, "R", 0, "Requests that come in a second, at random times (open load)", 3},
    {"shared", KEY_SHARED, "N", 0, "Tokens that all prompts begin with (0)", 3},
    {0}};

static void check_end(const struct argp_state *state, const bench_args *args) {
    if (!args->model == !args->shape)
        argp_error(state, args->model ? "MODEL and --shape are both given" : "MODEL is missing");
    if (!args->shape && (args->type || args->write))
        argp_error(state, "%s needs --shape", args->type ? "--type" : "--write");
    const ln_bench_load *load = &args->load;
    if (!args->serves &&
        (load->n_requests > 0 || load->concurrency > 0 || load->rate > 0 || load->n_shared > 0))
        argp_error(state, "--requests, --concurrency, --rate and --shared need --serve-trace");
    if (load->concurrency > 0 && load->rate > 0)
        argp_error(state, "--concurrency and --rate are both given");
    if (load->n_shared > args->n_prefill)
        argp_error(state, "--shared is more than --prefill");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    bench_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->engine; break;
    case KEY_SHAPE: args->shape = arg; break;
    case KEY_TYPE: args->type = arg; break;
    case KEY_WRITE: args->write = arg; break;
    case KEY_PREFILL:
        args->n_prefill = ln_cli_parse_count(state, "--prefill", arg, 1, MAX_TOKENS);
        break;
    case KEY_DECODE:
        args->n_decode = ln_cli_parse_count(state, "--decode", arg, 1, MAX_TOKENS);
        break;
    case KEY_SEQS: args->n_seqs = ln_cli_parse_count(state, "--seqs", arg, 1, MAX_SEQS); break;
    case KEY_RUNS: args->n_runs = ln_cli_parse_count(state, "--runs", arg, 1, MAX_RUNS); break;
    case KEY_SERVE_TRACE: args->serves = true; break;
    case KEY_REQUESTS:
        args->load.n_requests = ln_cli_parse_count(state, "--requests", arg, 1, MAX_REQUESTS);
        break;
    case KEY_CONCURRENCY:
        args->load.concurrency = ln_cli_parse_count(state, "--concurrency", arg, 1, MAX_SEQS);
        break;
    case KEY_RATE: args->load.rate = ln_cli_parse_number(state, "--rate", arg, 1e-3, 1e6); break;
    case KEY_SHARED:
        args->load.n_shared = ln_cli_parse_count(state, "--shared", arg, 0, MAX_TOKENS);
        break;
    case KEY_PROFILE: args->profile = true; break;
    case KEY_JSON: args->json = true; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END: check_end(state, args); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&ln_cli_engine_argp, 0, "Engine, the same for every command:", 4}, {0}};

static const struct argp bench_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[MODEL]",
    .doc = "Measures prefill (a prompt on an empty cache) and decode (one token after another from "
           "an empty context) in tokens per second: one warm-up, then the median of the runs; or "
           "a load of requests.",
    .children = children,
};

/* ---- measuring ---------------------------------------------------------------------------- */

typedef struct measurement {
    double prefill, decode; /* tokens per second */
    ln_profile prefill_profile, decode_profile;
    double prefill_s, decode_s; /* seconds of the runs that the profiles saw */
} measurement;

static linnet_status submit(linnet_engine *engine, size_t n_prompt, size_t n_output,
                            linnet_request **request, linnet_error *err) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(engine->model, &info);
    int32_t *ids = calloc(n_prompt, sizeof *ids);
    if (ids == NULL) {
        snprintf(err->message, sizeof err->message, "out of memory");
        return LINNET_ERR_NOMEM;
    }
    for (size_t i = 0; i < n_prompt; i++)
        ids[i] = (int32_t)((i * 7919 + 1) % (size_t)info.n_vocab);
    linnet_request_options options_of;
    linnet_request_options_init(&options_of);
    options_of.prompt_ids = ids;
    options_of.n_prompt_ids = n_prompt;
    options_of.max_tokens = n_output;
    options_of.ignore_eos = true;
    options_of.sampling.temperature = 0;
    linnet_status status = linnet_request_submit(engine, &options_of, request, err);
    free(ids);
    return status;
}

/* Receives all events of the requests; *first is when the last of them had its first token. */
static linnet_status receive(linnet_request **requests, size_t n, uint64_t *first, uint64_t *last,
                             linnet_error *err) {
    *first = *last = 0;
    for (size_t i = 0; i < n; i++) {
        linnet_event event = {0};
        bool begun = false;
        while (event.finish == LINNET_FINISH_NONE) {
            linnet_status status = linnet_request_next(requests[i], -1, &event, err);
            if (status != LINNET_OK)
                return status;
            if (event.token < 0)
                continue;
            *last = ln_clock_ns();
            if (!begun && i == 0)
                *first = *last;
            begun = true;
        }
        if (event.finish == LINNET_FINISH_ERROR) {
            snprintf(err->message, sizeof err->message, "%s", event.error);
            return err->status = LINNET_ERR_COMPUTE;
        }
    }
    return LINNET_OK;
}

/* One run: n_seqs prompts of n_prompt tokens, n_output tokens after each. *seconds is the time to
 * the first token when n_output is 1, else from the first to the last. */
static linnet_status run_once(linnet_engine *engine, size_t n_seqs, size_t n_prompt,
                              size_t n_output, double *seconds, linnet_error *err) {
    static linnet_request *requests[MAX_SEQS];
    size_t n = 0;
    uint64_t begin = ln_clock_ns(), first = 0, last = 0;
    linnet_status status = LINNET_OK;
    for (; n < n_seqs && status == LINNET_OK; n++)
        status = submit(engine, n_prompt, n_output, &requests[n], err);
    if (status == LINNET_OK)
        status = receive(requests, n, &first, &last, err);
    for (size_t i = 0; i < n; i++)
        linnet_request_close(requests[i]);
    *seconds = (double)(n_output == 1 ? last - begin : last - first) * 1e-9;
    return status;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the runs, after a warm-up. The profile sees the runs that count. */
static linnet_status measure(linnet_engine *engine, const bench_args *args, bool decodes,
                             ln_profile *profile, double *median, double *total,
                             linnet_error *err) {
    double seconds[MAX_RUNS];
    *total = 0;
    for (size_t i = 0; i <= args->n_runs; i++) {
        double *slot = &seconds[i > 0 ? i - 1 : 0];
        engine->backend->profile = i > 0 && args->profile ? profile : NULL;
        linnet_status status =
            decodes ? run_once(engine, args->n_seqs, 1, args->n_decode + 1, slot, err)
                    : run_once(engine, 1, args->n_prefill, 1, slot, err);
        engine->backend->profile = NULL;
        if (status != LINNET_OK)
            return status;
        *total += i > 0 ? *slot : 0;
    }
    qsort(seconds, args->n_runs, sizeof *seconds, compare);
    *median = seconds[args->n_runs / 2];
    return LINNET_OK;
}

static linnet_status measure_all(linnet_engine *engine, const bench_args *args, measurement *m,
                                 linnet_error *err) {
    double median;
    linnet_status status =
        measure(engine, args, false, &m->prefill_profile, &median, &m->prefill_s, err);
    if (status != LINNET_OK)
        return status;
    m->prefill = (double)args->n_prefill / median;
    status = measure(engine, args, true, &m->decode_profile, &median, &m->decode_s, err);
    m->decode = (double)(args->n_decode * args->n_seqs) / median;
    return status;
}

/* ---- printing ----------------------------------------------------------------------------- */

static const char *const op_names[LN_OP_COUNT] = {
    [LN_OP_EMBED] = "embed",   [LN_OP_NORM] = "norm",     [LN_OP_LINEAR] = "linear",
    [LN_OP_QKV] = "qkv",       [LN_OP_LATENT] = "latent", [LN_OP_ATTENTION] = "attention",
    [LN_OP_ROUTE] = "route",   [LN_OP_GROUP] = "group",   [LN_OP_COMBINE] = "combine",
    [LN_OP_GATHER] = "gather", [LN_OP_COPY] = "copy",
};

/* {"linear": percent, ..., "sum": percent} of the wall time. */
static json_t *profile_json(const ln_profile *profile, double seconds) {
    json_t *object = json_object();
    double sum = 0;
    for (size_t i = 0; i < LN_OP_COUNT; i++) {
        double percent = (double)profile->ns[i] * 1e-7 / seconds;
        sum += percent;
        if (profile->n_ops[i] > 0)
            json_object_set_new(object, op_names[i], json_real(percent));
    }
    json_object_set_new(object, "sum", json_real(sum));
    return object;
}

static void print_profile(const char *what, const ln_profile *profile, double seconds) {
    double sum = 0;
    printf("%s, percent of the time:", what);
    for (size_t i = 0; i < LN_OP_COUNT; i++) {
        double percent = (double)profile->ns[i] * 1e-7 / seconds;
        sum += percent;
        if (profile->n_ops[i] > 0)
            printf(" %s %.1f", op_names[i], percent);
    }
    printf(", sum %.1f\n", sum);
}

static int print(const bench_args *args, const linnet_engine *engine, const measurement *m) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_get_memory(engine, &plan);
    size_t weights = engine->weights.memory_bytes + plan.mapped_bytes;
    if (!args->json) {
        printf("prefill %zu: %.2f tokens/s\ndecode %zu x %zu: %.2f tokens/s (%s of weights, %zu "
               "threads)\n",
               args->n_prefill, m->prefill, args->n_seqs, args->n_decode, m->decode,
               ln_cli_size_text(weights).text, plan.n_threads);
        if (args->profile) {
            print_profile("prefill", &m->prefill_profile, m->prefill_s);
            print_profile("decode", &m->decode_profile, m->decode_s);
        }
        return 0;
    }
    json_t *object = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "threads", (json_int_t)plan.n_threads, "weight_bytes",
        (json_int_t)weights, "prefill_tokens", (json_int_t)args->n_prefill, "decode_tokens",
        (json_int_t)args->n_decode, "seqs", (json_int_t)args->n_seqs, "prefill_tokens_per_s",
        m->prefill, "decode_tokens_per_s", m->decode);
    if (args->profile && object) {
        json_object_set_new(object, "prefill_profile",
                            profile_json(&m->prefill_profile, m->prefill_s));
        json_object_set_new(object, "decode_profile",
                            profile_json(&m->decode_profile, m->decode_s));
    }
    return ln_cli_print_json(stdout, object, false);
}

/* ---- the command -------------------------------------------------------------------------- */

/* The load in full, and an engine that holds as much of it as runs at once. */
static void fill_load(const bench_args *args, ln_bench_load *load, linnet_engine_options *engine) {
    linnet_request_options defaults;
    linnet_request_options_init(&defaults);
    *load = args->load;
    load->n_requests = load->n_requests > 0 ? load->n_requests : 32;
    load->n_prompt = args->n_prefill;
    load->n_output = args->n_decode;
    load->sampling = defaults.sampling;
    load->sampling.temperature = 0;
    size_t most = load->concurrency > 0 ? load->concurrency : load->n_requests;
    if (engine->ctx_tokens == 0)
        engine->ctx_tokens = args->n_prefill + args->n_decode + 1;
    if (engine->max_seqs == 0)
        engine->max_seqs = most < MAX_SERVED ? most : MAX_SERVED;
}

static int bench_serve(const bench_args *args, const char *path) {
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    linnet_engine_options engine_options = args->engine;
    ln_bench_load load;
    fill_load(args, &load, &engine_options);
    int status;
    if (linnet_model_open(path, &model, &err) != LINNET_OK ||
        linnet_engine_create(model, &engine_options, &engine, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = ln_cli_bench_serve(model, engine, &load, args->json);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return status;
}

static int bench(const bench_args *args, const char *path) {
    if (args->serves)
        return bench_serve(args, path);
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    measurement m = {0};
    linnet_engine_options engine_options = args->engine;
    size_t ctx = args->n_prefill > args->n_decode ? args->n_prefill : args->n_decode;
    if (engine_options.ctx_tokens == 0)
        engine_options.ctx_tokens = ctx + 2;
    if (engine_options.max_seqs == 0)
        engine_options.max_seqs = args->n_seqs;
    int status = 0;
    if (linnet_model_open(path, &model, &err) != LINNET_OK ||
        linnet_engine_create(model, &engine_options, &engine, &err) != LINNET_OK ||
        measure_all(engine, args, &m, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = print(args, engine, &m);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return status;
}

/* Writes the checkpoint of --shape, runs it, and removes it unless --write keeps it. */
static int bench_shape(const bench_args *args) {
    char path[] = "/tmp/linnet-bench-XXXXXX";
    linnet_error err = {0};
    int fd = args->write ? -1 : mkstemp(path);
    if (!args->write && fd < 0)
        return ln_cli_fail("cannot make a file in /tmp");
    if (fd >= 0)
        close(fd);
    const char *file = args->write ? args->write : path;
    int status = 0;
    if (ln_cli_write_shape(args->shape, args->type ? args->type : "q4_0", file, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = bench(args, file);
    if (!args->write)
        unlink(path);
    return status;
}

int ln_cli_bench(int argc, char **argv) {
    bench_args args = {.n_prefill = 512, .n_decode = 64, .n_seqs = 1, .n_runs = 3};
    linnet_engine_options_init(&args.engine);
    args.engine.prefix_cache = false; /* each run reads its prompt */
    if (argp_parse(&bench_argp, argc, argv, 0, NULL, &args) != 0)
        return LN_EXIT_USAGE;
    return args.shape ? bench_shape(&args) : bench(&args, args.model);
}
