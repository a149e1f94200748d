/* `linnet chat`: a conversation with a model on a terminal, or over a pipe. */
#ifndef LN_CLI_CHAT_CHAT_H
#define LN_CLI_CHAT_CHAT_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/adapters.h"

/* What `linnet chat' is told. Strings are borrowed. */
typedef struct ln_chat_options {
    const char *system;        /* NULL: none */
    const char *chat_template; /* a file; NULL: the model's own */
    size_t max_tokens;
    bool quiet;
    linnet_engine_options engine;
    const ln_cli_adapters *adapters;
    linnet_sampling sampling;
} ln_chat_options;

/* Talks until the person ends it, with a model that stays the caller's; `path` is what messages
 * call it. Returns the exit status. */
int ln_chat_run(linnet_model *model, const char *path, const ln_chat_options *how);

#endif
