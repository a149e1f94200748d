/* linnet eval: perplexity of a text, and the KL divergence between two checkpoints on it. */
#include <argp.h>
#include <jansson.h>
#include <linnet.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/convert/conversion.h"
#include "cli/generate.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plot.h"

enum {
    KEY_FILE = LN_KEYS_COMMAND,
    KEY_COMPARE,
    KEY_STRIDE,
    KEY_CHUNKS,
    KEY_JSON,
    KEY_PLOT,
    DEFAULT_CTX = 512
};

typedef struct eval_args {
    const char *model, *file, *compare, *plot;
    size_t stride;
    bool chunks, json;
    linnet_engine_options engine;
} eval_args;

static const struct argp_option options[] = {
    {"file", KEY_FILE, "FILE", 0, "The text", 1},
    {"compare", KEY_COMPARE, "MODEL2", 0,
     "Also give the KL divergence of MODEL2 from MODEL on the same tokens", 1},
    {"stride", KEY_STRIDE, "N", 0,
     "Tokens by which the window moves on (half of the context); each token is counted once, with "
     "what the window holds before it",
     1},
    {"chunks", KEY_CHUNKS, NULL, 0,
     "Count as llama-perplexity does: windows stand side by side, each begins with the "
     "begin-of-sequence token if the model has one, and only its second half counts",
     1},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 1},
    {"plot", KEY_PLOT, "FILE", 0, "Draw the perplexity along the text as FILE, an SVG", 1},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    eval_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        state->child_inputs[1] = &args->model;
        break;
    case KEY_FILE: args->file = arg; break;
    case KEY_COMPARE: args->compare = arg; break;
    case KEY_STRIDE: args->stride = ln_cli_parse_count(state, "--stride", arg, 1, INT32_MAX); break;
    case KEY_CHUNKS: args->chunks = true; break;
    case KEY_JSON: args->json = true; break;
    case KEY_PLOT: args->plot = arg; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        if (!args->file)
            argp_error(state, "--file is missing");
        if (args->chunks && args->stride)
            argp_error(state, "--chunks and --stride exclude each other");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp eval_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .doc = "Prints the perplexity of a text with its standard error. The text is read in windows "
           "of --ctx tokens (512, or what the model was made for). With --compare the divergence "
           "is of MODEL2's distributions from those of MODEL, whose tokenizer counts.",
    .children = ln_cli_engine_children,
};

/* ---- numbers ---------------------------------------------------------------------------- */

/* A mean and its standard error, kept as sums. */
typedef struct mean {
    double sum, sum_of_squares;
    size_t count;
} mean;

static void add(mean *m, double value) {
    m->sum += value;
    m->sum_of_squares += value * value;
    m->count++;
}

static double mean_of(const mean *m) {
    return m->sum / (double)m->count;
}

static double error_of(const mean *m) {
    double n = (double)m->count, average = m->sum / n;
    double variance = m->sum_of_squares / n - average * average;
    return n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0;
}

/* One checkpoint that is measured. */
typedef struct subject {
    linnet_model *model;
    linnet_engine *engine;
    mean nll; /* negative log-likelihoods of the tokens, in nats */
    /* [n_windows] for a plot: perplexity up to the end of a window, and of that alone */
    double *until, *within;
} subject;

typedef struct evaluation {
    subject subjects[2];
    size_t n_subjects, n_vocab, ctx, stride;
    bool chunks;
    int32_t *ids; /* [n_ids], from linnet_model_encode */
    size_t n_ids;
    float *log_probs;   /* [ctx][n_vocab] the first checkpoint's; NULL: no second one */
    float *divergences; /* [n_divergences], in nats */
    size_t n_divergences, n_same_choice;
    /* the window at hand */
    const subject *second;
    subject *current;
    size_t begin, first; /* its first token, and the first one that counts */
    size_t end;
    double *ends; /* [n_windows] tokens up to the end of each window */
    size_t n_windows;
    bool plots;
} evaluation;

/* log(sum(exp(row))) */
static double log_sum(const float *row, size_t n) {
    float most = row[0];
    for (size_t i = 1; i < n; i++)
        most = row[i] > most ? row[i] : most;
    double sum = exp((double)(row[0] - most));
    for (size_t i = 1; i < n; i++)
        sum += exp((double)(row[i] - most));
    return (double)most + log(sum);
}

