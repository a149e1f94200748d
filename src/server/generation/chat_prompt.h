/* The prompt of a chat: its messages as the model's template writes them. */
#ifndef LN_SERVER_GENERATION_CHAT_PROMPT_H
#define LN_SERVER_GENERATION_CHAT_PROMPT_H

#include <jansson.h>

#include "server/generation/request.h"

typedef struct ln_chat_prompt {
    json_t *messages;                /* shaped (chat_messages.h) */
    const json_t *tools, *variables; /* of the template; tools NULL: none */
    const char *chat_template;       /* NULL: the model's */
    bool omits_answer;               /* the template does not begin the assistant's answer */
    bool continues;  /* the last message, the assistant's, is how the answer begins */
    bool keeps_text; /* and its text is wanted with the answer: it becomes prompt->text */
} ln_chat_prompt;

/* Fills the prompt's ids. *text: what the template wrote, NUL-terminated, with what is continued
 * (linnet_free); also set after an error. */
bool ln_chat_prompt_render(const ln_chat_prompt *chat, const linnet_model *model, ln_prompt *prompt,
                           char **text, ln_api_error *error);

#endif
