/* Messages of a chat: checked, and brought to the form that chat templates expect. */
#ifndef LN_SERVER_GENERATION_CHAT_MESSAGES_H
#define LN_SERVER_GENERATION_CHAT_MESSAGES_H

#include "server/json/fields.h"

/* Changes the messages in place. With `fills_content`, for templates that do not know of calls,
 * content that is null becomes "". */
bool ln_api_shape_messages(json_t *messages, bool fills_content, ln_api_error *error);

#endif
