#include "cli/adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"

enum { KEY_LORA = LN_KEYS_ADAPTERS };

static const struct argp_option options[] = {
    {"lora", KEY_LORA, "[NAME=]PATH[:SCALE]", 0,
     "Load an adapter (LoRA or IA3): a folder of PEFT or a GGUF file, times SCALE (1)", 0},
    {0}};

/* Cuts ":SCALE" off the end of a path. */
static float cut_scale(char *path) {
    char *colon = strrchr(path, ':'), *end;
    if (colon == NULL || colon[1] == '\0' || strchr(colon, '/') != NULL)
        return 1.0f;
    float scale = strtof(colon + 1, &end);
    if (*end != '\0' || !isfinite(scale))
        return 1.0f;
    *colon = '\0';
    return scale;
}

/* The last part of a path, which names an adapter that has no other name. */
static char *name_path(const char *path) {
    size_t n_bytes;
    const char *last = ln_path_last(path, &n_bytes);
    return strndup(last, n_bytes);
}

static void take(struct argp_state *state, ln_cli_adapters *adapters, const char *text) {
    size_t most = adapters->most > 0 ? adapters->most : LN_CLI_MAX_ADAPTERS;
    if (adapters->count == most)
        argp_error(state, "--lora: at most %zu %s possible", most, most > 1 ? "are" : "is");
    ln_cli_adapter *item = &adapters->items[adapters->count];
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    if (equals != NULL && (slash == NULL || equals < slash)) {
        item->name = strndup(text, (size_t)(equals - text));
        item->path = strdup(equals + 1);
    } else {
        item->path = strdup(text);
    }
    item->scale = item->path != NULL ? cut_scale(item->path) : 1.0f;
    if (item->name == NULL && item->path != NULL)
        item->name = name_path(item->path);
    adapters->count++;
    if (item->name == NULL || item->path == NULL)
        argp_failure(state, LN_EXIT_FAILURE, 0, "out of memory");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    if (key != KEY_LORA)
        return ARGP_ERR_UNKNOWN;
    take(state, state->input, arg);
    return 0;
}

const struct argp ln_cli_adapters_argp = {.options = options, .parser = parse};

linnet_status ln_cli_adapters_plan(const ln_cli_adapters *adapters, linnet_engine_options *engine,
                                   linnet_error *err) {
    size_t most = 0;
    if (adapters->count == 0)
        return LINNET_OK;
    if (engine->max_adapters == 0)
        engine->max_adapters = adapters->count;
    for (size_t i = 0; i < adapters->count && engine->max_adapter_rank == 0; i++) {
        size_t rank;
        linnet_status status = linnet_adapter_read_rank(adapters->items[i].path, &rank, err);
        if (status != LINNET_OK)
            return status;
        most = rank > most ? rank : most;
    }
    if (engine->max_adapter_rank == 0)
        engine->max_adapter_rank = most > 0 ? most : 1;
    return LINNET_OK;
}

linnet_status ln_cli_adapters_load(const ln_cli_adapters *adapters, linnet_engine *engine,
                                   linnet_error *err) {
    linnet_status status = LINNET_OK;
    for (size_t i = 0; i < adapters->count && status == LINNET_OK; i++) {
        const ln_cli_adapter *item = &adapters->items[i];
        status = linnet_engine_load_adapter(engine, item->name, item->path, item->scale, err);
    }
    return status;
}

const char *ln_cli_adapters_first(const ln_cli_adapters *adapters) {
    return adapters->count > 0 ? adapters->items[0].name : NULL;
}

void ln_cli_adapters_free(ln_cli_adapters *adapters) {
    for (size_t i = 0; i < adapters->count; i++) {
        free(adapters->items[i].name);
        free(adapters->items[i].path);
    }
    adapters->count = 0;
}
