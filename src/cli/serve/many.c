#include "cli/serve/many.h"

#include <stdio.h>

#include "base/file.h"
#include "base/host/available_memory.h"
#include "cli/output.h"

void ln_cli_many_add(const struct argp_state *state, const char **list, size_t *count,
                     const char *arg) {
    if (*count == LN_CLI_MANY_MAX)
        argp_error(state, "more than %d models", LN_CLI_MANY_MAX);
    list[(*count)++] = arg;
}

linnet_status ln_cli_many_collect(const ln_cli_many *many, const char *first,
                                  ln_cli_catalog *catalog, linnet_error *err) {
    bool is_many = many->n_models > 0 || many->n_lists > 0;
    if (!is_many)
        return first != NULL ? LINNET_OK : ln_cli_catalog_add_cache(catalog, err);
    if (first != NULL)
        LN_TRY(ln_cli_catalog_add_model(catalog, first, err));
    for (size_t i = 0; i < many->n_models; i++)
        LN_TRY(ln_cli_catalog_add_model(catalog, many->models[i], err));
    for (size_t i = 0; i < many->n_lists; i++)
        LN_TRY(ln_cli_catalog_add_path(catalog, many->lists[i], err));
    return LINNET_OK;
}

const char *ln_cli_many_find_option(const ln_cli_many *many) {
    return many->budget.host_bytes > 0     ? "--memory"
           : many->budget.device_bytes > 0 ? "--gpu-memory"
           : many->has_keep_ms             ? "--keep-alive"
                                           : NULL;
}

static size_t look(void *user) {
    const ln_cli_many_source *source = user;
    const ln_cli_many *many = source->many;
    linnet_error err = {0}; /* what cannot be read now is there the next time, or it is not */
    ln_cli_catalog_check(source->catalog);
    if (source->catalog->cache != NULL)
        ln_cli_catalog_add_cache(source->catalog, &err);
    for (size_t i = 0; i < many->n_lists; i++)
        if (ln_file_is_folder(many->lists[i]))
            ln_cli_catalog_add_path(source->catalog, many->lists[i], &err);
    return source->catalog->count;
}

static const ln_model_spec *get(void *user, size_t i) {
    const ln_cli_many_source *source = user;
    return &source->catalog->offers[i]->spec;
}

static bool is_gone(void *user, size_t i) {
    const ln_cli_many_source *source = user;
    return source->catalog->offers[i]->is_gone;
}

static uint64_t identify(void *user, size_t i, bool *is_written) {
    const ln_cli_many_source *source = user;
    return ln_cli_catalog_identify(source->catalog, i, is_written);
}

ln_model_source ln_cli_many_offer(ln_cli_many_source *source) {
    return (ln_model_source){source, look, get, is_gone, identify};
}

/* What this process can still take without swapping, but a tenth; 0: nobody says. */
static size_t read_free_bytes(void) {
    size_t bytes = ln_host_available_memory("");
    return bytes < SIZE_MAX ? bytes / 10 * 9 : 0;
}

ln_memory_need ln_cli_many_budget(const ln_cli_many *many) {
    ln_memory_need budget = many->budget;
    if (budget.host_bytes == 0)
        budget.host_bytes = read_free_bytes();
    return budget;
}

void ln_cli_print_many(const ln_cli_catalog *catalog, const ln_memory_need *budget,
                       const ln_server_options *server) {
    enum { MAX_SHOWN = 20 };
    fprintf(stderr, "models    %zu, loaded when a request names them\n", catalog->count);
    for (size_t i = 0; i < catalog->count && i < MAX_SHOWN; i++)
        fprintf(stderr, "          %-48s %10s\n", catalog->offers[i]->name,
                ln_cli_size_text(catalog->offers[i]->spec.file_bytes).text);
    if (catalog->count > MAX_SHOWN)
        fprintf(stderr, "          and %zu others\n", catalog->count - MAX_SHOWN);
    fprintf(stderr, "memory    %s for loaded models\n", ln_cli_size_text(budget->host_bytes).text);
    if (budget->device_bytes > 0)
        fprintf(stderr, "GPU       %s for loaded models\n",
                ln_cli_size_text(budget->device_bytes).text);
    if (server->has_web_page)
        fputs("pages     / (a chat), /status\n", stderr);
}
