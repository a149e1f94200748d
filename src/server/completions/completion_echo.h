/* What `echo` shows of a completion's prompt: its text, and where in it each token begins. */
#ifndef LN_SERVER_COMPLETIONS_COMPLETION_ECHO_H
#define LN_SERVER_COMPLETIONS_COMPLETION_ECHO_H

#include "server/generation/request.h"

/* Which of a prompt's ids are its text; those around it are not shown. */
typedef struct ln_shown_ids {
    size_t begin, end;
} ln_shown_ids;

/* Those of a text that was encoded with special tokens around it. */
bool ln_completion_echo_find(const linnet_model *model, const json_t *text, const ln_prompt *prompt,
                             ln_shown_ids *shown, ln_api_error *error);

/* Sets the prompt's text and offsets. `text` is what the client wrote, and shown as it is; NULL: it
 * sent ids, whose text is shown, with the special tokens among them where the request keeps
 * those. */
bool ln_completion_echo_keep(const linnet_model *model, const json_t *text, ln_shown_ids shown,
                             const ln_generation_request *request, ln_prompt *prompt,
                             ln_api_error *error);

#endif
