/* linnet_model_*, but for chats. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "engine/api/options.h"
#include "model/chat.h"
#include "model/family.h"

linnet_status linnet_model_open(const char *path, linnet_model **model, linnet_error *err) {
    LN_TRY(ln_model_open(path, model, err));
    ln_status status = ln_model_choose_pair_template(*model, err);
    if (status == LINNET_OK)
        return LINNET_OK;
    ln_model_close(*model);
    *model = NULL;
    return status;
}

void linnet_model_close(linnet_model *model) {
    ln_model_close(model);
}

void linnet_model_get_info(const linnet_model *model, linnet_model_info *info) {
    linnet_model_info full = {
        .architecture = model->spec.family->name,
        .name = model->name,
        .n_vocab = (int32_t)model->spec.n_vocab,
        .n_layers = (int32_t)model->spec.n_layers,
        .ctx_tokens = (int64_t)model->spec.ctx_tokens,
        .has_tokenizer = model->tokenizer != NULL,
        .has_chat_template = model->chat_template != NULL,
        .bos_id = model->bos_id,
        .stop_ids = model->stop_ids,
        .n_stop_ids = model->n_stop_ids,
        .has_encoder = model->spec.n_encoder_layers > 0,
        .embeds_only = model->spec.bidirectional || model->spec.lacks_output,
        .n_embedding = (int32_t)ln_head_width(&model->embedding.dense, model->spec.dim),
        .n_labels = (int32_t)ln_head_width(&model->embedding.classes, 0),
        .pooling = model->embedding.dense.pooling,
        .normalizes = model->embedding.normalizes,
        .embed_tokens = (int64_t)model->embedding.max_tokens,
    };
    ln_options_give(&full, sizeof full, info);
}

linnet_status linnet_model_set_chat_template(linnet_model *model, const char *source,
                                             size_t n_bytes, linnet_error *err) {
    LN_TRY(ln_model_set_chat_template(model, source, n_bytes, err));
    return ln_model_choose_pair_template(model, err);
}

linnet_status linnet_model_encode(const linnet_model *model, const char *text, size_t n_bytes,
                                  bool add_special, bool parse_special, int32_t **ids,
                                  size_t *n_ids, linnet_error *err) {
    *ids = NULL;
    *n_ids = 0;
    LN_TRY(ln_model_need_tokenizer(model, err));
    unsigned flags =
        (add_special ? LN_ENCODE_ADD_SPECIAL : 0u) | (parse_special ? LN_ENCODE_PARSE_SPECIAL : 0u);
    ln_ids list = {0};
    ln_status status = ln_tokenizer_encode(model->tokenizer, text, n_bytes, flags, &list, err);
    if (status != LINNET_OK) {
        ln_ids_free(&list);
        return status;
    }
    *ids = list.data;
    *n_ids = list.count;
    return LINNET_OK;
}

linnet_status linnet_model_encode_pair(const linnet_model *model, const char *first,
                                       size_t first_bytes, const char *second, size_t second_bytes,
                                       size_t max_tokens, int32_t **ids, size_t *n_ids,
                                       size_t *n_first_ids, linnet_error *err) {
    return ln_model_encode_pair(model, first, first_bytes, second, second_bytes, max_tokens, ids,
                                n_ids, n_first_ids, err);
}

linnet_status linnet_model_get_prompt(const linnet_model *model, const char *name,
                                      const char **text, linnet_error *err) {
    const ln_embedding *e = &model->embedding;
    char names[192] = "none";
    *text = NULL;
    if (name == NULL || *name == '\0') {
        *text = name == NULL && e->default_prompt != NULL ? e->default_prompt : "";
        return LINNET_OK;
    }
    for (size_t i = 0, used = 0; i < e->n_prompts; i++) {
        if (strcmp(e->prompts[i].name, name) == 0) {
            *text = e->prompts[i].text;
            return LINNET_OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                     e->prompts[i].name);
    }
    return ln_fail(err, LINNET_ERR_ARGUMENT, "there is no prompt \"%.64s\"; the checkpoint has: %s",
                   name, names);
}

linnet_status linnet_model_decode(const linnet_model *model, const int32_t *ids, size_t n_ids,
                                  bool keep_special, char **text, size_t *n_bytes,
                                  linnet_error *err) {
    *text = NULL;
    *n_bytes = 0;
    LN_TRY(ln_model_need_tokenizer(model, err));
    ln_strbuf buf;
    ln_strbuf_init(&buf);
    ln_status status = ln_tokenizer_decode(model->tokenizer, ids, n_ids, keep_special, &buf, err);
    if (status == LINNET_OK && !ln_strbuf_append(&buf, "", 0))
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory decoding %zu tokens", n_ids);
    if (status != LINNET_OK) {
        ln_strbuf_free(&buf);
        return status;
    }
    *n_bytes = buf.len;
    *text = ln_strbuf_take(&buf);
    return LINNET_OK;
}
