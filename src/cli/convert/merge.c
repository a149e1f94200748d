/* linnet merge: a checkpoint whose matrices hold what adapters make of them. */
#include <argp.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/adapters.h"
#include "cli/commands.h"
#include "cli/convert/conversion.h"
#include "cli/hub/resolve.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "convert/merge.h"

enum { KEY_OUT = LN_KEYS_COMMAND, KEY_REQUANTIZE, KEY_THREADS, MAX_THREADS = 1024 };

typedef struct merge_args {
    const char *model, *out;
    bool requantize;
    size_t n_threads;
    ln_cli_adapters adapters;
} merge_args;

static const struct argp_option options[] = {
    {"out", KEY_OUT, "PATH", 0, "The new folder, or the new GGUF file", 0},
    {"requantize", KEY_REQUANTIZE, NULL, 0,
     "Merge into quantised matrices, too, and quantise them again to the type that they have", 0},
    {"threads", KEY_THREADS, "N", 0, "Threads that compute (1)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    merge_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->adapters; break;
    case KEY_OUT:
        ln_cli_refuse_twice(state, "--out", args->out != NULL);
        args->out = arg;
        break;
    case KEY_REQUANTIZE: args->requantize = true; break;
    case KEY_THREADS:
        args->n_threads = (size_t)ln_cli_parse_count(state, "--threads", arg, 1, MAX_THREADS);
        break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END:
        if (args->model == NULL || args->out == NULL || args->adapters.count == 0)
            argp_error(state, "%s is missing",
                       args->model == NULL ? "MODEL"
                       : args->out == NULL ? "--out"
                                           : "--lora");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&ln_cli_adapters_argp, 0, NULL, 1}, {0}};

static const struct argp merge_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL --lora PATH[:SCALE] --out PATH",
    .doc = "Writes a copy of a checkpoint whose matrices hold what adapters make of them: a new "
           "folder of a Hugging Face folder, a new GGUF file of a GGUF file. Several adapters are "
           "merged one after another. Matrices keep their type; quantised ones are refused "
           "without --requantize.",
    .children = children,
};

static linnet_status merge(const merge_args *args, ln_checkpoint *checkpoint, size_t *n_changed,
                           linnet_error *err) {
    ln_cli_bar bar = {0};
    ln_merge_adapter *adapters = calloc(args->adapters.count, sizeof *adapters);
    if (adapters == NULL)
        return LINNET_ERR_NOMEM;
    for (size_t i = 0; i < args->adapters.count; i++)
        adapters[i] =
            (ln_merge_adapter){args->adapters.items[i].path, args->adapters.items[i].scale};
    const ln_merge_options how = {.adapters = adapters,
                                  .n_adapters = args->adapters.count,
                                  .n_threads = args->n_threads,
                                  .requantize = args->requantize,
                                  .progress = ln_cli_bar_show,
                                  .user = &bar};
    linnet_status status = ln_merge(checkpoint, args->out, &how, n_changed, err);
    ln_cli_bar_end(&bar);
    free(adapters);
    return status;
}

static int run(const merge_args *args) {
    const char *model = args->model;
    ln_checkpoint *checkpoint = NULL;
    linnet_error err = {0};
    size_t n_changed = 0;
    ln_interrupt_catch();
    if (ln_cli_resolve_model(&model, &err) != LINNET_OK ||
        ln_checkpoint_open(model, false, &checkpoint, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    linnet_status status = merge(args, checkpoint, &n_changed, &err);
    ln_checkpoint_close(checkpoint);
    if (status == LINNET_ERR_CANCELLED)
        return LN_EXIT_INTERRUPTED;
    if (status != LINNET_OK)
        return ln_cli_fail_with(&err);
    fprintf(stderr, "%s: %zu tensors changed\n", args->out, n_changed);
    return 0;
}

int ln_cli_merge(int argc, char **argv) {
    merge_args args = {.n_threads = 1};
    int status = LN_EXIT_USAGE;
    if (ln_cli_parse(&merge_argp, argc, argv, &args) == 0)
        status = run(&args);
    ln_cli_adapters_free(&args.adapters);
    return status;
}
