/* Carries one request through the engine and streams what it gives to stdout. */
#ifndef LN_CLI_GENERATE_H
#define LN_CLI_GENERATE_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_cli_generation {
    linnet_finish finish;
    bool interrupted, stdout_closed;
    size_t n_prompt_tokens, n_output_tokens;
    /* by the engine's clock, however slowly the text is written: */
    uint64_t prompt_ns; /* from the submit to the first token; 0: there was none */
    uint64_t output_ns; /* from the first token to the last */
} ln_cli_generation;

/* Takes each event, in place of what is written to stdout; false when stdout is closed. */
typedef struct ln_cli_sink {
    bool (*take)(void *user, const linnet_event *event);
    void *user;
} ln_cli_sink;

/* Submits `options` and writes the text of each event to stdout as it comes, or with `print_ids`
 * the ids, separated by spaces, on one line; `sink` takes the events instead, unless it is NULL. A
 * first SIGINT, or a stdout that is closed, cancels the request; what was written stays. While
 * a prompt takes long a bar shows it on a terminal, unless `quiet`. Prints what failed; returns the
 * exit status. */
int ln_cli_generate(linnet_engine *engine, const linnet_request_options *options, bool print_ids,
                    bool quiet, const ln_cli_sink *sink, ln_cli_generation *generation);

#endif
