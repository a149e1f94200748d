#include "server/responses/responses_items.h"

#include <stdio.h>
#include <string.h>

#include "base/json/value.h"

typedef struct item_reader {
    ln_chat_builder *builder;
    ln_api_error *error;
    json_t *assistant; /* the message that the assistant's items are added to; NULL: none is open */
    bool has_text, has_calls; /* it */
} item_reader;

static bool fail_item(item_reader *reader, const char *param, const char *what) {
    return ln_api_fail(reader->error, 400, param, "%s: %s", param, what);
}

/* The assistant's open message, or a new one where text comes after text or calls. */
static json_t *get_assistant(item_reader *reader, bool for_text) {
    if (reader->assistant == NULL || (for_text && (reader->has_text || reader->has_calls))) {
        reader->assistant =
            ln_chat_builder_add_message(reader->builder, "assistant", json_string(""));
        reader->has_text = reader->has_calls = false;
    }
    return reader->assistant;
}

/* A string, or parts that are text, added to a message. */
static bool add_content(item_reader *reader, json_t *message, const json_t *content,
                        const char *param) {
    size_t index;
    json_t *part;
    if (json_is_string(content)) {
        ln_chat_builder_add_text(reader->builder, message, content);
        return true;
    }
    if (!json_is_array(content))
        return fail_item(reader, param, "it is not a string or a list of parts");
    json_array_foreach(content, index, part) {
        static const char *const types[] = {"input_text", "output_text", "text", "reasoning_text",
                                            "summary_text"};
        const json_t *text = json_object_get(part, "text");
        bool is_text = false;
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            is_text = is_text || strcmp(ln_json_text_of(part, "type"), types[i]) == 0;
        if (strcmp(ln_json_text_of(part, "type"), "refusal") == 0) {
            text = json_object_get(part, "refusal");
            is_text = true;
        }
        if (!is_text || !json_is_string(text)) {
            char what[96];
            snprintf(what, sizeof what, "part %zu of type '%.24s' is not supported here", index,
                     ln_json_text_of(part, "type"));
            return fail_item(reader, param, what);
        }
        ln_chat_builder_add_text(reader->builder, message, text);
    }
    return true;
}

static bool add_message(item_reader *reader, const json_t *item, const char *param) {
    static const char *const roles[] = {"user", "system", "developer"};
    const char *role = ln_json_text_of(item, "role");
    const json_t *content = json_object_get(item, "content");
    if (strcmp(role, "assistant") == 0) {
        json_t *message = get_assistant(reader, true);
        reader->has_text = true;
        return add_content(reader, message, content, param);
    }
    reader->assistant = NULL;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(role, roles[i]) != 0)
            continue;
        /* templates have one system message, at the beginning */
        size_t n = json_array_size(reader->builder->messages);
        json_t *first = json_array_get(reader->builder->messages, 0);
        bool joins = i > 0 && n == 1 && strcmp(ln_json_text_of(first, "role"), "system") == 0;
        json_t *message = joins ? first
                                : ln_chat_builder_add_message(
                                      reader->builder, i > 0 ? "system" : "user", json_string(""));
        return add_content(reader, message, content, param);
    }
    return fail_item(reader, param, "the role is not user, assistant, system or developer");
}

/* The arguments of a call; those that were cut are none. */
static json_t *read_arguments(const json_t *item) {
    const json_t *arguments = json_object_get(item, "arguments");
    json_t *value = ln_json_is(json_object_get(item, "status"), "incomplete")
                        ? ln_fields_parse_value(arguments)
                        : NULL;
    bool is_cut =
        ln_json_is(json_object_get(item, "status"), "incomplete") && !json_is_object(value);
    json_decref(value);
    return is_cut ? json_string("{}") : ln_json_share(arguments);
}

static bool add_call(item_reader *reader, const json_t *item, const char *param) {
    const json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    if (!json_is_string(id) || !json_is_string(name) ||
        !json_is_string(json_object_get(item, "arguments")))
        return fail_item(reader, param, "a function_call needs call_id, name and arguments");
    json_t *arguments = read_arguments(item);
    ln_chat_builder_add_call(reader->builder, get_assistant(reader, false), id, name, arguments);
    reader->builder->failed |= arguments == NULL;
    json_decref(arguments);
    reader->has_calls = true;
    return true;
}

static bool add_custom(item_reader *reader, const json_t *item, const char *param) {
    const json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    const json_t *input = json_object_get(item, "input");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(input))
        return fail_item(reader, param, "a custom_tool_call needs call_id, name and input");
    json_t *arguments = json_pack("{s:O}", "input", input);
    ln_chat_builder_add_call(reader->builder, get_assistant(reader, false), id, name, arguments);
    reader->builder->failed |= arguments == NULL;
    json_decref(arguments);
    reader->has_calls = true;
    return true;
}

static bool add_output(item_reader *reader, const json_t *item, const char *param) {
    const json_t *id = json_object_get(item, "call_id");
    const json_t *output = json_object_get(item, "output");
    if (!json_is_string(id))
        return fail_item(reader, param, "the output of a call needs call_id");
    reader->assistant = NULL;
    json_t *message = ln_chat_builder_add_message(reader->builder, "tool", json_string(""));
    ln_chat_builder_put(reader->builder, message, "tool_call_id", ln_json_share(id));
    return add_content(reader, message, output, param);
}

/* What the model thought, before the message that follows; where it is encrypted or not there,
 * nothing. */
static bool add_reasoning(item_reader *reader, const json_t *item, const char *param) {
    json_t *content = json_object_get(item, "content");
    const json_t *text = json_object_get(json_array_get(content, 0), "text");
    if (content != NULL && !json_is_null(content) && !json_is_array(content))
        return fail_item(reader, param, "the content of reasoning is not a list");
    if (text == NULL)
        return true;
    if (!json_is_string(text))
        return fail_item(reader, param, "the text of reasoning is not a string");
    ln_chat_builder_put(reader->builder, get_assistant(reader, true), "reasoning_content",
                        ln_json_share(text));
    return true;
}

static bool add_item(item_reader *reader, const json_t *item, const char *param) {
    const char *type = ln_json_text_of(item, "type");
    char what[96];
    if (strcmp(type, "message") == 0 || (*type == '\0' && json_object_get(item, "role") != NULL))
        return add_message(reader, item, param);
    if (strcmp(type, "function_call") == 0)
        return add_call(reader, item, param);
    if (strcmp(type, "custom_tool_call") == 0)
        return add_custom(reader, item, param);
    if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0)
        return add_output(reader, item, param);
    if (strcmp(type, "reasoning") == 0)
        return add_reasoning(reader, item, param);
    snprintf(what, sizeof what, "items of type '%.40s' are not supported here", type);
    return fail_item(reader, param, what);
}

bool ln_responses_items_add(ln_chat_builder *builder, const json_t *items, size_t n_past,
                            const char *name, ln_api_error *error) {
    item_reader reader = {.builder = builder, .error = error};
    size_t index;
    json_t *item;
    char param[96];
    json_array_foreach((json_t *)(uintptr_t)items, index, item) {
        if (index < n_past)
            snprintf(param, sizeof param, "a stored item");
        else
            snprintf(param, sizeof param, "%s[%zu]", name, index - n_past);
        if (!add_item(&reader, item, param))
            return false;
    }
    return true;
}
