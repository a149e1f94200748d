/* linnet logits: writes the logits of a token sequence to a file. */
#include <argp.h>
#include <errno.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/adapters.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/hub/resolve.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they lie");

enum { KEY_IDS = LN_KEYS_COMMAND, KEY_ENCODER_IDS, KEY_OUT };

typedef struct logits_args {
    const char *model, *out;
    ln_cli_ids ids, encoder_ids;
    ln_cli_adapters adapters;
    linnet_engine_options engine;
} logits_args;

static const struct argp_option options[] = {
    {"ids", KEY_IDS, "IDS", 0, "Token ids, such as 5,9,3, used as given", 1},
    {"encoder-ids", KEY_ENCODER_IDS, "IDS", 0,
     "What the encoder reads, for models that have one; --ids then begin with the start token", 1},
    {"out", KEY_OUT, "FILE", 0, "Where to write; complete once the command succeeds", 1},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    logits_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->adapters;
        state->child_inputs[1] = &args->engine;
        state->child_inputs[2] = &args->model;
        break;
    case KEY_IDS: ln_cli_parse_ids(state, arg, false, &args->ids); break;
    case KEY_ENCODER_IDS: ln_cli_parse_ids(state, arg, false, &args->encoder_ids); break;
    case KEY_OUT: args->out = arg; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        if (!args->ids.ids)
            argp_error(state, "--ids is missing");
        if (!args->out)
            argp_error(state, "--out is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&ln_cli_adapters_argp, 0, NULL, 1},
                                             {&ln_cli_engine_argp, 0, LN_CLI_ENGINE_HEADER, 2},
                                             {&ln_cli_model_argp, 0, NULL, 1},
                                             {0}};

static const struct argp logits_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .doc = "Writes the logits after each of the given tokens: float32, little-endian, one row of "
           "n_vocab values per token. Nothing is added to the ids, and no tokenizer is needed.",
    .children = children,
};

/* A file under a name of its own until it is complete. */
typedef struct partial_file {
    FILE *file;
    char *name; /* NULL: written in place, because it is no regular file */
    int error;  /* errno of the first write that failed */
} partial_file;

static int open_partial(partial_file *partial, const char *path) {
    *partial = (partial_file){0};
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        partial->file = fopen(path, "wb");
    } else if (asprintf(&partial->name, "%s.XXXXXX", path) < 0) {
        partial->name = NULL;
        errno = ENOMEM;
    } else {
        int fd = mkstemp(partial->name);
        if (fd >= 0) {
            mode_t mask = umask(0);
            umask(mask);
            fchmod(fd, 0666 & ~mask);
            partial->file = fdopen(fd, "wb");
            if (!partial->file) {
                int error = errno;
                close(fd);
                unlink(partial->name);
                errno = error;
            }
        }
    }
    if (partial->file)
        return 0;
    int status = ln_cli_fail("cannot write %s: %s", path, strerror(errno));
    free(partial->name);
    return status;
}

/* Closes the file, and gives it its name when `complete`; removes it otherwise. */
static int close_partial(partial_file *partial, const char *path, bool complete) {
    if (fclose(partial->file) != 0 && partial->error == 0)
        partial->error = errno;
    if (complete && partial->error == 0 && partial->name && rename(partial->name, path) != 0)
        partial->error = errno;
    int status = 0;
    if (complete && partial->error != 0)
        status = ln_cli_fail("cannot write %s: %s", path, strerror(partial->error));
    if (partial->name && (!complete || status != 0))
        unlink(partial->name);
    free(partial->name);
    return status;
}

static void write_row(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)position; /* rows come in order */
    partial_file *partial = user;
    if (partial->error == 0 && fwrite(row, sizeof *row, n_vocab, partial->file) != n_vocab)
        partial->error = errno;
}

static int score(linnet_engine *engine, const logits_args *args) {
    ln_interrupt_catch();
    partial_file partial;
    int status = open_partial(&partial, args->out);
    if (status != 0)
        return status;
    linnet_request_options request;
    linnet_request_options_init(&request);
    request.kind = LINNET_REQUEST_SCORE;
    request.prompt_ids = args->ids.ids;
    request.n_prompt_ids = args->ids.count;
    request.encoder_ids = args->encoder_ids.ids;
    request.n_encoder_ids = args->encoder_ids.count;
    request.on_logits = write_row;
    request.adapter = ln_cli_adapters_first(&args->adapters);
    request.user = &partial;
    ln_cli_generation generation;
    status = ln_cli_generate(engine, &request, false, true, NULL, &generation);
    int closed = close_partial(&partial, args->out, status == 0);
    return status ? status : closed;
}

int ln_cli_logits(int argc, char **argv) {
    logits_args args = {.adapters.most = 1};
    linnet_engine_options_init(&args.engine);
    if (ln_cli_parse(&logits_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    int status;
    if (ln_cli_open_model(args.model, &model, &err) != LINNET_OK ||
        ln_cli_adapters_plan(&args.adapters, &args.engine, &err) != LINNET_OK ||
        ln_cli_create_engine(model, &args.engine, false, &engine, &err) != LINNET_OK ||
        ln_cli_adapters_load(&args.adapters, engine, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = score(engine, &args);
    if (engine)
        linnet_engine_destroy(engine);
    linnet_model_close(model);
    free(args.ids.ids);
    free(args.encoder_ids.ids);
    ln_cli_adapters_free(&args.adapters);
    return status;
}
