/* Chats: messages through the model's chat template to ids. */
#ifndef LN_MODEL_CHAT_H
#define LN_MODEL_CHAT_H

#include "model/model.h"

/* As linnet_model_render_chat, with all options. */
ln_status ln_model_render_chat(const linnet_model *model, const linnet_chat_options *options,
                               int32_t **ids, size_t *n_ids, char **text, ln_error *err);

#endif
