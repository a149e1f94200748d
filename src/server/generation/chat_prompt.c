#include "server/generation/chat_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "text/chat/reasoning.h"

static bool fail_memory(ln_api_error *error) {
    return ln_api_fail(error, 503, NULL, "out of memory");
}

static bool render_once(const ln_chat_prompt *chat, const linnet_model *model, ln_prompt *prompt,
                        char **text, ln_api_error *error) {
    linnet_error err = {0};
    linnet_chat_options options;
    linnet_chat_options_init(&options);
    char *messages = json_dumps(chat->messages, JSON_COMPACT);
    char *tools = chat->tools != NULL ? json_dumps(chat->tools, JSON_COMPACT) : NULL;
    char *variables = json_dumps(chat->variables, JSON_COMPACT);
    options.messages_json = messages;
    options.tools_json = tools;
    options.variables_json = variables;
    options.omits_answer = chat->omits_answer;
    options.chat_template = chat->chat_template;
    if (messages == NULL || variables == NULL || (chat->tools != NULL && tools == NULL))
        fail_memory(error);
    else if (linnet_model_render_chat(model, &options, &prompt->ids, &prompt->n_ids, text, &err) !=
             LINNET_OK)
        ln_api_fail_with(error, &err, chat->chat_template != NULL ? "chat_template" : "messages");
    free(messages);
    free(tools);
    free(variables);
    return error->status == 0;
}

/* ---- content that is null --------------------------------------------------------------- */

/* Gives messages without content, which have calls, the empty text or null. Returns how many there
 * are that have `from`. */
static size_t replace_content(json_t *messages, json_t *from, json_t *to) {
    size_t index, count = 0;
    json_t *message;
    json_array_foreach(messages, index, message) {
        const json_t *content = json_object_get(message, "content");
        if (json_object_get(message, "tool_calls") == NULL || !json_equal(content, from))
            continue;
        json_object_set(message, "content", to);
        count++;
    }
    return count;
}

static size_t count_none(const char *text) {
    size_t count = 0;
    for (const char *at = text; at != NULL && (at = strstr(at, "None")) != NULL; at++)
        count++;
    return count;
}

/* Whether the prompt that null gave is worse than that of the empty text: it is missing, or the
 * template wrote null down. */
static bool is_worse(const char *with_null, const char *with_empty) {
    return with_null == NULL ||
           (with_empty != NULL && count_none(with_null) > count_none(with_empty));
}

/* Templates take null for what comes with calls, or fail with it, or write "None": these get the
 * empty text. */
static bool render(const ln_chat_prompt *chat, const linnet_model *model, ln_prompt *prompt,
                   char **text, ln_api_error *error) {
    json_t *empty = json_string("");
    ln_prompt other = {0};
    ln_api_error first_error = {0}, second_error = {0};
    char *other_text = NULL;
    if (empty == NULL)
        return fail_memory(error);
    if (replace_content(chat->messages, json_null(), json_null()) == 0) {
        json_decref(empty);
        return render_once(chat, model, prompt, text, error);
    }
    bool done = render_once(chat, model, prompt, text, &first_error);
    replace_content(chat->messages, json_null(), empty);
    bool other_done = render_once(chat, model, &other, &other_text, &second_error);
    json_decref(empty);
    if (other_done && (!done || is_worse(*text, other_text))) {
        const ln_prompt worse = *prompt;
        char *worse_text = *text;
        *prompt = other;
        *text = other_text;
        other = worse;
        other_text = worse_text;
        done = true;
    }
    linnet_free(other.ids);
    linnet_free(other_text);
    if (!done)
        *error = first_error;
    return done;
}

/* ---- answers that are begun ------------------------------------------------------------- */

