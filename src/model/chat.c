#include "model/chat.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json/load.h"
#include "text/chat/special_tokens.h"

/* Parses an option's JSON: `what` is its name, an array of objects or one object. */
static ln_status read_json(const char *text, const char *what, bool is_list, json_t **value,
                           ln_error *err) {
    json_error_t where;
    *value =
        ln_json_load_bytes(text, strlen(text), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (*value == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s: line %d, column %d: %s", what, where.line,
                       where.column, where.text);
    size_t index;
    json_t *item;
    bool fits = is_list ? json_is_array(*value) : json_is_object(*value);
    json_array_foreach(*value, index, item) fits = fits && json_is_object(item);
    if (fits)
        return LINNET_OK;
    json_decref(*value);
    *value = NULL;
    return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is not a JSON %s", what,
                   is_list ? "array of objects" : "object");
}

static int set_default(json_t *context, const char *name, const char *text) {
    if (json_object_get(context, name) != NULL)
        return 0;
    return json_object_set_new(context, name, json_string(text));
}

/* The tools as text: indented, unless that is much longer than what came. */
static char *write_functions(const json_t *tools) {
    size_t n_compact = json_dumpb(tools, NULL, 0, JSON_COMPACT);
    size_t n_indented = json_dumpb(tools, NULL, 0, JSON_INDENT(2));
    return json_dumps(tools, n_indented / 8 > n_compact ? JSON_COMPACT : JSON_INDENT(2));
}

/* What templates of Llama 3.1, FireFunction and their like expect beside the usual variables: the
 * date in two forms, and the tools as text. The caller's own win. */
static int set_defaults(json_t *context, const json_t *tools, const struct tm *now) {
    char date[32], date_time[64];
    char *functions = tools != NULL ? write_functions(tools) : NULL;
    strftime(date, sizeof date, "%d %b %Y", now);
    strftime(date_time, sizeof date_time, "%b %d %Y %H:%M:%S", now);
    int failed = set_default(context, "date_string", date);
    failed |= set_default(context, "datetime", date_time);
    failed |= tools != NULL && functions == NULL;
    failed |= set_default(context, "functions", functions != NULL ? functions : "");
    free(functions);
    return failed;
}

/* The template's variables: further ones first, so that the usual ones replace them. */
static ln_status make_context(const linnet_model *model, const linnet_chat_options *options,
                              const struct tm *now, json_t **out, ln_error *err) {
    json_t *messages = NULL, *tools = NULL, *context = NULL;
    *out = NULL;
    ln_status status = read_json(options->messages_json, "messages", true, &messages, err);
    if (status == LINNET_OK && options->tools_json != NULL)
        status = read_json(options->tools_json, "tools", true, &tools, err);
    if (status == LINNET_OK && options->variables_json != NULL)
        status = read_json(options->variables_json, "variables", false, &context, err);
    if (status != LINNET_OK) {
        json_decref(messages);
        json_decref(tools);
        return status;
    }
    if (context == NULL)
        context = json_object();
    int failed = context == NULL || set_defaults(context, tools, now) != 0;
    failed |= json_object_set_new(context, "messages", messages);
    failed |= json_object_set_new(context, "tools", tools != NULL ? tools : json_null());
    failed |=
        json_object_set_new(context, "add_generation_prompt", json_boolean(!options->omits_answer));
    if (json_object_get(context, "documents") == NULL)
        failed |= json_object_set_new(context, "documents", json_null());
    failed |= ln_chat_set_special_tokens(context, model->checkpoint, model->tokenizer);
    if (!failed) {
        *out = context;
        return LINNET_OK;
    }
    json_decref(context);
    return ln_fail_memory(err, "the chat template");
}

/* Says why there is no chat: no tokenizer, no template, or one that does not compile. */
static ln_status need_template(const linnet_model *model, ln_error *err) {
    const char *path = ln_checkpoint_path(model->checkpoint);
    const char *source = model->chat_source;
    if (model->chat_template != NULL)
        return LINNET_OK;
    if (model->tokenizer == NULL)
        return ln_fail(err, LINNET_ERR_STATE, "%s has no tokenizer", path);
    if (source == NULL)
        return ln_fail(err, LINNET_ERR_STATE, "%s has no chat template", path);
    ln_jinja_template *compiled;
    ln_status status = ln_jinja_compile(source, strlen(source), "chat template", &compiled, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, path);
    ln_jinja_free(compiled);
    return ln_fail(err, LINNET_ERR_STATE, "the chat template of %s did not compile", path);
}

