/* What `linnet convert` and `linnet quantize` share: options, and a bar that shows progress
 * (`linnet eval` has one, too). */
#ifndef LN_CLI_CONVERT_CONVERSION_H
#define LN_CLI_CONVERT_CONVERSION_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/quantize/gguf.h"
#include "format/quantize/mix.h"

typedef struct ln_cli_conversion {
    const ln_mix *mix;   /* NULL: not given */
    ln_keep_rule *rules; /* [n_rules], owned */
    size_t n_rules, n_threads;
} ln_cli_conversion;

/* A child parser for --type, --keep and --threads. Its input is a zeroed ln_cli_conversion. */
extern const struct argp ln_cli_conversion_argp;
extern const struct argp_child ln_cli_conversion_children[];
void ln_cli_conversion_free(ln_cli_conversion *conversion);

/* Takes two arguments, the second one the new file. */
void ln_cli_take_two(const struct argp_state *state, const char **from, const char **to,
                     const char *arg);

/* A callback for progress: draws a bar on stderr when that is a terminal, and returns false after
 * SIGINT or SIGTERM. `user` is an ln_cli_bar, zeroed. */
typedef struct ln_cli_bar {
    const char *unit; /* what is counted; NULL: bytes */
    uint64_t drawn_ns;
    bool drawn;
} ln_cli_bar;
bool ln_cli_bar_show(void *user, uint64_t done, uint64_t total);
/* Wipes the bar, before anything else is printed. */
void ln_cli_bar_end(ln_cli_bar *bar);

/* Opens the checkpoint `from` and has `write` make the file `to` of it, with a bar, until SIGINT or
 * SIGTERM. Says the file's size on stderr. Returns the exit status. */
typedef linnet_status ln_cli_write_fn(void *user, const ln_checkpoint *checkpoint,
                                      const ln_quantize_options *how, linnet_error *err);
int ln_cli_conversion_run(const ln_cli_conversion *conversion, const char *from, const char *to,
                          ln_cli_write_fn *write, void *user);

#endif
