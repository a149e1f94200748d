/* A chat in the shape of OpenAI's chat completions, read from its fields: the prompt that the
 * model's template renders, and how the answer is taken apart. Endpoints of other APIs bring their
 * bodies to this shape (chat_builder.h). */
#ifndef LN_SERVER_GENERATION_CHAT_REQUEST_H
#define LN_SERVER_GENERATION_CHAT_REQUEST_H

#include "server/generation/generate.h"

ln_generation_reader ln_chat_request_read;

/* On a worker: generates what `body`, a chat completion's, asks for. Errors about its messages name
 * the field `messages_name`. NULL: the error is set. */
bool ln_chat_request_generate(ln_api_task *task, json_t *body, const char *messages_name);
/* On a worker: reads `body` and renders its prompt, however long it is, into the task's request. */
bool ln_chat_request_count(ln_api_task *task, json_t *body);

#endif
