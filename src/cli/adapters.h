/* --lora: adapters that commands load. */
#ifndef LN_CLI_ADAPTERS_H
#define LN_CLI_ADAPTERS_H

#include <argp.h>
#include <linnet.h>

enum { LN_CLI_MAX_ADAPTERS = 256 };

typedef struct ln_cli_adapter {
    char *name, *path; /* owned */
    float scale;
} ln_cli_adapter;

/* A child parser's input, zeroed. */
typedef struct ln_cli_adapters {
    ln_cli_adapter items[LN_CLI_MAX_ADAPTERS]; /* [count] */
    size_t count, most; /* how many the command takes; 0: LN_CLI_MAX_ADAPTERS */
} ln_cli_adapters;

extern const struct argp ln_cli_adapters_argp;

/* Makes room for them: max_adapters and max_adapter_rank, unless these are given. Reads their
 * headers. */
linnet_status ln_cli_adapters_plan(const ln_cli_adapters *adapters, linnet_engine_options *engine,
                                   linnet_error *err);
linnet_status ln_cli_adapters_load(const ln_cli_adapters *adapters, linnet_engine *engine,
                                   linnet_error *err);
/* The name of the first, for a request; NULL: there is none. */
const char *ln_cli_adapters_first(const ln_cli_adapters *adapters);
void ln_cli_adapters_free(ln_cli_adapters *adapters);

#endif
