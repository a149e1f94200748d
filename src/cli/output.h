/* What the commands print: failures, sizes, memory plans, and stdout with its end. */
#ifndef LN_CLI_OUTPUT_H
#define LN_CLI_OUTPUT_H

#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Prints "linnet: ..." as one line to stderr and returns LN_EXIT_FAILURE. */
__attribute__((format(printf, 1, 2))) int ln_cli_fail(const char *format, ...);

/* Prints "linnet: warning: ..." as one line to stderr. */
__attribute__((format(printf, 1, 2))) void ln_cli_warn(const char *format, ...);

/* Prints the message of `err`, with options in the place of the library's fields; returns
 * LN_EXIT_USAGE when an argument was to blame, otherwise LN_EXIT_FAILURE. */
int ln_cli_fail_with(const linnet_error *err);

/* Writes to stdout at once, unbuffered by us; false once stdout is closed or broken. */
bool ln_cli_write(const char *bytes, size_t n_bytes);

/* Flushes stdout at the end of a command. `status` stays unless stdout failed; a reader that has
 * gone away is no failure. */
int ln_cli_finish_stdout(int status);

/* Whether a stream is a terminal that knows escape sequences. */
bool ln_cli_is_terminal(int fd);

/* "7.4 MiB"; the text is `text`. */
typedef struct ln_cli_size {
    char text[24];
} ln_cli_size;
ln_cli_size ln_cli_size_text(size_t bytes);

/* Prints `value` to `stream`, as one line or indented, and frees it; NULL is memory that ran
 * out. Returns the exit status. */
int ln_cli_print_json(FILE *stream, json_t *value, bool indent);

/* Warns when a context is longer than what the model was made for. */
void ln_cli_check_ctx(const linnet_model *model, size_t ctx_tokens);

/* "1 token", "2 tokens"; the plural ends in s. */
typedef struct ln_cli_count {
    char text[48];
} ln_cli_count;
ln_cli_count ln_cli_count_text(size_t count, const char *noun);

/* linnet_engine_create with a bar on standard error meanwhile, when that is a terminal and it takes
 * a while, and the warning about the context; with `quiet` without both. */
linnet_status ln_cli_create_engine(const linnet_model *model, const linnet_engine_options *options,
                                   bool quiet, linnet_engine **engine, linnet_error *err);

/* linnet_model_open of one whose prompts are tokens alone; one with an encoder is refused in the
 * name of `command`. The model is the caller's, also then. */
linnet_status ln_cli_open_decoder(const char *command, const char *path, linnet_model **model,
                                  linnet_error *err);

/* A memory plan as a JSON object on one line. Returns the exit status. */
int ln_cli_print_memory(FILE *stream, const linnet_memory_plan *plan);

#endif
