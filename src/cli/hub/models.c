/* linnet list, linnet rm: what the hub's cache has, and less of it. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/hub/environment.h"
#include "cli/options.h"
#include "cli/output.h"
#include "hub/cache.h"

/* ---- list ------------------------------------------------------------------------------- */

typedef struct list_args {
    bool json;
    json_t *models; /* with json: array of objects */
    bool failed;
    size_t n_shown;
} list_args;

static const struct argp_option list_options[] = {
    {"json", LN_KEYS_COMMAND, NULL, 0, "Print a JSON array", 0}, {0}};

static const struct argp list_argp = {
    .options = list_options,
    .parser = ln_cli_parse_json,
    .doc = "Lists the models in the cache of the Hugging Face hub, whoever put them there, by the "
           "names that other commands take.",
};

static void name_of(const ln_hub_entry *entry, char *name, size_t n_bytes) {
    bool is_main = strcmp(entry->revision, "main") == 0;
    snprintf(name, n_bytes, "%s%s%s%s%s", entry->repo, *entry->tag ? ":" : "", entry->tag,
             is_main ? "" : "@", is_main ? "" : entry->revision);
}

static void see(void *user, const ln_hub_entry *entry) {
    list_args *args = user;
    char name[3 * LN_HUB_NAME_BYTES], when[32] = "";
    time_t modified = (time_t)entry->modified;
    struct tm utc;
    name_of(entry, name, sizeof name);
    if (gmtime_r(&modified, &utc))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &utc);
    args->n_shown++;
    if (!args->json) {
        printf("%-56s %10s  %s\n", name, ln_cli_size_text(entry->bytes).text, when);
        return;
    }
    json_t *model = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "name", name, "repo", entry->repo,
                              "revision", entry->revision, "path", entry->path, "bytes",
                              (json_int_t)entry->bytes, "modified", (json_int_t)entry->modified);
    if (json_array_append_new(args->models, model) != 0)
        args->failed = true;
}

int ln_cli_list(int argc, char **argv) {
    list_args args = {0};
    ln_cli_hub_environment environment;
    linnet_error err = {0};
    if (ln_cli_parse(&list_argp, argc, argv, &args.json) != 0)
        return LN_EXIT_USAGE;
    if (args.json && !(args.models = json_array()))
        return ln_cli_fail("out of memory");
    int status = 0;
    if (ln_cli_hub_environment_read(&environment, &err) != LINNET_OK ||
        ln_hub_cache_list(environment.settings.cache, see, &args, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    if (status == 0 && args.failed)
        status = ln_cli_fail("out of memory");
    if (status == 0 && args.json)
        status = ln_cli_print_json(stdout, json_incref(args.models), true);
    else if (status == 0 && args.n_shown == 0)
        fprintf(stderr, "%s has no model yet; `linnet pull NAME' fetches one\n",
                environment.settings.cache);
    json_decref(args.models);
    ln_cli_hub_environment_free(&environment);
    return status;
}

/* ---- rm --------------------------------------------------------------------------------- */

static error_t parse_rm(int key, char *arg, struct argp_state *state) {
    const char **name = state->input;
    switch (key) {
    case ARGP_KEY_ARG: ln_cli_take_argument(state, name, arg); return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "NAME is missing"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp rm_argp = {
    .parser = parse_rm,
    .args_doc = "NAME",
    .doc = "Removes a model from the cache of the Hugging Face hub: with ORG/NAME all of it, with "
           "ORG/NAME:QUANT one GGUF file, with ORG/NAME@REVISION one revision. Contents that "
           "something else in the cache needs stay.",
};

int ln_cli_rm(int argc, char **argv) {
    const char *name = NULL;
    uint64_t freed_bytes;
    ln_cli_hub_environment environment;
    linnet_error err = {0};
    if (ln_cli_parse(&rm_argp, argc, argv, &name) != 0)
        return LN_EXIT_USAGE;
    int status = 0;
    if (ln_cli_hub_environment_read(&environment, &err) != LINNET_OK ||
        ln_hub_cache_remove(environment.settings.cache, name, &freed_bytes, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        printf("removed %s (%s)\n", name, ln_cli_size_text(freed_bytes).text);
    ln_cli_hub_environment_free(&environment);
    return status;
}
