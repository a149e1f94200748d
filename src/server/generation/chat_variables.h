/* Variables of a chat template that a body sets, by the names that servers have for them. */
#ifndef LN_SERVER_GENERATION_CHAT_VARIABLES_H
#define LN_SERVER_GENERATION_CHAT_VARIABLES_H

#include "server/json/fields.h"

/* The fields that are read. */
#define LN_CHAT_VARIABLE_FIELDS                                                                    \
    "chat_template_kwargs", "reasoning_effort", "verbosity", "enable_thinking", "think",           \
        "reasoning", "include_reasoning", "documents"

/* *variables: a new object, of what the server says itself (NULL: nothing) and, over that, the
 * body. *shows_reasoning stays true unless the client wants none. */
bool ln_chat_variables_read(const ln_fields *fields, const json_t *own, json_t **variables,
                            bool *shows_reasoning);

#endif
