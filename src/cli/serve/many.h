/* `linnet serve` with several models: what was asked for, and what it prints. */
#ifndef LN_CLI_SERVE_MANY_H
#define LN_CLI_SERVE_MANY_H

#include <argp.h>

#include "cli/serve/catalog.h"
#include "server/server.h"

enum { LN_CLI_MANY_MAX = 256 };

typedef struct ln_cli_many {
    const char *models[LN_CLI_MANY_MAX]; /* [n_models] behind the first one; argv's, as are lists */
    size_t n_models;
    const char *lists[LN_CLI_MANY_MAX]; /* [n_lists] folders and files */
    size_t n_lists;
    ln_memory_need budget; /* 0: what is free */
    int64_t keep_ms;
    bool has_keep_ms; /* it was given */
} ln_cli_many;

/* Adds an argument to a list of the above; ends the program when it is full. */
void ln_cli_many_add(const struct argp_state *state, const char **list, size_t *count,
                     const char *arg);

/* Collects what was named, `first` too; without any name what the hub's cache has. */
linnet_status ln_cli_many_collect(const ln_cli_many *many, const char *first,
                                  ln_cli_catalog *catalog, linnet_error *err);

/* What was given that says how several models share memory, by the option's name; NULL: nothing. */
const char *ln_cli_many_find_option(const ln_cli_many *many);

/* The memory that models may take: as was given, or what is free. */
ln_memory_need ln_cli_many_budget(const ln_cli_many *many);

/* The same for a server, with what comes into the folders or the cache while it runs. */
typedef struct ln_cli_many_source {
    const ln_cli_many *many;
    ln_cli_catalog *catalog; /* as collected */
} ln_cli_many_source;
ln_model_source ln_cli_many_offer(ln_cli_many_source *source);

void ln_cli_print_many(const ln_cli_catalog *catalog, const ln_memory_need *budget,
                       const ln_server_options *server);

#endif
