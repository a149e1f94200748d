/* What chat templates call special tokens. */
#ifndef LN_TEXT_CHAT_SPECIAL_TOKENS_H
#define LN_TEXT_CHAT_SPECIAL_TOKENS_H

#include <jansson.h>

#include "format/checkpoint.h"
#include "text/tokenizer/tokenizer.h"

/* Sets bos_token, eos_token, unk_token and pad_token in `context` as far as the checkpoint has
 * them. Returns other than 0 when memory runs out. */
int ln_chat_set_special_tokens(json_t *context, const ln_checkpoint *checkpoint,
                               const ln_tokenizer *tokenizer);

#endif
