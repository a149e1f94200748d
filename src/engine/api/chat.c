/* linnet_model_render_chat, linnet_model_encode_chat. */
#include "model/chat.h"

#include "engine/api/options.h"

void linnet_chat_options_init(linnet_chat_options *options) {
    *options = (linnet_chat_options){.struct_bytes = sizeof *options};
}

linnet_status linnet_model_render_chat(const linnet_model *model,
                                       const linnet_chat_options *options, int32_t **ids,
                                       size_t *n_ids, char **text, linnet_error *err) {
    linnet_chat_options own;
    *ids = NULL;
    *n_ids = 0;
    if (text != NULL)
        *text = NULL;
    linnet_chat_options_init(&own);
    LN_TRY(ln_options_take(options, &own, sizeof own, "linnet_chat_options", err));
    return ln_model_render_chat(model, &own, ids, n_ids, text, err);
}

linnet_status linnet_model_encode_chat(const linnet_model *model, const char *messages_json,
                                       int32_t **ids, size_t *n_ids, linnet_error *err) {
    linnet_chat_options options;
    linnet_chat_options_init(&options);
    options.messages_json = messages_json;
    return linnet_model_render_chat(model, &options, ids, n_ids, NULL, err);
}
