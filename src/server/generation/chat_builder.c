#include "server/generation/chat_builder.h"

#include "base/json/value.h"

void ln_chat_builder_init(ln_chat_builder *builder) {
    *builder = (ln_chat_builder){.body = json_object(), .messages = json_array()};
    builder->failed = json_object_set(builder->body, "messages", builder->messages) != 0;
}

json_t *ln_chat_builder_take(ln_chat_builder *builder, ln_api_error *error) {
    json_t *body = builder->body;
    json_decref(builder->messages);
    if (builder->failed)
        ln_api_fail_memory(error);
    *builder = (ln_chat_builder){0};
    if (error->status == 0)
        return body;
    json_decref(body);
    return NULL;
}

bool ln_chat_builder_put(ln_chat_builder *builder, json_t *object, const char *name,
                         json_t *value) {
    bool is_there = json_object_set_new(object, name, value) == 0;
    builder->failed |= !is_there;
    return is_there;
}

bool ln_chat_builder_append(ln_chat_builder *builder, json_t *list, json_t *value) {
    bool is_there = json_array_append_new(list, value) == 0;
    builder->failed |= !is_there;
    return is_there;
}

void ln_chat_builder_copy(ln_chat_builder *builder, const ln_fields *fields, const char *name,
                          const char *as) {
    json_t *value = ln_fields_get(fields, name);
    if (value != NULL)
        ln_chat_builder_put(builder, builder->body, as, ln_json_share(value));
}

void ln_chat_builder_copy_all(ln_chat_builder *builder, const ln_fields *fields,
                              const char *const *names) {
    for (; *names != NULL; names++)
        ln_chat_builder_copy(builder, fields, *names, *names);
}

json_t *ln_chat_builder_add_message(ln_chat_builder *builder, const char *role, json_t *content) {
    json_t *message = json_object();
    ln_chat_builder_put(builder, message, "role", json_string(role));
    ln_chat_builder_put(builder, message, "content", content);
    return ln_chat_builder_append(builder, builder->messages, message) ? message : NULL;
}

void ln_chat_builder_add_text(ln_chat_builder *builder, json_t *message, const json_t *text) {
    json_t *content = json_object_get(message, "content");
    if (!json_is_array(content)) {
        bool is_empty = json_string_length(content) == 0;
        json_t *before = json_incref(content);
        content = json_array();
        if (!ln_chat_builder_put(builder, message, "content", content))
            content = NULL;
        if (!is_empty)
            ln_chat_builder_append(builder, content,
                                   json_pack("{s:s, s:O}", "type", "text", "text", before));
        json_decref(before);
    }
    ln_chat_builder_append(builder, content, json_pack("{s:s, s:O}", "type", "text", "text", text));
}

void ln_chat_builder_add_call(ln_chat_builder *builder, json_t *message, const json_t *id,
                              const json_t *name, const json_t *arguments) {
    json_t *calls = json_object_get(message, "tool_calls");
    if (calls == NULL) {
        calls = json_array();
        if (!ln_chat_builder_put(builder, message, "tool_calls", calls))
            calls = NULL;
    }
    ln_chat_builder_append(builder, calls,
                           json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function",
                                     "function", "name", name, "arguments", arguments));
}

bool ln_chat_builder_find_tools(const ln_fields *fields, const json_t **tools) {
    enum { MAX_TOOLS = 128 };
    *tools = ln_fields_get(fields, "tools");
    if (*tools == NULL || (json_is_array(*tools) && json_array_size(*tools) <= MAX_TOOLS))
        return fields->error->status == 0;
    return ln_api_fail(fields->error, 400, "tools", "tools is not a list of at most %d tools",
                       MAX_TOOLS);
}

static json_t *get_tools(ln_chat_builder *builder) {
    json_t *tools = json_object_get(builder->body, "tools");
    if (tools == NULL) {
        tools = json_array();
        if (!ln_chat_builder_put(builder, builder->body, "tools", tools))
            tools = NULL;
    }
    return tools;
}

void ln_chat_builder_add_tool(ln_chat_builder *builder, const json_t *name,
                              const json_t *description, const json_t *parameters) {
    json_t *tool = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    json_t *function = json_object_get(tool, "function");
    if (description != NULL)
        ln_chat_builder_put(builder, function, "description", ln_json_share(description));
    if (parameters != NULL)
        ln_chat_builder_put(builder, function, "parameters", ln_json_share(parameters));
    ln_chat_builder_append(builder, get_tools(builder), tool);
}

void ln_chat_builder_add_custom(ln_chat_builder *builder, const json_t *custom) {
    ln_chat_builder_append(builder, get_tools(builder),
                           json_pack("{s:s, s:O}", "type", "custom", "custom", custom));
}

void ln_chat_builder_set_schema(ln_chat_builder *builder, const json_t *schema, bool is_strict) {
    ln_chat_builder_put(builder, builder->body, "response_format",
                        json_pack("{s:s, s:{s:s, s:b, s:O}}", "type", "json_schema", "json_schema",
                                  "name", "answer", "strict", is_strict, "schema", schema));
}
