/* linnet bench: how fast a model runs. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/bench_serve.h"
#include "cli/bench/bench_shape.h"
#include "cli/bench/explain.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/engine.h"

enum {
    KEY_SHAPE = LN_KEYS_COMMAND,
    KEY_TYPE,
    KEY_WRITE,
    KEY_PREFILL,
    KEY_DECODE,
    KEY_CONTEXT,
    KEY_SEQS,
    KEY_RUNS,
    KEY_PROFILE,
    KEY_EXPLAIN,
    KEY_JSON,
    KEY_SERVE_TRACE,
    KEY_REQUESTS,
    KEY_CONCURRENCY,
    KEY_RATE,
    KEY_SHARED,
    KEY_PLOT
};
enum {
    MAX_RUNS = 100,
    MAX_TOKENS = 1 << 20,
    MAX_SEQS = 1024,
    MAX_REQUESTS = 100000,
    MAX_SERVED = 256
};

typedef struct bench_args {
    const char *model, *shape, *type, *write, *plot;
    size_t n_prefill, n_decode, n_context, n_seqs, n_runs;
    bool profile, explains, json;
    bool serves;
    const char *of_runs; /* the last option given that --serve-trace has no use for, or NULL */
    ln_bench_load load;
    linnet_engine_options engine;
    linnet_sampling sampling;
} bench_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Instead of MODEL:", 1},
    {"shape", KEY_SHAPE, "NAME", 0,
     "Random weights in the shape of NAME: " LN_CLI_SHAPE_NAMES
     "; those of few layers are as Mixtral 8x7B, Qwen3 30B-A3B and gpt-oss-20b have them",
     1},
    {"type", KEY_TYPE, "TYPE", 0,
     "With --shape: types as a file of that name has them, " LN_CLI_MIXTURE_NAMES " (q4_0)", 1},
    {"write", KEY_WRITE, "FILE", 0, "With --shape: keep the checkpoint as FILE, in GGUF", 1},
    {NULL, 0, NULL, 0, "Measurement:", 2},
    {"prefill", KEY_PREFILL, "N", 0, "Tokens of the prompt, on an empty cache (512)", 2},
    {"decode", KEY_DECODE, "N", 0, "Tokens to generate (64)", 2},
    {"context", KEY_CONTEXT, "N", 0, "Tokens of context before those that decode (0)", 2},
    {"seqs", KEY_SEQS, "N", 0, "Sequences that decode together (1)", 2},
    {"runs", KEY_RUNS, "N", 0, "Runs, of which the median counts, after a warm-up (3)", 2},
    {"profile", KEY_PROFILE, NULL, 0, "Times of the kinds of operation, too", 2},
    {"explain", KEY_EXPLAIN, NULL, 0,
     "Measure nothing: print which kernels serve a step of prefill and one of decode", 2},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 2},
    {"plot", KEY_PLOT, "FILE", 0, "Draw the speeds beside this machine's limits as FILE, an SVG",
     2},
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
        argp_error(state, args->model
                              ? "MODEL and --shape are both given"
                              : "MODEL is missing; --shape NAME makes one of random weights");
    if (!args->shape && (args->type || args->write))
        argp_error(state, "%s needs --shape", args->type ? "--type" : "--write");
    const ln_bench_load *load = &args->load;
    if (!args->serves &&
        (load->n_requests > 0 || load->concurrency > 0 || load->rate > 0 || load->n_shared > 0))
        argp_error(state, "--requests, --concurrency, --rate and --shared need --serve-trace");
    if (args->explains && args->plot)
        argp_error(state, "--explain measures nothing to plot");
    if (args->serves && args->of_runs)
        argp_error(state, "%s does not combine with --serve-trace", args->of_runs);
    if (load->concurrency > 0 && load->rate > 0)
        argp_error(state, "--concurrency and --rate are both given");
    if (load->n_shared > args->n_prefill)
        argp_error(state, "--shared is more than --prefill");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    bench_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->sampling;
        state->child_inputs[1] = &args->sampling;
        state->child_inputs[2] = &args->engine;
        state->child_inputs[3] = &args->model;
        break;
    case KEY_SHAPE: args->shape = arg; break;
    case KEY_TYPE: args->type = arg; break;
    case KEY_WRITE: args->write = arg; break;
    case KEY_PREFILL:
        args->n_prefill = ln_cli_parse_count(state, "--prefill", arg, 1, MAX_TOKENS);
        break;
    case KEY_DECODE:
        args->n_decode = ln_cli_parse_count(state, "--decode", arg, 1, MAX_TOKENS);
        break;
    case KEY_CONTEXT:
        args->of_runs = "--context";
        args->n_context = ln_cli_parse_count(state, "--context", arg, 0, MAX_TOKENS);
        break;
    case KEY_SEQS:
        args->of_runs = "--seqs";
        args->n_seqs = ln_cli_parse_count(state, "--seqs", arg, 1, MAX_SEQS);
        break;
    case KEY_RUNS:
        args->of_runs = "--runs";
        args->n_runs = ln_cli_parse_count(state, "--runs", arg, 1, MAX_RUNS);
        break;
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
    case KEY_PROFILE:
        args->of_runs = "--profile";
        args->profile = true;
        break;
    case KEY_EXPLAIN:
        args->of_runs = "--explain";
        args->explains = true;
        break;
    case KEY_JSON: args->json = true; break;
    case KEY_PLOT:
        args->of_runs = "--plot";
        args->plot = arg;
        break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END: check_end(state, args); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Behind the options of sampling, which begin with what run does. */
