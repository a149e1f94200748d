/* Items of a response's input, as messages of a chat. */
#ifndef LN_SERVER_RESPONSES_RESPONSES_ITEMS_H
#define LN_SERVER_RESPONSES_RESPONSES_ITEMS_H

#include "server/generation/chat_builder.h"

/* Adds the messages of a list of items. What the assistant said in items that follow each other,
 * reasoning, text and calls, is one message. Errors count from the place `n_past` on, before which
 * are those that are stored, and `name` is what clients call the list. */
bool ln_responses_items_add(ln_chat_builder *builder, const json_t *items, size_t n_past,
                            const char *name, ln_api_error *error);

#endif
