#include "cli/hub/resolve.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/hub/environment.h"
#include "cli/hub/fetch.h"
#include "cli/options.h"
#include "hub/cache.h"

static const char scheme[] = "hf:";
enum { MAX_KEPT = 16 };

/* Keeps a text until the program ends. */
static const char *keep(char *text) {
    static char *kept[MAX_KEPT];
    static size_t n_kept;
    if (!text || n_kept == MAX_KEPT)
        return text;
    kept[n_kept] = text;
    return kept[n_kept++];
}

static const struct argp_option options[] = {
    {"model", 'm', "MODEL", 0, "The same as MODEL without an option", 0},
    {"hf", LN_KEYS_MODEL, "NAME", 0,
     "The model ORG/NAME[:QUANT][@REVISION] of the Hugging Face hub, pulled when the cache lacks "
     "it; "
     "-hf is the same",
     0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    const char **model = state->input;
    ln_hub_name name;
    linnet_error err = {0};
    char *text;
    switch (key) {
    case 'm': ln_cli_take_argument(state, model, arg); return 0;
    case LN_KEYS_MODEL:
        if (ln_hub_name_parse(arg, &name, &err) != LINNET_OK)
            argp_error(state, "--hf: %s", err.message);
        text = ln_hub_path("%s%s", scheme, arg);
        if (!text)
            argp_failure(state, LN_EXIT_FAILURE, 0, "out of memory");
        ln_cli_take_argument(state, model, keep(text));
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp ln_cli_model_argp = {.options = options, .parser = parse};

const struct argp_child ln_cli_model_children[] = {{&ln_cli_model_argp, 0, NULL, 0}, {0}};
const struct argp_child ln_cli_engine_children[] = {
    {&ln_cli_engine_argp, 0, LN_CLI_ENGINE_HEADER, 2}, {&ln_cli_model_argp, 0, NULL, 1}, {0}};

/* The path of a name that the cache has; otherwise it is pulled, or the user told how to. */
static linnet_status find(const ln_hub_settings *settings, const char *text, bool pulls,
                          char **path, linnet_error *err) {
    ln_hub_name name;
    LN_TRY(ln_hub_name_parse(text, &name, err));
    LN_TRY(ln_hub_cache_find(settings->cache, &name, path, err));
    if (*path)
        return LINNET_OK;
    if (pulls)
        return ln_cli_hub_fetch(settings, &name, false, path, err);
    return ln_fail(err, LINNET_ERR_IO,
                   "there is no file %s, and the cache has no model of that name; `linnet pull %s' "
                   "fetches it from the hub",
                   text, text);
}

const char *ln_cli_model_name(const char *model) {
    bool pulls = strncmp(model, scheme, sizeof scheme - 1) == 0;
    if (ln_file_exists(model) || (!pulls && !ln_hub_is_name(model)))
        return NULL;
    return model + (pulls ? sizeof scheme - 1 : 0);
}

linnet_status ln_cli_resolve_model(const char **model, linnet_error *err) {
    const char *text = *model ? ln_cli_model_name(*model) : NULL;
    if (!text)
        return LINNET_OK;
    ln_cli_hub_environment environment;
    char *path = NULL;
    linnet_status status = ln_cli_hub_environment_read(&environment, err);
    if (status == LINNET_OK)
        status = find(&environment.settings, text, text != *model, &path, err);
    ln_cli_hub_environment_free(&environment);
    if (status == LINNET_OK)
        *model = keep(path);
    return status;
}
