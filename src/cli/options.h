/* Options that several commands share, and the strict reading of their values. A bad value ends
 * the program through argp_error: one line that names the option and what it accepts. */
#ifndef LN_CLI_OPTIONS_H
#define LN_CLI_OPTIONS_H

#include <argp.h>
#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Keys of long options without a letter begin here; each group of options has its own range. */
enum {
    LN_KEYS_COMMAND = 0x100,
    LN_KEYS_ENGINE = 0x200,
    LN_KEYS_SAMPLING = 0x300,
    LN_KEYS_GRAMMAR = 0x400,
    LN_KEYS_ADAPTERS = 0x500,
    LN_KEYS_MODEL = 0x600,
    LN_KEYS_KV_EVENTS = 0x700
};

/* A child parser for the options of every command that makes an engine. Its input is an
 * initialised linnet_engine_options; strings in it are borrowed from argv. */
extern const struct argp ln_cli_engine_argp;
#define LN_CLI_ENGINE_HEADER "Engine (`linnet help engine' lists all of its options):"

/* Sets one option of the engine that does not come from the command line: "--KEY=VALUE", or "--KEY"
 * for one without a value. Strings in `options` are borrowed from `argument`. Errors: ARGUMENT,
 * with the option's name; NOMEM. */
linnet_status ln_cli_set_engine_option(char *argument, linnet_engine_options *options,
                                       linnet_error *err);

/* A child parser for the sampling options. Its input is a linnet_sampling, which it initialises
 * with the library's defaults and a random seed. */
extern const struct argp ln_cli_sampling_argp;
/* The value of the sampling option `name` ("top-k"), as text. */
void ln_cli_sampling_value(const linnet_sampling *sampling, const char *name, char *text,
                           size_t n_bytes);

/* A parser for a command that takes --json (key LN_KEYS_COMMAND) alone; its input is the flag. */
error_t ln_cli_parse_json(int key, char *arg, struct argp_state *state);

/* argp_parse for a command: -h asks for help, too. */
error_t ln_cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Prints all options of the engine, those that --help leaves out too. */
void ln_cli_print_engine_help(FILE *stream);

/* A whole number from min to max. `option` is what the message calls it ("--ctx"). */
uint64_t ln_cli_parse_count(const struct argp_state *state, const char *option, const char *text,
                            uint64_t min, uint64_t max);

/* Bytes from min to max: a whole number, or one with decimals and K, M, G or T for powers of 1024.
 * max is at most INT64_MAX. */
uint64_t ln_cli_parse_bytes(const struct argp_state *state, const char *option, const char *text,
                            uint64_t min, uint64_t max);

/* A finite decimal number from min to max. */
double ln_cli_parse_number(const struct argp_state *state, const char *option, const char *text,
                           double min, double max);

/* Token ids, "5,9,3"; an empty text gives none when `allow_none`. */
typedef struct ln_cli_ids {
    int32_t *ids; /* [count], owned; NULL: not given */
    size_t count;
} ln_cli_ids;
void ln_cli_parse_ids(const struct argp_state *state, const char *text, bool allow_none,
                      ln_cli_ids *ids);

/* Reports an option that was given twice: ends the program when `given`. */
void ln_cli_refuse_twice(const struct argp_state *state, const char *option, bool given);

/* The one argument MODEL, or FILE and the like: keeps `arg` in *slot, refuses a second one. */
void ln_cli_take_argument(const struct argp_state *state, const char **slot, const char *arg);

#endif
