/* Reads what a person types, with line editing and a history on a terminal, or the lines of a pipe.
 */
#ifndef LN_CLI_CHAT_LINE_READER_H
#define LN_CLI_CHAT_LINE_READER_H

#include <stdbool.h>

#include "base/strbuf.h"

typedef struct ln_line_reader ln_line_reader;

typedef enum ln_line_result {
    LN_LINE_OK,
    LN_LINE_DISCARDED, /* Ctrl-C: what was typed counts for nothing */
    LN_LINE_END        /* Ctrl-D, or the end of the pipe */
} ln_line_result;

/* With line editing when `editing`, which needs a terminal at stdin and stdout. NULL when memory
 * runs out, or the terminal cannot be edited. */
ln_line_reader *ln_line_reader_create(bool editing);
void ln_line_reader_destroy(ln_line_reader *reader); /* keeps the history; NULL is fine */

/* A line without its line break, appended to `line`. On a terminal `prompt` stands before it. */
ln_line_result ln_line_reader_read(ln_line_reader *reader, const char *prompt, ln_strbuf *line);
/* Puts a text of any lines into the history. */
void ln_line_reader_remember(ln_line_reader *reader, const char *text);

#endif