/* The template of the options, compiled, or the model's. *own: what to free. */
static ln_status choose_template(const linnet_model *model, const linnet_chat_options *options,
                                 const ln_jinja_template **chosen, ln_jinja_template **own,
                                 ln_error *err) {
    const char *source = options->chat_template;
    *own = NULL;
    if (source == NULL) {
        LN_TRY(need_template(model, err));
        *chosen = model->chat_template;
        return LINNET_OK;
    }
    LN_TRY(ln_model_need_tokenizer(model, err));
    LN_TRY(ln_jinja_compile(source, strlen(source), "chat_template", own, err));
    *chosen = *own;
    return LINNET_OK;
}

/* Renders into `output` and encodes that. */
static ln_status render(const linnet_model *model, const ln_jinja_template *source, json_t *context,
                        const struct tm *now, ln_jinja_output *output, ln_ids *ids, ln_error *err) {
    LN_TRY(ln_jinja_render(source, context, now, output, err));
    return ln_tokenizer_encode_spans(model->tokenizer, output->text.data, output->text.len,
                                     output->spans, output->n_spans, ids, err);
}

/* Renders and encodes by a template. text may be NULL. */
static ln_status render_by(const linnet_model *model, const ln_jinja_template *source,
                           const linnet_chat_options *options, int32_t **ids, size_t *n_ids,
                           char **text, ln_error *err) {
    json_t *context = NULL;
    ln_jinja_output output = {0};
    ln_ids list = {0};
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    ln_status status = make_context(model, options, &now, &context, err);
    if (status == LINNET_OK)
        status = render(model, source, context, &now, &output, &list, err);
    if (status == LINNET_OK && text != NULL) {
        ln_strbuf_append(&output.text, "", 0);
        *text = ln_strbuf_take(&output.text);
        if (*text == NULL)
            status = ln_fail_memory(err, "the chat template");
    }
    if (status == LINNET_OK) {
        *ids = list.data;
        *n_ids = list.count;
    } else {
        ln_ids_free(&list);
    }
    ln_jinja_output_free(&output);
    json_decref(context);
    return status;
}

