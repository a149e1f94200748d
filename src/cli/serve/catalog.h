/* The models that `linnet serve` offers when it has several: what they are called, where they lie,
 * and with which options their engines are made. */
#ifndef LN_CLI_SERVE_CATALOG_H
#define LN_CLI_SERVE_CATALOG_H

#include <linnet.h>
#include <stddef.h>

#include "server/models/loader.h"

typedef struct ln_cli_offer {
    char *name, *path, *template; /* owned; template, the source of a chat template: NULL: none */
    char **arguments;             /* [n_arguments], owned: options of the engine point into them */
    size_t n_arguments;
    bool has_config; /* it is a folder with one */
    bool is_gone;    /* its files are no longer there */
    bool is_cached;  /* the path is what the hub's cache has for the name, which may change */
    ln_model_spec spec;
} ln_cli_offer;

typedef struct ln_cli_catalog {
    ln_cli_offer **offers; /* [count], owned */
    size_t count;
    char *cache;                  /* the hub's, once it was listed; owned */
    linnet_engine_options engine; /* of models that say nothing else */
    int64_t keep_ms;
} ln_cli_catalog;

/* Each adds to the catalog what it does not have; errors name what is wrong. */
/* A path, or a name of the hub's cache, "hf:" and a name as well; it must be there. */
linnet_status ln_cli_catalog_add_model(ln_cli_catalog *catalog, const char *model,
                                       linnet_error *err);
/* A folder: its GGUF files, and folders with a config.json; or a file of names and options. */
linnet_status ln_cli_catalog_add_path(ln_cli_catalog *catalog, const char *path, linnet_error *err);
/* What the hub's cache has. */
linnet_status ln_cli_catalog_add_cache(ln_cli_catalog *catalog, linnet_error *err);

/* Notes which models are gone, and which of these are back. One that has lost its name to another
 * stays gone. */
void ln_cli_catalog_check(ln_cli_catalog *catalog);

/* Measures the files of a model anew: a number for them, which is another one when they have been
 * replaced, in folders any of them, or when the hub's cache has another commit. *is_written: one
 * has changed within the last second, or none is there. Nobody opens the model meanwhile. */
uint64_t ln_cli_catalog_identify(ln_cli_catalog *catalog, size_t i, bool *is_written);

void ln_cli_catalog_free(ln_cli_catalog *catalog);

#endif
