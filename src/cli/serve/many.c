#include "cli/serve/many.h"

#include <stdio.h>

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

/* What programs can have without others being written to disk, but a tenth; 0: nobody says. */
static size_t read_free_bytes(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    size_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib * 1024 / 10 * 9;
}

ln_memory_need ln_cli_many_budget(const ln_cli_many *many) {
    ln_memory_need budget = many->budget;
    if (budget.host_bytes == 0)
        budget.host_bytes = read_free_bytes();
    return budget;
}

void ln_cli_print_many(const ln_model_spec *specs, size_t n_specs, const ln_memory_need *budget,
                       const ln_server_options *server) {
    enum { MAX_SHOWN = 20 };
    fprintf(stderr, "models    %zu, loaded when a request names them\n", n_specs);
    for (size_t i = 0; i < n_specs && i < MAX_SHOWN; i++)
        fprintf(stderr, "          %-48s %10s\n", specs[i].name,
                ln_cli_size_text(specs[i].file_bytes).text);
    if (n_specs > MAX_SHOWN)
        fprintf(stderr, "          and %zu others\n", n_specs - MAX_SHOWN);
    fprintf(stderr, "memory    %s for loaded models\n", ln_cli_size_text(budget->host_bytes).text);
    if (budget->device_bytes > 0)
        fprintf(stderr, "GPU       %s for loaded models\n",
                ln_cli_size_text(budget->device_bytes).text);
    if (server->has_web_page)
        fputs("pages     / (a chat), /status\n", stderr);
}
