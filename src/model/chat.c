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
    return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the chat template");
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

ln_status ln_model_render_chat(const linnet_model *model, const linnet_chat_options *options,
                               int32_t **ids, size_t *n_ids, char **text, ln_error *err) {
    json_t *context = NULL;
    const ln_jinja_template *chosen = NULL;
    ln_jinja_template *own;
    *ids = NULL;
    *n_ids = 0;
    if (text != NULL)
        *text = NULL;
    if (options->messages_json == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "messages_json is NULL");
    LN_TRY(choose_template(model, options, &chosen, &own, err));
    ln_jinja_output output = {0};
    ln_ids list = {0};
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    ln_status status = make_context(model, options, &now, &context, err);
    if (status == LINNET_OK)
        status = render(model, chosen, context, &now, &output, &list, err);
    if (status == LINNET_OK && text != NULL) {
        ln_strbuf_append(&output.text, "", 0);
        *text = ln_strbuf_take(&output.text);
        if (*text == NULL)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the chat template");
    }
    if (status == LINNET_OK) {
        *ids = list.data;
        *n_ids = list.count;
    } else {
        ln_ids_free(&list);
    }
    ln_jinja_output_free(&output);
    json_decref(context);
    if (own != NULL)
        ln_jinja_free(own);
    return status;
}
