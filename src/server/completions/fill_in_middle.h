/* Prompts of models that write what is missing between two texts. */
#ifndef LN_SERVER_COMPLETIONS_FILL_IN_MIDDLE_H
#define LN_SERVER_COMPLETIONS_FILL_IN_MIDDLE_H

#include "server/completions/completion_echo.h"
#include "server/generation/request.h"

/* Makes the prompt, which is encoded, one that asks for the text between it and the suffix, by the
 * tokens that the model's vocabulary has for it; error 400 about "suffix" when it has none.
 * *shown: the prompt's own ids, before and after. */
bool ln_fill_in_middle(ln_prompt *prompt, const char *suffix, const linnet_model *model,
                       const linnet_model_info *info, ln_shown_ids *shown, ln_api_error *error);

#endif
