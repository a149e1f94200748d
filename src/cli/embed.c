/* linnet embed: vectors of texts, one JSON array a line. */
#include <argp.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"

enum {
    KEY_PAIR = LN_KEYS_COMMAND,
    KEY_IDS,
    KEY_POOLING,
    KEY_PROMPT_NAME,
    KEY_NO_NORMALIZE,
    KEY_DIMENSIONS,
    KEY_CLASSES
};
enum { MAX_UNDER_WAY = 256, DEFAULT_SEQS = 32 };

typedef struct embed_args {
    const char *model, *text, *pair, *file, *prompt_name;
    ln_cli_ids ids;
    linnet_request_options request;
    linnet_engine_options engine;
} embed_args;

static const struct argp_option options[] = {
    {"text", 'p', "TEXT", 0, "The same as TEXT without an option", 1},
    {"pair", KEY_PAIR, "TEXT", 0, "A second text behind it, for heads that score pairs", 1},
    {"file", 'f', "FILE", 0, "A file with a text on each line; - reads standard input", 1},
    {"ids", KEY_IDS, "IDS", 0, "Token ids, such as 5,9,3, used as given, in place of a text", 1},
    {"pooling", KEY_POOLING, "cls|mean|last", 0,
     "The vector of the first token, the mean of all, or the last one's (as the checkpoint says)",
     1},
    {"prompt-name", KEY_PROMPT_NAME, "NAME", 0,
     "Put the prompt of that name, such as query, before each text, as the checkpoint has it", 1},
    {"no-normalize", KEY_NO_NORMALIZE, NULL, 0, "Leave vectors as long as they are", 1},
    {"dimensions", KEY_DIMENSIONS, "N", 0, "Only the first N numbers of a vector", 1},
    {"classes", KEY_CLASSES, NULL, 0,
     "What the head of a classifier or reranker gives, as it is before softmax or sigmoid", 1},
    {0}};

static linnet_pooling parse_pooling(const struct argp_state *state, const char *word) {
    static const char *const words[] = {"cls", "mean", "last"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0)
            return (linnet_pooling)(LINNET_POOLING_CLS + i);
    argp_error(state, "--pooling: '%s' is not cls, mean or last", word);
    return LINNET_POOLING_DEFAULT;
}

static void check(const struct argp_state *state, const embed_args *args) {
    int n_inputs = (args->text != NULL) + (args->file != NULL) + (args->ids.ids != NULL);
    if (n_inputs != 1)
        argp_error(state, "one of TEXT, --file and --ids is needed");
    if (args->pair != NULL && args->text == NULL)
        argp_error(state, "--pair needs TEXT");
    if (args->prompt_name != NULL && (args->pair != NULL || args->ids.ids != NULL))
        argp_error(state, "--prompt-name cannot go with --pair or --ids");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    embed_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        state->child_inputs[1] = &args->model;
        break;
    case 'p':
        ln_cli_refuse_twice(state, "--text", args->text != NULL);
        args->text = arg;
        break;
    case KEY_PAIR: args->pair = arg; break;
    case 'f': args->file = arg; break;
    case KEY_IDS: ln_cli_parse_ids(state, arg, false, &args->ids); break;
    case KEY_POOLING: args->request.pooling = parse_pooling(state, arg); break;
    case KEY_PROMPT_NAME: args->prompt_name = arg; break;
    case KEY_NO_NORMALIZE: args->request.normalization = LINNET_NORMALIZATION_OFF; break;
    case KEY_DIMENSIONS:
        args->request.dimensions =
            (size_t)ln_cli_parse_count(state, "--dimensions", arg, 1, INT32_MAX);
        break;
    case KEY_CLASSES: args->request.head = LINNET_HEAD_CLASSES; break;
    case ARGP_KEY_ARG:
        ln_cli_take_argument(state, args->model ? &args->text : &args->model, arg);
        break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        check(state, args);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp embed_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL [TEXT]",
    .doc = "Prints the vector of a text, or of each line of a file, as a JSON array on a line. "
           "Pooling, dense layers, length and the number of tokens that texts are cut to are what "
           "the checkpoint says.",
    .children = ln_cli_engine_children,
};

static bool print_vector(const linnet_event *event) {
    char number[32];
    for (size_t i = 0; i < event->n_embedding; i++) {
        int n = snprintf(number, sizeof number, "%s%.9g", i == 0 ? "[" : ",",
                         (double)event->embedding[i]);
        fwrite(number, 1, (size_t)n, stdout);
    }
    fputs("]\n", stdout);
    return !ferror(stdout);
}

