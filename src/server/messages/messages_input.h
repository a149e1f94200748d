/* The body of Anthropic's Messages API as that of a chat completion. */
#ifndef LN_SERVER_MESSAGES_MESSAGES_INPUT_H
#define LN_SERVER_MESSAGES_MESSAGES_INPUT_H

#include "server/json/fields.h"

/* A new object, which shares values with the body; NULL with the error of `fields` set. `counts`:
 * only the prompt's tokens are wanted, so that max_tokens may be missing. */
json_t *ln_messages_input_translate(const ln_fields *fields, bool counts);

#endif
