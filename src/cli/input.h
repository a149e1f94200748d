/* What the commands read: prompts and texts of any bytes, and where the demo model lies. */
#ifndef LN_CLI_INPUT_H
#define LN_CLI_INPUT_H

#include <linnet.h>
#include <stddef.h>

/* Reads a file of any kind (pipes too), or standard input for a NULL path, byte for byte. *text
 * is NUL-terminated and malloc'd. Prints what failed and returns the exit status. */
int ln_cli_read_text(const char *path, char **text, size_t *n_bytes);

/* Says on a terminal that `what` is read from there. */
void ln_cli_tell_stdin(const char *what);

/* Lets the chat template of a file take the place of the model's. Prints what failed and returns
 * the exit status. */
int ln_cli_set_chat_template(linnet_model *model, const char *path);

/* The path of the model that ships with the program, malloc'd; NULL when it is nowhere. */
char *ln_cli_find_demo_model(void);

#endif
