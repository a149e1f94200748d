/* Chats: messages through the checkpoint's chat template to ids. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "model/model.h"

/* Sets `name` to a special token's text, as the template would see it in transformers: what
 * tokenizer_config.json says (a string, or an object with `content`), else the piece of `id`. */
static int set_token(json_t *context, const linnet_model *model, const char *name, int32_t id) {
    char key[64];
    ln_meta_value value;
    snprintf(key, sizeof key, "%s.content", name);
    bool found = ln_checkpoint_tokenizer_meta(model->checkpoint, name, &value) &&
                 value.kind == LN_META_STRING;
    found = found || (ln_checkpoint_tokenizer_meta(model->checkpoint, key, &value) &&
                      value.kind == LN_META_STRING);
    size_t n_bytes = 0;
    const char *text = NULL;
    if (found) {
        text = value.string.data;
        n_bytes = value.string.bytes;
    } else if (id >= 0) {
        text = ln_tokenizer_piece(model->tokenizer, id, &n_bytes);
    }
    if (text == NULL)
        return 0;
    return json_object_set_new(context, name, json_stringn(text, n_bytes));
}

/* The template's variables; takes over the reference to `messages`. */
static json_t *make_context(const linnet_model *model, json_t *messages) {
    json_t *context = json_object();
    int failed = context == NULL;
    failed |= json_object_set_new(context, "messages", messages);
    failed |= json_object_set_new(context, "add_generation_prompt", json_true());
    failed |= json_object_set_new(context, "tools", json_null());
    failed |= json_object_set_new(context, "documents", json_null());
    failed |= set_token(context, model, "bos_token", ln_tokenizer_bos(model->tokenizer));
    failed |= set_token(context, model, "eos_token", ln_tokenizer_eos(model->tokenizer));
    failed |= set_token(context, model, "unk_token", -1);
    failed |= set_token(context, model, "pad_token", -1);
    if (!failed)
        return context;
    json_decref(context);
    return NULL;
}

static ln_status read_messages(const char *text, json_t **messages, ln_error *err) {
    json_error_t where;
    *messages = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (*messages == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "messages: line %d, column %d: %s", where.line,
                       where.column, where.text);
    size_t index;
    json_t *message;
    json_array_foreach(*messages, index, message) if (!json_is_object(message)) break;
    if (json_is_array(*messages) && index == json_array_size(*messages))
        return LINNET_OK;
    json_decref(*messages);
    return ln_fail(err, LINNET_ERR_ARGUMENT, "messages is not a JSON array of objects");
}

/* Says why there is no chat: no tokenizer, no template, or one that does not compile. */
static ln_status need_template(const linnet_model *model, ln_error *err) {
    const char *path = ln_checkpoint_path(model->checkpoint);
    const char *source = ln_checkpoint_chat_template(model->checkpoint);
    if (model->chat_template != NULL)
        return LINNET_OK;
    if (model->tokenizer == NULL)
        return ln_fail(err, LINNET_ERR_STATE, "%s has no tokenizer", path);
    if (source == NULL)
        return ln_fail(err, LINNET_ERR_STATE, "%s has no chat template", path);
    ln_template *compiled;
    ln_status status = ln_template_compile(source, strlen(source), "chat template", &compiled, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, path);
    ln_template_free(compiled);
    return ln_fail(err, LINNET_ERR_STATE, "the chat template of %s did not compile", path);
}

linnet_status linnet_model_encode_chat(const linnet_model *model, const char *messages_json,
                                       int32_t **ids, size_t *n_ids, linnet_error *err) {
    json_t *messages;
    *ids = NULL;
    *n_ids = 0;
    LN_TRY(need_template(model, err));
    LN_TRY(read_messages(messages_json, &messages, err));
    json_t *context = make_context(model, messages);
    if (context == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the chat template");
    time_t seconds = time(NULL);
    struct tm now;
    ln_template_output output = {0};
    ln_ids list = {0};
    localtime_r(&seconds, &now);
    ln_status status = ln_template_render(model->chat_template, context, &now, &output, err);
    if (status == LINNET_OK)
        status = ln_tokenizer_encode_spans(model->tokenizer, output.text.data, output.text.len,
                                           output.spans, output.n_spans, &list, err);
    if (status == LINNET_OK) {
        *ids = list.data;
        *n_ids = list.count;
    } else {
        ln_ids_free(&list);
    }
    ln_template_output_free(&output);
    json_decref(context);
    return status;
}
