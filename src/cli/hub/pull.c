/* linnet pull: brings a model from the hub into the cache. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/hub/environment.h"
#include "cli/hub/fetch.h"
#include "cli/options.h"
#include "cli/output.h"

enum { KEY_OFFLINE = LN_KEYS_COMMAND, KEY_PARALLEL, KEY_PART_BYTES };

typedef struct pull_args {
    const char *name;
    bool is_offline, quiet;
    size_t n_parallel;   /* 0: not given */
    uint64_t part_bytes; /* 0: not given */
} pull_args;

static const struct argp_option options[] = {
    {"offline", KEY_OFFLINE, NULL, 0, "Ask no hub: say where the cache has it, or fail", 0},
    {"parallel", KEY_PARALLEL, "N", 0, "Requests at a time (4)", 0},
    {"part-bytes", KEY_PART_BYTES, "BYTES", 0, "Ask for parts of so many bytes (33554432)", 0},
    {"quiet", 'q', NULL, 0, "Print nothing but the path, and errors", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    pull_args *args = state->input;
    switch (key) {
    case KEY_OFFLINE: args->is_offline = true; break;
    case KEY_PARALLEL:
        args->n_parallel = ln_cli_parse_count(state, "--parallel", arg, 1, LN_HUB_MAX_PARALLEL);
        break;
    case KEY_PART_BYTES:
        args->part_bytes = ln_cli_parse_bytes(state, "--part-bytes", arg, 4096, UINT64_C(1) << 40);
        break;
    case 'q': args->quiet = true; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->name, arg); break;
    case ARGP_KEY_NO_ARGS: argp_error(state, "NAME is missing"); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp pull_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "NAME",
    .doc =
        "Brings a model from the Hugging Face hub into its cache, which other programs share, and "
        "prints the path. NAME is ORG/NAME, of which it takes the safetensors with what belongs "
        "to them, or else a GGUF file (Q4_K_M, if there is one); ORG/NAME:QUANT, a GGUF file with "
        "all of its parts; and with @REVISION a branch, tag or commit. What was interrupted goes "
        "on; every file is checked by its hash.\vHF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and "
        "HF_HUB_OFFLINE are read as other programs do.",
};

int ln_cli_pull(int argc, char **argv) {
    pull_args args = {0};
    ln_cli_hub_environment environment;
    ln_hub_name name;
    linnet_error err = {0};
    char *path = NULL;
    if (ln_cli_parse(&pull_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    if (ln_hub_name_parse(args.name, &name, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    linnet_status status = ln_cli_hub_environment_read(&environment, &err);
    if (args.n_parallel > 0)
        environment.settings.n_parallel = args.n_parallel;
    if (args.part_bytes > 0)
        environment.settings.part_bytes = args.part_bytes;
    environment.settings.is_offline |= args.is_offline;
    if (status == LINNET_OK)
        status = ln_cli_hub_fetch(&environment.settings, &name, args.quiet, &path, &err);
    int exit_status = status == LINNET_OK ? 0 : ln_cli_fail_with(&err);
    if (status == LINNET_OK)
        puts(path);
    free(path);
    ln_cli_hub_environment_free(&environment);
    return exit_status;
}
