#include "server/generation/chat_prompt.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/siphash.h"
#include "base/json/load.h"
#include "model/model.h"
#include "text/chat/reasoning.h"

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
        ln_api_fail_memory(error);
    else if (linnet_model_render_chat(model, &options, &prompt->ids, &prompt->n_ids, text, &err) !=
             LINNET_OK)
        ln_api_fail_with(error, &err, chat->chat_template != NULL ? "chat_template" : "messages");
    free(messages);
    free(tools);
    free(variables);
    return error->status == 0;
}

/* ---- what templates differ in ----------------------------------------------------------- */

/* Other ways to write tool calls down, for templates that fail with the usual one. */
enum {
    STRING_ARGUMENTS = 1, /* as clients send them, not the object in them */
    EMPTY_CONTENT = 2,    /* beside calls, not null */
    SHORT_IDS = 4,        /* nine letters and digits, which Mistral's ask for */
    N_SHAPES = 8
};

typedef struct rendered {
    bool is_done;
    ln_prompt prompt;
    char *text;
    ln_api_error error;
} rendered;

static void free_rendered(rendered *r) {
    linnet_free(r->prompt.ids);
    linnet_free(r->text);
}

static bool is_short_id(const char *id) {
    size_t n = strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return n == 9 && id[n] == '\0';
}

/* The same id for the same text. False: it is as it should be. */
static bool shorten_id(json_t *object, const char *key) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    static const uint64_t no_secret[2];
    const char *id = json_string_value(json_object_get(object, key));
    char text[10] = {0};
    if (id == NULL || is_short_id(id))
        return false;
    uint64_t hash = ln_siphash(no_secret, id, strlen(id));
    for (size_t i = 0; i < sizeof text - 1; i++, hash /= 36)
        text[i] = digits[hash % 36];
    return json_object_set_new(object, key, json_string(text)) == 0;
}

static bool dump_arguments(json_t *call) {
    json_t *function = json_object_get(call, "function");
    const json_t *arguments = json_object_get(function, "arguments");
    char *text = json_is_object(arguments) ? json_dumps(arguments, 0) : NULL;
    bool done =
        text != NULL && json_object_set_new(function, "arguments", json_string_nocheck(text)) == 0;
    free(text);
    return done;
}

/* Returns which of the ways change the message. */
static unsigned shape_message(json_t *message, unsigned shape) {
    unsigned changed = 0;
    size_t index;
    json_t *call, *calls = json_object_get(message, "tool_calls");
    if ((shape & SHORT_IDS) && shorten_id(message, "tool_call_id"))
        changed |= SHORT_IDS;
    if ((shape & EMPTY_CONTENT) && calls != NULL &&
        json_is_null(json_object_get(message, "content")) &&
        json_object_set_new(message, "content", json_string("")) == 0)
        changed |= EMPTY_CONTENT;
    json_array_foreach(calls, index, call) {
        if ((shape & SHORT_IDS) && shorten_id(call, "id"))
            changed |= SHORT_IDS;
        if ((shape & STRING_ARGUMENTS) && dump_arguments(call))
            changed |= STRING_ARGUMENTS;
    }
    return changed;
}

/* A changed copy, the caller's, and which of the ways have changed it; NULL: there is no memory. */
static json_t *shape_messages(const json_t *messages, unsigned shape, unsigned *changed) {
    size_t index;
    json_t *message, *copy;
    *changed = 0;
    copy = json_deep_copy(messages);
    json_array_foreach(copy, index, message) {
        *changed |= shape_message(message, shape);
    }
    if (copy == NULL || !ln_json_memory_failed())
        return copy;
    json_decref(copy); /* which lacks something */
    return NULL;
}

/* Which ways there are for these messages. */
static bool find_shapes(const json_t *messages, unsigned *shapes, ln_api_error *error) {
    json_t *copy = shape_messages(messages, N_SHAPES - 1, shapes);
    if (copy == NULL) {
        *error = (ln_api_error){0}; /* instead of what the first way has met */
        return ln_api_fail_memory(error);
    }
    json_decref(copy);
    return true;
}

static void render_shape(const ln_chat_prompt *chat, const linnet_model *model, unsigned shape,
                         rendered *r) {
    unsigned changed;
    ln_chat_prompt shaped = *chat;
    shaped.messages = shape_messages(chat->messages, shape, &changed);
    *r = (rendered){0};
    r->is_done = shaped.messages != NULL
                     ? render_once(&shaped, model, &r->prompt, &r->text, &r->error)
                     : ln_api_fail_memory(&r->error);
    json_decref(shaped.messages);
}

/* Another way would make no difference to this error. */
static bool is_final(const ln_api_error *error) {
    return error->status == 503 || error->code != NULL; /* no memory; too much for a rendering */
}

static size_t count_none(const char *text) {
    size_t count = 0;
    for (const char *at = text; at != NULL && (at = strstr(at, "None")) != NULL; at++)
        count++;
    return count;
}

/* Templates take null for what comes with calls, or fail with it, or write "None" down: these get
 * the empty text. */
static void prefer_empty(const ln_chat_prompt *chat, const linnet_model *model, unsigned shape,
                         rendered *r) {
    rendered other;
    if (count_none(r->text) == 0)
        return;
    render_shape(chat, model, shape | EMPTY_CONTENT, &other);
    bool is_better =
        other.is_done ? count_none(other.text) < count_none(r->text) : is_final(&other.error);
    if (is_better) {
        const rendered worse = *r;
        *r = other;
        other = worse;
    }
    free_rendered(&other);
}

/* The first way that the template takes. */
static bool render(const ln_chat_prompt *chat, const linnet_model *model, ln_prompt *prompt,
                   char **text, ln_api_error *error) {
    rendered r = {0};
    unsigned shapes;
    if (render_once(chat, model, prompt, text, error) && strstr(*text, "None") == NULL)
        return true;
    if ((error->status != 0 && is_final(error)) || !find_shapes(chat->messages, &shapes, error))
        return false;
    r.is_done = error->status == 0;
    r.prompt = *prompt;
    r.text = *text;
    if (r.is_done && (shapes & EMPTY_CONTENT))
        prefer_empty(chat, model, 0, &r);
    for (unsigned shape = 1; shape < N_SHAPES && !r.is_done && !is_final(&r.error); shape++) {
        if ((shape & ~shapes) != 0)
            continue;
        free_rendered(&r);
        render_shape(chat, model, shape, &r);
        if (r.is_done && (shapes & EMPTY_CONTENT & ~shape))
            prefer_empty(chat, model, shape, &r);
    }
    *prompt = r.prompt;
    *text = r.text;
    if (r.is_done || is_final(&r.error))
        *error = r.error;
    return r.is_done;
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
        return ln_api_fail_memory(error);
    char *longer_text = realloc(*text, n_text + n_bytes + 1);
    if (longer_text == NULL)
        return ln_api_fail_memory(error);
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
        return ln_api_fail_memory(error);
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