/* Appends a text to the prompt, its ids and what the template wrote. */
static bool append(const linnet_model *model, const char *bytes, size_t n_bytes, bool has_special,
                   ln_prompt *prompt, char **text, ln_api_error *error) {
    linnet_error err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0, n_text = strlen(*text);
    if (n_bytes == 0)
        return true;
    if (linnet_model_encode(model, bytes, n_bytes, false, has_special, &ids, &n_ids, &err) !=
        LINNET_OK)
        return ln_api_fail_with(error, &err, "messages");
    int32_t *longer = realloc(prompt->ids, (prompt->n_ids + n_ids + 1) * sizeof *longer);
    if (longer != NULL) {
        prompt->ids = longer;
        memcpy(longer + prompt->n_ids, ids, n_ids * sizeof *ids);
    }
    linnet_free(ids);
    if (longer == NULL)
        return fail_memory(error);
    char *longer_text = realloc(*text, n_text + n_bytes + 1);
    if (longer_text == NULL)
        return fail_memory(error);
    *text = longer_text;
    memcpy(longer_text + n_text, bytes, n_bytes);
    longer_text[n_text + n_bytes] = '\0';
    prompt->n_ids += n_ids;
    return true;
}

/* The last message as the answer's beginning. Thoughts that the template begins are closed, since
 * what is continued comes after them. */
static bool append_answer(const json_t *message, const char *source, const linnet_model *model,
                          ln_prompt *prompt, char **text, ln_api_error *error) {
    const ln_reasoning_format *format =
        source != NULL ? ln_reasoning_detect(source, strlen(source)) : NULL;
    char end[64];
    const json_t *content = json_object_get(message, "content");
    const json_t *thoughts = json_object_get(message, "reasoning_content");
    format = format != NULL ? format : ln_reasoning_think();
    int n_end = snprintf(end, sizeof end, "\n%s\n\n", format->end);
    if (ln_reasoning_of_prompt(format, *text, strlen(*text)) == LN_REASONING_OPEN &&
        (!append(model, json_string_value(thoughts), json_string_length(thoughts), false, prompt,
                 text, error) ||
         !append(model, end, (size_t)n_end, true, prompt, text, error)))
        return false;
    return append(model, json_string_value(content), json_string_length(content), false, prompt,
                  text, error);
}

static bool keep_text(const json_t *content, ln_prompt *prompt, ln_api_error *error) {
    prompt->text_bytes = json_string_length(content);
    prompt->text = malloc(prompt->text_bytes + 1);
    if (prompt->text == NULL)
        return fail_memory(error);
    memcpy(prompt->text, json_string_value(content), prompt->text_bytes + 1);
    return true;
}

static bool render_begun(const ln_chat_prompt *chat, const linnet_model *model, ln_prompt *prompt,
                         char **text, ln_api_error *error) {
    size_t n = json_array_size(chat->messages);
    json_t *last = json_array_get(chat->messages, n - 1);
    const json_t *role = json_object_get(last, "role"), *content = json_object_get(last, "content");
    if (strcmp(json_string_value(role), "assistant") != 0 || !json_is_string(content) ||
        json_array_size(json_object_get(last, "tool_calls")) > 0)
        return ln_api_fail(error, 400, "messages",
                           "messages: the last one is no text of the assistant's to continue");
    const char *source = chat->chat_template != NULL ? chat->chat_template : model->chat_source;
    json_incref(last);
    json_array_remove(chat->messages, n - 1);
    bool done = n > 1 ? render(chat, model, prompt, text, error)
                      : ln_api_fail(error, 400, "messages",
                                    "messages has nothing before the text to continue");
    done = done && append_answer(last, source, model, prompt, text, error) &&
           (!chat->keeps_text || keep_text(content, prompt, error));
    json_decref(last);
    return done;
}

bool ln_chat_prompt_render(const ln_chat_prompt *chat, const linnet_model *model, ln_prompt *prompt,
                           char **text, ln_api_error *error) {
    *text = NULL;
    return chat->continues ? render_begun(chat, model, prompt, text, error)
                           : render(chat, model, prompt, text, error);
}
