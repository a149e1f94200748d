/* Chats: messages through the model's chat template to ids, and pairs of texts, which some models
 * get as a chat. */
#ifndef LN_MODEL_CHAT_H
#define LN_MODEL_CHAT_H

#include "model/model.h"

/* As linnet_model_render_chat, with all options. */
ln_status ln_model_render_chat(const linnet_model *model, const linnet_chat_options *options,
                               int32_t **ids, size_t *n_ids, char **text, ln_error *err);

/* Chooses the template of pairs that are questions (ln_embedding.asks): the chat template, if both
 * roles come out of it, or the usual one. To be called for a model before pairs are encoded, and
 * when its chat template has changed. */
ln_status ln_model_choose_pair_template(linnet_model *model, ln_error *err);

/* As linnet_model_encode_pair. */
ln_status ln_model_encode_pair(const linnet_model *model, const char *first, size_t first_bytes,
                               const char *second, size_t second_bytes, size_t max_tokens,
                               int32_t **ids, size_t *n_ids, size_t *n_first_ids, ln_error *err);

#endif