/* Waits for a request's vector and prints it; closes the request. */
static int take(linnet_request *request) {
    linnet_event event;
    linnet_error err = {0};
    linnet_status status;
    int code = 0;
    do {
        status = linnet_request_next(request, LN_INTERRUPT_POLL_MS, &event, &err);
        if (ln_interrupt_seen())
            linnet_request_cancel(request);
    } while (status == LINNET_ERR_TIMEOUT);
    if (status != LINNET_OK)
        code = ln_cli_fail_with(&err);
    else if (event.finish == LINNET_FINISH_CANCELLED)
        code = LN_EXIT_INTERRUPTED;
    else if (event.finish != LINNET_FINISH_STOP)
        code = ln_cli_fail("%s", event.error != NULL ? event.error : "the engine failed");
    else if (!print_vector(&event))
        code = LN_EXIT_FAILURE;
    linnet_request_close(request);
    return code;
}

/* Requests under way, in the order of their texts. */
typedef struct queue {
    const linnet_model *model;
    linnet_engine *engine;
    const embed_args *args;
    const char *prompt; /* in front of texts; "" */
    size_t max_tokens;  /* of a text */
    linnet_request *requests[MAX_UNDER_WAY];
    size_t first, n;
} queue;

static int take_first(queue *q) {
    int code = take(q->requests[q->first]);
    q->first = (q->first + 1) % MAX_UNDER_WAY;
    q->n--;
    return code;
}

static int submit(queue *q, const int32_t *ids, size_t n_ids, size_t n_first) {
    linnet_request_options request = q->args->request;
    linnet_error err = {0};
    int code = q->n == MAX_UNDER_WAY ? take_first(q) : 0;
    if (code != 0)
        return code;
    request.prompt_ids = ids;
    request.n_prompt_ids = n_ids;
    request.n_first_ids = n_first;
    if (linnet_request_submit(q->engine, &request, &q->requests[(q->first + q->n) % MAX_UNDER_WAY],
                              &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    q->n++;
    return 0;
}

static int submit_text(queue *q, const char *text, size_t n_bytes) {
    const char *pair = q->args->pair;
    size_t n_prompt = strlen(q->prompt), n_ids, n_first;
    int32_t *ids;
    linnet_error err = {0};
    char *whole = malloc(n_prompt + n_bytes + 1);
    if (whole == NULL)
        return ln_cli_fail("out of memory");
    memcpy(whole, q->prompt, n_prompt);
    memcpy(whole + n_prompt, text, n_bytes);
    linnet_status status =
        linnet_model_encode_pair(q->model, whole, n_prompt + n_bytes, pair, pair ? strlen(pair) : 0,
                                 q->max_tokens, &ids, &n_ids, &n_first, &err);
    free(whole);
    if (status != LINNET_OK)
        return ln_cli_fail_with(&err);
    int code = submit(q, ids, n_ids, n_first);
    linnet_free(ids);
    return code;
}

static int submit_lines(queue *q, const char *path) {
    char *text;
    size_t n_bytes, at = 0;
    int code = ln_cli_read_text(strcmp(path, "-") == 0 ? NULL : path, &text, &n_bytes);
    while (code == 0 && at < n_bytes) {
        const char *end = memchr(text + at, '\n', n_bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : n_bytes - at;
        size_t line = length > 0 && text[at + length - 1] == '\r' ? length - 1 : length;
        code = submit_text(q, text + at, line);
        at += length + 1;
    }
    free(text);
    return code;
}

static int embed(queue *q) {
    const embed_args *args = q->args;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_model_get_info(q->model, &info);
    linnet_engine_get_memory(q->engine, &plan);
    q->max_tokens = plan.ctx_tokens;
    if (info.embed_tokens > 0 && (size_t)info.embed_tokens < q->max_tokens)
        q->max_tokens = (size_t)info.embed_tokens;
    linnet_error err = {0};
    q->prompt = "";
    if (args->pair == NULL && args->request.head != LINNET_HEAD_CLASSES &&
        linnet_model_get_prompt(q->model, args->prompt_name, &q->prompt, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    ln_interrupt_catch();
    int code = args->text   ? submit_text(q, args->text, strlen(args->text))
               : args->file ? submit_lines(q, args->file)
                            : submit(q, args->ids.ids, args->ids.count, 0);
    while (q->n > 0) {
        int taken = code == 0 ? take_first(q) : (linnet_request_close(q->requests[q->first]), 0);
        if (code != 0) {
            q->first = (q->first + 1) % MAX_UNDER_WAY;
            q->n--;
        }
        code = code != 0 ? code : taken;
    }
    return code;
}

int ln_cli_embed(int argc, char **argv) {
    embed_args args = {0};
    linnet_engine_options_init(&args.engine);
    args.engine.max_seqs = DEFAULT_SEQS;
    linnet_request_options_init(&args.request);
    args.request.kind = LINNET_REQUEST_EMBED;
    if (ln_cli_parse(&embed_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    int status;
    if (ln_cli_open_model(args.model, &model, &err) != LINNET_OK ||
        ln_cli_create_engine(model, &args.engine, false, &engine, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = embed(&(queue){.model = model, .engine = engine, .args = &args});
    if (engine)
        linnet_engine_destroy(engine);
    linnet_model_close(model);
    free(args.ids.ids);
    return status;
}