static error_t begin_greedy(int key, char *arg, struct argp_state *state) {
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    linnet_sampling *sampling = state->input;
    sampling->temperature = 0;
    return 0;
}

static const struct argp greedy_argp = {.parser = begin_greedy};
static const struct argp_child children[] = {
    {&ln_cli_sampling_argp, 0, "Sampling, with --temp (without: the most likely token):", 4},
    {&greedy_argp, 0, NULL, 0},
    {&ln_cli_engine_argp, 0, LN_CLI_ENGINE_HEADER, 5},
    {&ln_cli_model_argp, 0, NULL, 1},
    {0}};

static const struct argp bench_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[MODEL]",
    .doc =
        "Measures prefill (a prompt on an empty cache) and decode (one token after another from "
        "an empty context or after --context tokens) in tokens per second: one warm-up, then the "
        "median of the runs; or a load of requests.\vThe shares behind a speed compare it with "
        "this machine, measured right after it: how much of the time the vector units would take "
        "for the products of the matrices alone, and memory for reading their weights once a "
        "step. The greater of the two says what holds the speed back.",
    .children = children,
};

/* ---- measuring ---------------------------------------------------------------------------- */

/* n_seqs prompts of n_prompt tokens, n_output tokens after each. */
typedef struct bench_run {
    size_t n_seqs, n_prompt, n_output;
    size_t *n_submitted; /* so far, by all runs whose prompts are new */
    size_t first;        /* > 0: prompts with the numbers from here on, whoever had them before */
    const linnet_sampling *sampling;
    size_t n_samples; /* of each prompt, which decode together from its end on; 0: 1 */
} bench_run;

/* `number` makes the prompt unlike those of other numbers, so that no cache of prefixes knows it.
 */
static linnet_status submit(linnet_engine *engine, const bench_run *run, size_t number,
                            linnet_request **request, linnet_error *err) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(engine->model, &info);
    int32_t *ids = calloc(run->n_prompt, sizeof *ids);
    if (ids == NULL) {
        snprintf(err->message, sizeof err->message, "out of memory");
        return LINNET_ERR_NOMEM;
    }
    for (size_t i = 0; i < run->n_prompt; i++)
        ids[i] = (int32_t)((i * 7919 + number) % (size_t)info.n_vocab);
    linnet_request_options options_of;
    linnet_request_options_init(&options_of);
    options_of.prompt_ids = ids;
    options_of.n_prompt_ids = run->n_prompt;
    options_of.max_tokens = run->n_output;
    options_of.ignore_eos = true;
    options_of.sampling = *run->sampling;
    options_of.n = (uint32_t)run->n_samples;
    linnet_status status = linnet_request_submit(engine, &options_of, request, err);
    free(ids);
    return status;
}