ln_status ln_model_render_chat(const linnet_model *model, const linnet_chat_options *options,
                               int32_t **ids, size_t *n_ids, char **text, ln_error *err) {
    const ln_jinja_template *chosen = NULL;
    ln_jinja_template *own;
    *ids = NULL;
    *n_ids = 0;
    if (text != NULL)
        *text = NULL;
    if (options->messages_json == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "messages_json is NULL");
    LN_TRY(choose_template(model, options, &chosen, &own, err));
    ln_status status = render_by(model, chosen, options, ids, n_ids, text, err);
    if (own != NULL)
        ln_jinja_free(own);
    return status;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* As the model card of Qwen3-Reranker has it. */
static const char usual_template[] =
    "{%- set system = messages | selectattr('role', 'equalto', 'system') | list -%}\n"
    "{%- set query = messages | selectattr('role', 'equalto', 'query') | list -%}\n"
    "{%- set document = messages | selectattr('role', 'equalto', 'document') | list -%}\n"
    "{{- '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
    "and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: ' -}}\n"
    "{{- system[0].content if system else 'Given a web search query, retrieve relevant passages "
    "that answer the query' -}}\n"
    "{{- '\n<Query>: ' + query[0].content + '\n<Document>: ' + document[0].content -}}\n"
    "{{- '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n' -}}\n";

/* The messages that a pair becomes in sentence-transformers: the prompt, the query, the document.
 */
static char *make_messages(const linnet_model *model, const char *first, size_t first_bytes,
                           const char *second, size_t second_bytes) {
    const char *prompt = model->embedding.default_prompt;
    json_t *list = json_array(), *message;
    int failed = list == NULL;
    if (prompt != NULL && *prompt != '\0') {
        message = json_pack("{s:s,s:s}", "role", "system", "content", prompt);
        failed |= json_array_append_new(list, message);
    }
    message = json_pack("{s:s,s:s%}", "role", "query", "content", first, first_bytes);
    failed |= json_array_append_new(list, message);
    message = json_pack("{s:s,s:s%}", "role", "document", "content", second, second_bytes);
    failed |= json_array_append_new(list, message);
    char *text = failed ? NULL : json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

/* Whether both texts of a pair come out of the model's own template. Errors: NOMEM. */
static ln_status find_roles(const linnet_model *model, bool *has_roles, ln_error *err) {
    static const char query[] = "Which rivers?", document[] = "Mountains.";
    int32_t *ids = NULL;
    size_t n_ids;
    char *text = NULL;
    ln_error refused = {0};
    *has_roles = false;
    if (model->chat_template == NULL)
        return LINNET_OK;
    char *messages = make_messages(model, query, strlen(query), document, strlen(document));
    if (messages == NULL)
        return ln_fail_memory(err, "the chat template");
    linnet_chat_options options = {.struct_bytes = sizeof options, .messages_json = messages};
    ln_status status =
        render_by(model, model->chat_template, &options, &ids, &n_ids, &text, &refused);
    *has_roles =
        status == LINNET_OK && strstr(text, query) != NULL && strstr(text, document) != NULL;
    free(messages);
    free(ids);
    free(text);
    return status == LINNET_ERR_NOMEM ? ln_fail(err, status, "%s", refused.message) : LINNET_OK;
}

ln_status ln_model_choose_pair_template(linnet_model *model, ln_error *err) {
    bool has_roles;
    if (!model->embedding.asks || model->tokenizer == NULL)
        return LINNET_OK;
    LN_TRY(find_roles(model, &has_roles, err));
    if (has_roles && model->pair_template != NULL) {
        ln_jinja_free(model->pair_template);
        model->pair_template = NULL;
    }
    if (has_roles || model->pair_template != NULL)
        return LINNET_OK;
    return ln_jinja_compile(usual_template, strlen(usual_template), "template of pairs",
                            &model->pair_template, err);
}

static ln_status encode_question(const linnet_model *model, const char *first, size_t first_bytes,
                                 const char *second, size_t second_bytes, int32_t **ids,
                                 size_t *n_ids, ln_error *err) {
    const ln_jinja_template *source =
        model->pair_template != NULL ? model->pair_template : model->chat_template;
    LN_BUG_ON(source == NULL); /* one was chosen */
    char *messages = make_messages(model, first, first_bytes, second, second_bytes);
    linnet_chat_options options = {.struct_bytes = sizeof options, .messages_json = messages};
    if (messages == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "a text of the pair is not UTF-8");
    ln_status status = render_by(model, source, &options, ids, n_ids, NULL, err);
    free(messages);
    return status;
}

/* Takes ids off the end of the document, in front of what stands behind it. */
static ln_status cut_question(const linnet_model *model, const char *first, size_t first_bytes,
                              size_t max_tokens, int32_t *ids, size_t *n_ids, ln_error *err) {
    int32_t *bare;
    size_t n_bare, n_behind = 0;
    LN_TRY(encode_question(model, first, first_bytes, "", 0, &bare, &n_bare, err));
    while (n_behind < n_bare && n_behind < max_tokens &&
           bare[n_bare - 1 - n_behind] == ids[*n_ids - 1 - n_behind])
        n_behind++;
    free(bare);
    memmove(ids + max_tokens - n_behind, ids + *n_ids - n_behind, n_behind * sizeof *ids);
    *n_ids = max_tokens;
    return LINNET_OK;
}

static ln_status encode_plainly(const linnet_model *model, const char *first, size_t first_bytes,
                                const char *second, size_t second_bytes, size_t max_tokens,
                                int32_t **ids, size_t *n_ids, size_t *n_first_ids, ln_error *err) {
    ln_ids list = {0};
    ln_status status = ln_tokenizer_encode_pair(model->tokenizer, first, first_bytes, second,
                                                second_bytes, max_tokens, &list, n_first_ids, err);
    if (status != LINNET_OK) {
        ln_ids_free(&list);
        return status;
    }
    *ids = list.data;
    *n_ids = list.count;
    return LINNET_OK;
}

ln_status ln_model_encode_pair(const linnet_model *model, const char *first, size_t first_bytes,
                               const char *second, size_t second_bytes, size_t max_tokens,
                               int32_t **ids, size_t *n_ids, size_t *n_first_ids, ln_error *err) {
    *ids = NULL;
    *n_ids = *n_first_ids = 0;
    LN_TRY(ln_model_need_tokenizer(model, err));
    if (second == NULL || !model->embedding.asks)
        return encode_plainly(model, first, first_bytes, second, second_bytes, max_tokens, ids,
                              n_ids, n_first_ids, err);
    LN_TRY(encode_question(model, first, first_bytes, second, second_bytes, ids, n_ids, err));
    ln_status status = LINNET_OK;
    if (max_tokens > 0 && *n_ids > max_tokens)
        status = cut_question(model, first, first_bytes, max_tokens, *ids, n_ids, err);
    if (status == LINNET_OK)
        return LINNET_OK;
    free(*ids);
    *ids = NULL;
    *n_ids = 0;
    return status;
}
