/* Messages of a chat: checked, and brought to the form that chat templates expect. */
#ifndef LN_SERVER_GENERATION_CHAT_MESSAGES_H
#define LN_SERVER_GENERATION_CHAT_MESSAGES_H

#include "server/json/fields.h"

/* Changes the messages in place. Content that is missing beside calls becomes null, and of another
 * message of the assistant's the empty text. */
bool ln_api_shape_messages(json_t *messages, ln_api_error *error);

#endif