/* What a run took: all of it, and from the first token of any sequence to the last of all, by the
 * times that the engine gave them, with the tokens that came after that first step. */
typedef struct run_times {
    double seconds, decode_seconds;
    size_t n_decoded;
} run_times;

/* Receives all events of the requests, which were submitted at submit_ns[n]. Those whose first
 * token came less than half a mean step after the first one of all had it in the same step. */
static linnet_status receive(linnet_request **requests, const uint64_t *submit_ns, size_t n,
                             size_t n_output, run_times *times, linnet_error *err) {
    static uint64_t firsts_ns[MAX_SEQS];
    uint64_t first_ns = UINT64_MAX, last_ns = 0;
    for (size_t i = 0; i < n; i++) {
        linnet_event event = {0};
        while (event.finish == LINNET_FINISH_NONE) {
            linnet_status status = linnet_request_next(requests[i], -1, &event, err);
            if (status != LINNET_OK)
                return status;
        }
        if (event.finish == LINNET_FINISH_ERROR) {
            snprintf(err->message, sizeof err->message, "%s", event.error);
            return err->status = LINNET_ERR_COMPUTE;
        }
        uint64_t last = submit_ns[i] + event.last_token_ns;
        firsts_ns[i] = submit_ns[i] + event.first_token_ns;
        first_ns = firsts_ns[i] < first_ns ? firsts_ns[i] : first_ns;
        last_ns = last > last_ns ? last : last_ns;
    }
    times->decode_seconds = (double)(last_ns - first_ns) * 1e-9;
    times->n_decoded = n * n_output;
    for (size_t i = 0; i < n; i++)
        times->n_decoded -= firsts_ns[i] - first_ns < (last_ns - first_ns) / n_output / 2;
    return LINNET_OK;
}

