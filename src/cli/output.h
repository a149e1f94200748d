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

/* "1 token", "2 tokens"; the plural ends in s. */
typedef struct ln_cli_count {
    char text[48];
} ln_cli_count;
ln_cli_count ln_cli_count_text(size_t count, const char *noun);

/* Who drafts, how much, and when: "mtp: up to 2 tokens in steps of up to 4 sequences"; the text is
 * `text`. */
typedef struct ln_cli_drafts {
    char text[128];
} ln_cli_drafts;
ln_cli_drafts ln_cli_drafts_text(const linnet_memory_plan *plan);

/* The first lines of `run' and `serve': what the model is, and how the engine runs it. */
void ln_cli_print_settings(const char *path, const linnet_model_info *info,
                           const linnet_memory_plan *plan);

/* A memory plan as a JSON object on one line. Returns the exit status. */
int ln_cli_print_memory(FILE *stream, const linnet_memory_plan *plan);

#endif