static size_t choice_of(const float *row, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static void compare_row(evaluation *e, const float *reference, const float *row, double total) {
    double divergence = 0;
    for (size_t i = 0; i < e->n_vocab; i++) {
        double log_p = (double)reference[i];
        divergence += exp(log_p) * (log_p - ((double)row[i] - total));
    }
    e->divergences[e->n_divergences++] = (float)(divergence > 0 ? divergence : 0);
    e->n_same_choice += choice_of(reference, e->n_vocab) == choice_of(row, e->n_vocab);
}

/* The row after token `position` of the window tells of the token behind it. */
static void take_row(void *user, size_t position, const float *row, size_t n_vocab) {
    evaluation *e = user;
    size_t next = e->begin + position + 1;
    if (next < e->first || next >= e->end)
        return;
    double total = log_sum(row, n_vocab);
    add(&e->current->nll, total - (double)row[e->ids[next]]);
    if (!e->log_probs)
        return;
    float *kept = e->log_probs + (next - e->first) * n_vocab;
    if (e->current == e->second) {
        compare_row(e, kept, row, total);
        return;
    }
    for (size_t i = 0; i < n_vocab; i++)
        kept[i] = (float)((double)row[i] - total);
}

/* ---- windows ---------------------------------------------------------------------------- */

/* Keeps what a plot shows of the window at hand, `before` its tokens were counted. */
static bool note_window(evaluation *e, const mean *before) {
    size_t n_bytes = (e->n_windows + 1) * sizeof *e->ends;
    double *ends = realloc(e->ends, n_bytes);
    e->ends = ends != NULL ? ends : e->ends;
    for (size_t i = 0; i < e->n_subjects; i++) {
        subject *s = &e->subjects[i];
        double *until = realloc(s->until, n_bytes), *within = realloc(s->within, n_bytes);
        s->until = until != NULL ? until : s->until;
        s->within = within != NULL ? within : s->within;
        if (ends == NULL || until == NULL || within == NULL)
            return false;
        size_t n_new = s->nll.count - before[i].count;
        until[e->n_windows] = exp(mean_of(&s->nll));
        within[e->n_windows] =
            n_new > 0 ? exp((s->nll.sum - before[i].sum) / (double)n_new) : until[e->n_windows];
    }
    e->ends[e->n_windows++] = (double)e->end;
    return true;
}

static int score_window(evaluation *e) {
    const mean before[2] = {e->subjects[0].nll, e->subjects[1].nll};
    linnet_request_options request;
    linnet_request_options_init(&request);
    request.kind = LINNET_REQUEST_SCORE;
    request.prompt_ids = e->ids + e->begin;
    request.n_prompt_ids = e->end - e->begin;
    request.on_logits = take_row;
    request.user = e;
    for (size_t i = 0; i < e->n_subjects; i++) {
        ln_cli_generation generation;
        e->current = &e->subjects[i];
        int status = ln_cli_generate(e->current->engine, &request, false, true, NULL, &generation);
        if (status != 0)
            return status;
    }
    return !e->plots || note_window(e, before) ? 0 : ln_cli_fail("out of memory");
}

/* Places the window at hand: it moves on by the stride, and what no window counted yet counts; or
 * chunks stand side by side, and a second half counts. False past the end of the text. */
static bool place_window(evaluation *e) {
    if (!e->chunks) {
        e->end = e->begin + e->ctx < e->n_ids ? e->begin + e->ctx : e->n_ids;
        return e->first < e->n_ids;
    }
    e->first = e->begin + e->ctx / 2 + 1;
    e->end = e->begin + e->ctx;
    return e->end <= e->n_ids;
}

static int score_all(evaluation *e) {
    ln_cli_bar bar = {.unit = "tokens"};
    int status = 0;
    e->first = 1;
    ln_interrupt_catch();
    while (status == 0 && place_window(e)) {
        status = ln_cli_bar_show(&bar, e->first, e->n_ids) ? score_window(e) : LN_EXIT_INTERRUPTED;
        e->first = e->end;
        e->begin += e->stride;
    }
    ln_cli_bar_end(&bar);
    return status;
}

/* ---- what is printed -------------------------------------------------------------------- */

static int compare_floats(const void *a, const void *b) {
    float left = *(const float *)a, right = *(const float *)b;
    return left < right ? -1 : left > right;
}

static json_t *report_subject(const subject *s) {
    double perplexity = exp(mean_of(&s->nll));
    return json_pack("{s:f, s:f}", "perplexity", perplexity, "perplexity_error",
                     perplexity * error_of(&s->nll));
}

static json_t *report_divergence(evaluation *e) {
    static const struct {
        const char *name;
        double part;
    } percentiles[] = {{"median", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    mean divergence = {0};
    size_t n = e->n_divergences;
    for (size_t i = 0; i < n; i++)
        add(&divergence, (double)e->divergences[i]);
    qsort(e->divergences, n, sizeof *e->divergences, compare_floats);
    json_t *report =
        json_pack("{s:f, s:f}", "mean", mean_of(&divergence), "mean_error", error_of(&divergence));
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
        size_t at = (size_t)ceil(percentiles[i].part * (double)n);
        json_object_set_new(report, percentiles[i].name,
                            json_real((double)e->divergences[at > 0 ? at - 1 : 0]));
    }
    json_object_set_new(report, "same_choice", json_real((double)e->n_same_choice / (double)n));
    return report;
}

static double real_of(const json_t *report, const char *key) {
    return json_real_value(json_object_get(report, key));
}

static void print_text(const json_t *report) {
    const json_t *second = json_object_get(report, "compared");
    const json_t *divergence = json_object_get(report, "kl_divergence");
    printf("tokens         %lld\n",
           (long long)json_integer_value(json_object_get(report, "n_tokens")));
    printf("perplexity     %.4f +- %.4f\n", real_of(report, "perplexity"),
           real_of(report, "perplexity_error"));
    if (!second)
        return;
    printf("compared       %.4f +- %.4f\n", real_of(second, "perplexity"),
           real_of(second, "perplexity_error"));
    printf("KL divergence  %.6f +- %.6f\n", real_of(divergence, "mean"),
           real_of(divergence, "mean_error"));
    printf("  median %.6f, 90%% %.6f, 95%% %.6f, 99%% %.6f, maximum %.6f\n",
           real_of(divergence, "median"), real_of(divergence, "p90"), real_of(divergence, "p95"),
           real_of(divergence, "p99"), real_of(divergence, "max"));
    printf("same choice    %.2f%%\n", 100 * real_of(divergence, "same_choice"));
}

static int report(evaluation *e, bool as_json) {
    json_t *object = report_subject(&e->subjects[0]);
    json_object_set_new(object, "n_tokens", json_integer((json_int_t)e->subjects[0].nll.count));
    json_object_set_new(object, "ctx_tokens", json_integer((json_int_t)e->ctx));
    json_object_set_new(object, "stride_tokens", json_integer((json_int_t)e->stride));
    if (e->n_subjects > 1) {
        json_object_set_new(object, "compared", report_subject(&e->subjects[1]));
        json_object_set_new(object, "kl_divergence", report_divergence(e));
    }
    if (as_json)
        return ln_cli_print_json(stdout, object, true);
    print_text(object);
    json_decref(object);
    return 0;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static int plot(const evaluation *e, const eval_args *args) {
    const subject *first = &e->subjects[0], *second = &e->subjects[1];
    char names[4][160], title[256], note[256];
    const char *model = name_of(args->model), *other = args->compare ? name_of(args->compare) : "";
    linnet_error err = {0};
    snprintf(names[0], sizeof names[0], "%.100s so far", model);
    snprintf(names[1], sizeof names[1], "each window");
    snprintf(names[2], sizeof names[2], "%.100s so far", other);
    snprintf(names[3], sizeof names[3], "each window");
    snprintf(title, sizeof title, "Perplexity of %.200s", name_of(args->file));
    snprintf(note, sizeof note, "over its tokens; in the end %.4f +- %.4f",
             exp(mean_of(&first->nll)), exp(mean_of(&first->nll)) * error_of(&first->nll));
    const ln_plot_line lines[] = {{names[0], first->until},
                                  {names[1], first->within},
                                  {names[2], second->until},
                                  {names[3], second->within}};
    if (ln_plot_lines(args->plot, title, note, e->ends, e->n_windows, lines, 2 * e->n_subjects,
                      &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    return 0;
}

/* ---- the command ------------------------------------------------------------------------ */

static linnet_model_info info_of(const linnet_model *model) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    return info;
}

static int open_models(const eval_args *args, evaluation *e) {
    const char *const paths[2] = {args->model, args->compare};
    linnet_error err = {0};
    e->n_subjects = args->compare ? 2 : 1;
    e->second = &e->subjects[1];
    for (size_t i = 0; i < e->n_subjects; i++)
        if (ln_cli_open_decoder("eval", paths[i], &e->subjects[i].model, &err) != LINNET_OK)
            return ln_cli_fail_with(&err);
    linnet_model_info info = info_of(e->subjects[0].model);
    e->n_vocab = (size_t)info.n_vocab;
    if (args->compare && info_of(e->subjects[1].model).n_vocab != info.n_vocab)
        return ln_cli_fail("%s and %s have vocabularies of different sizes", args->model,
                           args->compare);
    e->ctx = args->engine.ctx_tokens;
    if (e->ctx == 0)
        e->ctx = info.ctx_tokens < DEFAULT_CTX ? (size_t)info.ctx_tokens : DEFAULT_CTX;
    e->chunks = args->chunks;
    e->stride = args->chunks ? e->ctx : args->stride ? args->stride : (e->ctx + 1) / 2;
    if (e->ctx < 3) {
        ln_cli_fail("--ctx is %zu; a window has at least 3 tokens", e->ctx);
        return LN_EXIT_USAGE;
    }
    if (!e->chunks && e->stride >= e->ctx) {
        ln_cli_fail("--stride is %zu; it must be less than the context, which is %zu", e->stride,
                    e->ctx);
        return LN_EXIT_USAGE;
    }
    return 0;
}

/* Puts what the tokenizer sets before a text, usually one token, in place of each chunk's first. */
static int begin_chunks(evaluation *e) {
    int32_t *special;
    size_t n_special;
    linnet_error err = {0};
    if (linnet_model_encode(e->subjects[0].model, "", 0, true, false, &special, &n_special, &err) !=
        LINNET_OK)
        return ln_cli_fail_with(&err);
    for (size_t at = 0; n_special > 0 && at < e->n_ids; at += e->ctx)
        e->ids[at] = special[0];
    linnet_free(special);
    return 0;
}

static int read_tokens(const eval_args *args, evaluation *e) {
    char *text;
    size_t n_bytes;
    linnet_error err = {0};
    int status = ln_cli_read_text(args->file, &text, &n_bytes);
    if (status != 0)
        return status;
    linnet_status encoded = linnet_model_encode(e->subjects[0].model, text, n_bytes, true, false,
                                                &e->ids, &e->n_ids, &err);
    free(text);
    if (encoded != LINNET_OK)
        return ln_cli_fail_with(&err);
    for (size_t i = 0; i < e->n_ids; i++)
        if (e->ids[i] < 0 || (size_t)e->ids[i] >= e->n_vocab)
            return ln_cli_fail("token %d has no logits", (int)e->ids[i]);
    size_t least = e->chunks ? e->ctx : 2;
    if (e->n_ids < least)
        return ln_cli_fail("%s has fewer than %zu tokens", args->file, least);
    if (e->chunks && (status = begin_chunks(e)) != 0)
        return status;
    if (e->n_subjects < 2)
        return 0;
    e->log_probs = calloc(e->ctx * e->n_vocab + 1, sizeof *e->log_probs);
    e->divergences = calloc(e->n_ids + 1, sizeof *e->divergences);
    return e->log_probs && e->divergences ? 0 : ln_cli_fail("out of memory");
}

static int create_engines(const eval_args *args, evaluation *e) {
    linnet_error err = {0};
    linnet_engine_options how = args->engine;
    how.ctx_tokens = e->ctx;
    for (size_t i = 0; i < e->n_subjects; i++)
        if (ln_cli_create_engine(e->subjects[i].model, &how, false, &e->subjects[i].engine, &err) !=
            LINNET_OK)
            return ln_cli_fail_with(&err);
    return 0;
}

int ln_cli_eval(int argc, char **argv) {
    eval_args args = {0};
    evaluation e = {0};
    linnet_engine_options_init(&args.engine);
    if (ln_cli_parse(&eval_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    int status = open_models(&args, &e);
    if (status == 0)
        status = read_tokens(&args, &e);
    if (status == 0)
        status = create_engines(&args, &e);
    e.plots = args.plot != NULL;
    if (status == 0)
        status = score_all(&e);
    if (status == 0)
        status = report(&e, args.json);
    if (status == 0 && args.plot)
        status = plot(&e, &args);
    for (size_t i = 0; i < 2; i++) {
        free(e.subjects[i].until);
        free(e.subjects[i].within);
        if (e.subjects[i].engine)
            linnet_engine_destroy(e.subjects[i].engine);
        linnet_model_close(e.subjects[i].model);
    }
    linnet_free(e.ids);
    free(e.log_probs);
    free(e.divergences);
    free(e.ends);
    return status;
}