static linnet_status run_once(linnet_engine *engine, const bench_run *run, ln_profile *profile,
                              run_times *times, linnet_error *err) {
    static linnet_request *requests[MAX_SEQS];
    static uint64_t submit_ns[MAX_SEQS];
    size_t n = 0;
    linnet_status status = LINNET_OK;
    engine->backend->profile = profile;
    uint64_t begin = ln_clock_ns();
    for (; n < run->n_seqs && status == LINNET_OK; n++) {
        submit_ns[n] = ln_clock_ns();
        status = submit(engine, run, run->first > 0 ? run->first + n : ++*run->n_submitted,
                        &requests[n], err);
    }
    if (status == LINNET_OK)
        status = receive(requests, submit_ns, n, run->n_output, times, err);
    times->seconds = (double)(ln_clock_ns() - begin) * 1e-9;
    engine->backend->profile = NULL;
    for (size_t i = 0; i < n; i++)
        linnet_request_close(requests[i]);
    return status;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the runs, after a warm-up, which has a profile where they have one, as a device may
 * run other kernels for it. They have where somebody asks for it: on a device it costs time. Of
 * decode it sees the end of the prompts, too: the rest of them is in the prefix cache. */
static linnet_status measure(linnet_engine *engine, const bench_args *args, bench_run *run,
                             ln_bench_phase *phase, linnet_error *err) {
    double rates[MAX_RUNS];
    run_times times;
    ln_profile of_warm_up = {0};
    bool decodes = run->n_output > 1;
    bool profiles = args->profile || engine->backend->vtable->measure != NULL;
    if (decodes) { /* fills the prefix cache */
        bench_run prompts = {run->n_seqs, run->n_prompt, 1, run->n_submitted, 0, run->sampling, 1};
        run->first = *run->n_submitted + 1;
        LN_TRY(run_once(engine, &prompts, NULL, &times, err));
    }
    for (size_t i = 0; i <= args->n_runs; i++) {
        ln_profile *profile = i > 0 ? &phase->profile : &of_warm_up;
        LN_TRY(run_once(engine, run, profiles ? profile : NULL, &times, err));
        if (i == 0)
            continue;
        rates[i - 1] = decodes ? (double)times.n_decoded / times.decode_seconds
                               : (double)run->n_prompt / times.seconds;
        phase->seconds += times.seconds;
    }
    qsort(rates, args->n_runs, sizeof *rates, compare);
    phase->tokens_per_s = rates[(args->n_runs - 1) / 2];
    return LINNET_OK;
}

/* Prints how a step of `run` is served: the first one of all its sequences that decodes, or not. */
static linnet_status explain_step(linnet_engine *engine, bench_run run, bool decodes,
                                  linnet_error *err) {
    ln_explained_step step;
    run_times times;
    size_t n_seqs = run.n_samples > 0 ? run.n_samples : run.n_seqs;
    ln_cli_explain_next(&step, engine->backend, n_seqs, decodes);
    linnet_status status = run_once(engine, &run, NULL, &times, err);
    if (status == LINNET_OK && !ln_cli_explain_print(&step))
        status = ln_fail(err, LINNET_ERR_NOMEM, "no step of %zu sequences was seen", n_seqs);
    ln_cli_explain_forget(&step, engine->backend);
    return status;
}

/* --explain: of a prompt, and of tokens behind contexts: samples of one prompt, as requests of
 * their own might end before the last one of them is submitted. */
static linnet_status explain(linnet_engine *engine, const bench_args *args, linnet_error *err) {
    size_t n = 0;
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_get_memory(engine, &plan);
    printf("drafts: %s\n", ln_cli_drafts_text(&plan).text);
    bench_run prompt = {1, args->n_prefill, 1, &n, 0, &args->sampling, 1};
    bench_run decode = {1, args->n_context + 1, 3, &n, 0, &args->sampling, args->n_seqs};
    LN_TRY(explain_step(engine, prompt, args->n_prefill == 1, err));
    return explain_step(engine, decode, true, err);
}

/* The time that vector units and memory need at least, of the time that was taken. */
static void compare_with(const ln_ceilings *c, ln_bench_phase *phase) {
    const ln_profile *p = &phase->profile;
    if (c->read_bytes <= 0 || c->int8_products <= 0 || c->float_products <= 0)
        return;
    phase->of_units = ((double)p->int8_products / c->int8_products +
                       (double)p->float_products / c->float_products) /
                      phase->seconds;
    phase->of_memory = (double)p->weight_bytes / c->read_bytes / phase->seconds;
}

static linnet_status measure_all(linnet_engine *engine, const bench_args *args,
                                 ln_bench_measurement *m, linnet_error *err) {
    size_t n_submitted = 0;
    bench_run prefill = {1, args->n_prefill, 1, &n_submitted, 0, &args->sampling, 1};
    /* Whole blocks of the context lie in the prefix cache: after a multiple of 16, no step but
     * those of decode. */
    bench_run decode = {.n_seqs = args->n_seqs,
                        .n_prompt = args->n_context + 1,
                        .n_output = args->n_decode + 1,
                        .n_submitted = &n_submitted,
                        .sampling = &args->sampling};
    linnet_status status = measure(engine, args, &prefill, &m->prefill, err);
    if (status == LINNET_OK)
        status = measure(engine, args, &decode, &m->decode, err);
    if (status == LINNET_OK && engine->backend->vtable->measure != NULL)
        status = engine->backend->vtable->measure(engine->backend, &m->ceilings, err);
    compare_with(&m->ceilings, &m->prefill);
    compare_with(&m->ceilings, &m->decode);
    return status;
}

/* ---- the command -------------------------------------------------------------------------- */

/* The load in full, and an engine that holds as much of it as runs at once. */
static void fill_load(const bench_args *args, ln_bench_load *load, linnet_engine_options *engine) {
    *load = args->load;
    load->n_requests = load->n_requests > 0 ? load->n_requests : 32;
    load->n_prompt = args->n_prefill;
    load->n_output = args->n_decode;
    load->sampling = args->sampling;
    size_t most = load->concurrency > 0 ? load->concurrency : load->n_requests;
    if (engine->ctx_tokens == 0)
        engine->ctx_tokens = args->n_prefill + args->n_decode + 1;
    if (engine->max_seqs == 0)
        engine->max_seqs = most < MAX_SERVED ? most : MAX_SERVED;
    engine->serves = true;
}

static int bench_serve(const bench_args *args, const char *path) {
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    linnet_engine_options engine_options = args->engine;
    ln_bench_load load;
    fill_load(args, &load, &engine_options);
    int status;
    if (ln_cli_open_decoder("bench", path, &model, &err) != LINNET_OK ||
        ln_cli_create_engine(model, &engine_options, false, &engine, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = ln_cli_bench_serve(model, engine, &load, args->json);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return status;
}

static int report(const bench_args *args, const linnet_engine *engine,
                  const ln_bench_measurement *m) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_get_memory(engine, &plan);
    const ln_bench_report what = {.model = args->model != NULL ? args->model : args->shape,
                                  .n_prefill = args->n_prefill,
                                  .n_decode = args->n_decode,
                                  .n_context = args->n_context,
                                  .n_seqs = args->n_seqs,
                                  .n_threads = plan.n_threads,
                                  .weight_bytes = engine->weights.memory_bytes + plan.mapped_bytes,
                                  .sampling = args->sampling,
                                  .profile = args->profile,
                                  .measured = m};
    int status = args->json ? ln_bench_print_json(&what) : ln_bench_print_text(&what);
    return status == 0 && args->plot != NULL ? ln_bench_plot(&what, args->plot) : status;
}

static int bench(const bench_args *args, const char *path) {
    if (args->serves)
        return bench_serve(args, path);
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    ln_bench_measurement m = {0};
    linnet_engine_options engine_options = args->engine;
    size_t longest = args->n_context + 1 + args->n_decode;
    size_t ctx = args->n_prefill > longest ? args->n_prefill : longest;
    if (engine_options.ctx_tokens == 0)
        engine_options.ctx_tokens = ctx + 2;
    if (engine_options.max_seqs == 0)
        engine_options.max_seqs = args->n_seqs;
    int status = 0;
    if (ln_cli_open_decoder("bench", path, &model, &err) != LINNET_OK ||
        ln_cli_create_engine(model, &engine_options, false, &engine, &err) != LINNET_OK ||
        (args->explains ? explain(engine, args, &err) : measure_all(engine, args, &m, &err)) !=
            LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = args->explains ? 0 : report(args, engine, &m);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return status;
}

/* A file without a name: whatever ends the program, nothing is left of it. `path` opens it. */
static int open_unnamed(const char *folder, char *path, size_t path_bytes) {
    snprintf(path, path_bytes, "%s/linnet-bench-XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0) {
        ln_cli_fail("cannot make a file in %s: %s", folder, strerror(errno));
        return -1;
    }
    unlink(path);
    snprintf(path, path_bytes, "/proc/self/fd/%d", fd);
    return fd;
}

/* Writes the checkpoint of --shape, which --write keeps, and runs it. */
static int bench_shape(const bench_args *args) {
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    const char *type = args->type ? args->type : "q4_0";
    char path[PATH_MAX];
    bool tells = ln_cli_is_terminal(STDERR_FILENO);
    linnet_error err = {0};
    int fd = args->write ? -1 : open_unnamed(folder, path, sizeof path);
    if (!args->write && fd < 0)
        return LN_EXIT_FAILURE;
    const char *file = args->write ? args->write : path;
    if (tells)
        fprintf(stderr, "making random weights");
    linnet_status written = ln_cli_write_shape(args->shape, type, file, &err);
    if (tells)
        fputs("\r\033[K", stderr);
    int status = 0;
    if (written == LINNET_ERR_IO && !args->write)
        status = ln_cli_fail("%s (a file in %s)", err.message, folder);
    else
        status = written == LINNET_OK ? bench(args, file) : ln_cli_fail_with(&err);
    if (fd >= 0)
        close(fd);
    return status;
}

int ln_cli_bench(int argc, char **argv) {
    bench_args args = {.n_prefill = 512, .n_decode = 64, .n_seqs = 1, .n_runs = 3};
    linnet_engine_options_init(&args.engine);
    if (ln_cli_parse(&bench_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    return args.shape ? bench_shape(&args) : bench(&args, args.model);
}
