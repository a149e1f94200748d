#include "server/messages/messages_input.h"

#include <stdio.h>
#include <string.h>

#include "base/json/value.h"
#include "server/generation/chat_builder.h"

static bool fail_block(ln_api_error *error, const char *param, const char *what) {
    return ln_api_fail(error, 400, param, "%s: %s", param, what);
}

/* ---- blocks ----------------------------------------------------------------------------- */

/* What the blocks of a message become. */
typedef struct block_reader {
    ln_chat_builder *builder;
    ln_api_error *error;
    bool is_assistant;
    json_t *message; /* that blocks are added to; NULL: the next block begins one */
} block_reader;

/* The message that text and calls are added to. */
static json_t *get_message(block_reader *reader) {
    if (reader->message == NULL)
        reader->message = ln_chat_builder_add_message(
            reader->builder, reader->is_assistant ? "assistant" : "user", json_string(""));
    return reader->message;
}

static bool add_text(block_reader *reader, const json_t *text, const char *param) {
    if (!json_is_string(text))
        return fail_block(reader->error, param, "the text is missing or not a string");
    ln_chat_builder_add_text(reader->builder, get_message(reader), text);
    return true;
}

/* A plain text, {"type": "text", ...} or a document whose source is text. */
static bool add_text_block(block_reader *reader, const json_t *block, const char *param) {
    const json_t *source = json_object_get(block, "source");
    if (strcmp(ln_json_text_of(block, "type"), "text") == 0)
        return add_text(reader, json_object_get(block, "text"), param);
    if (strcmp(ln_json_text_of(block, "type"), "document") == 0 &&
        ln_json_is(json_object_get(source, "type"), "text"))
        return add_text(reader, json_object_get(source, "data"), param);
    char what[96];
    snprintf(what, sizeof what, "blocks of type '%.40s' are not supported here",
             ln_json_text_of(block, "type"));
    return fail_block(reader->error, param, what);
}

/* What a tool gave becomes a message of its own. */
static bool add_result(block_reader *reader, const json_t *block, const char *param) {
    const json_t *id = json_object_get(block, "tool_use_id");
    const json_t *content = json_object_get(block, "content");
    block_reader inner = {.builder = reader->builder, .error = reader->error};
    size_t index;
    json_t *item;
    if (!json_is_string(id))
        return fail_block(reader->error, param, "tool_use_id is missing or not a string");
    reader->message = NULL;
    inner.message = ln_chat_builder_add_message(reader->builder, "tool", json_string(""));
    ln_chat_builder_put(reader->builder, inner.message, "tool_call_id", ln_json_share(id));
    if (content == NULL || json_is_null(content))
        return true;
    if (json_is_string(content))
        return add_text(&inner, content, param);
    if (!json_is_array(content))
        return fail_block(reader->error, param, "the content is not a string or a list of blocks");
    json_array_foreach(content, index, item) {
        if (!add_text_block(&inner, item, param))
            return false;
    }
    return true;
}

static bool add_call(block_reader *reader, const json_t *block, const char *param) {
    const json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
    const json_t *input = json_object_get(block, "input");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        return fail_block(reader->error, param, "a tool_use needs id, name and an object as input");
    ln_chat_builder_add_call(reader->builder, get_message(reader), id, name, input);
    return true;
}

/* What the model thought before; what is redacted is unknown here. */
static bool add_thinking(block_reader *reader, const json_t *block, const char *param) {
    const json_t *thoughts = json_object_get(block, "thinking");
    if (!json_is_string(thoughts))
        return fail_block(reader->error, param, "thinking is missing or not a string");
    ln_chat_builder_put(reader->builder, get_message(reader), "reasoning_content",
                        ln_json_share(thoughts));
    return true;
}

static bool add_block(block_reader *reader, const json_t *block, const char *param) {
    const char *type = ln_json_text_of(block, "type");
    if (reader->is_assistant && strcmp(type, "tool_use") == 0)
        return add_call(reader, block, param);
    if (reader->is_assistant && strcmp(type, "thinking") == 0)
        return add_thinking(reader, block, param);
    if (reader->is_assistant && strcmp(type, "redacted_thinking") == 0)
        return true;
    if (!reader->is_assistant && strcmp(type, "tool_result") == 0)
        return add_result(reader, block, param);
    return add_text_block(reader, block, param);
}

/* ---- messages --------------------------------------------------------------------------- */

static bool add_message(ln_chat_builder *builder, const json_t *message, size_t index,
                        ln_api_error *error) {
    char param[96];
    size_t i;
    json_t *block;
    const json_t *role = json_object_get(message, "role");
    const json_t *content = json_object_get(message, "content");
    block_reader reader = {builder, error, ln_json_is(role, "assistant"), NULL};
    snprintf(param, sizeof param, "messages[%zu].role", index);
    if (ln_json_is(role, "system")) /* later than the first, as some clients send them */
        reader.message = ln_chat_builder_add_message(builder, "system", json_string(""));
    else if (!reader.is_assistant && !ln_json_is(role, "user"))
        return fail_block(error, param, "the role is not user or assistant");
    snprintf(param, sizeof param, "messages[%zu].content", index);
    if (json_is_string(content))
        return add_text(&reader, content, param);
    if (!json_is_array(content))
        return fail_block(error, param, "it is not a string or a list of blocks");
    if (json_array_size(content) == 0 || reader.is_assistant)
        get_message(&reader);
    json_array_foreach(content, i, block) {
        snprintf(param, sizeof param, "messages[%zu].content[%zu]", index, i);
        if (!add_block(&reader, block, param))
            return false;
    }
    return true;
}

static bool add_messages(ln_chat_builder *builder, const ln_fields *fields) {
    enum { MAX_MESSAGES = 10000 };
    const json_t *messages = ln_fields_get(fields, "messages");
    size_t index;
    json_t *message;
    if (json_array_size(messages) == 0 || json_array_size(messages) > MAX_MESSAGES)
        return ln_api_fail(fields->error, 400, "messages",
                           "messages is not a list of 1 to %d messages", MAX_MESSAGES);
    json_array_foreach(messages, index, message) {
        if (!add_message(builder, message, index, fields->error))
            return false;
    }
    /* the answer goes on with what the assistant said last */
    const json_t *last = json_array_get(builder->messages, json_array_size(builder->messages) - 1);
    if (ln_json_is(json_object_get(last, "role"), "assistant") &&
        json_object_get(last, "tool_calls") == NULL)
        ln_chat_builder_put(builder, builder->body, "continue_final_message", json_true());
    return true;
}

static bool add_system(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *system = ln_fields_get(fields, "system");
    size_t index;
    json_t *block;
    if (system == NULL)
        return true;
    block_reader reader = {.builder = builder, .error = fields->error};
    reader.message = ln_chat_builder_add_message(builder, "system", json_string(""));
    if (json_is_string(system))
        return add_text(&reader, system, "system");
    if (!json_is_array(system))
        return fail_block(fields->error, "system", "it is not a string or a list of blocks");
    json_array_foreach(system, index, block) {
        if (!add_text_block(&reader, block, "system"))
            return false;
    }
    return true;
}

/* ---- tools ------------------------------------------------------------------------------ */

static bool add_tools(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *tools = NULL;
    size_t index;
    json_t *tool;
    char param[96];
    if (!ln_chat_builder_find_tools(fields, &tools))
        return false;
    json_array_foreach(tools, index, tool) {
        const json_t *name = json_object_get(tool, "name");
        const char *type = ln_json_text_of(tool, "type");
        snprintf(param, sizeof param, "tools[%zu]", index);
        if (*type != '\0' && strcmp(type, "custom") != 0)
            return fail_block(fields->error, param, "tools that the server runs are not supported");
        if (!json_is_string(name) || !json_is_object(json_object_get(tool, "input_schema")))
            return fail_block(fields->error, param, "a tool needs a name and an input_schema");
        ln_chat_builder_add_tool(builder, name, json_object_get(tool, "description"),
                                 json_object_get(tool, "input_schema"));
    }
    return true;
}

static bool add_tool_choice(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *choice = ln_fields_get(fields, "tool_choice");
    const json_t *name = json_object_get(choice, "name");
    const char *type = ln_json_text_of(choice, "type");
    if (choice == NULL)
        return true;
    const ln_fields inner = {choice, "tool_choice.", fields->error, NULL};
    bool is_single = false;
    if (!ln_fields_bool(&inner, "disable_parallel_tool_use", &is_single))
        return false;
    if (is_single)
        ln_chat_builder_put(builder, builder->body, "parallel_tool_calls", json_false());
    json_t *value = NULL;
    if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0)
        value = json_string(type);
    else if (strcmp(type, "any") == 0)
        value = json_string("required");
    else if (strcmp(type, "tool") == 0 && json_is_string(name))
        value = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    else
        return ln_api_fail(fields->error, 400, "tool_choice",
                           "tool_choice is not of type auto, any, none, or tool with a name");
    ln_chat_builder_put(builder, builder->body, "tool_choice", value);
    return true;
}

/* ---- other fields ----------------------------------------------------------------------- */

/* {"type": "enabled"}, "adaptive" or "disabled"; a budget is no bound that can be held here. */
static bool add_thinking_field(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *thinking = ln_fields_get(fields, "thinking");
    const char *type = ln_json_text_of(thinking, "type");
    if (thinking == NULL)
        return true;
    bool is_off = strcmp(type, "disabled") == 0;
    if (!is_off && strcmp(type, "enabled") != 0 && strcmp(type, "adaptive") != 0)
        return ln_api_fail(fields->error, 400, "thinking",
                           "thinking is not of type enabled, adaptive or disabled");
    ln_chat_builder_put(builder, builder->body, "enable_thinking", json_boolean(!is_off));
    return true;
}

/* {"effort": ..., "format": {"type": "json_schema", "schema": ...}} */
static bool add_output_config(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *config = ln_fields_get(fields, "output_config");
    const json_t *effort = json_object_get(config, "effort");
    const json_t *format = json_object_get(config, "format");
    const char *param = "output_config.format";
    if (config != NULL && !json_is_object(config))
        return ln_api_fail(fields->error, 400, "output_config", "output_config is not an object");
    if (effort != NULL && !json_is_null(effort))
        ln_chat_builder_put(builder, builder->body, "reasoning_effort", ln_json_share(effort));
    if (format == NULL || json_is_null(format)) {
        format = ln_fields_get(fields, "output_format"); /* its name before */
        param = "output_format";
    }
    if (format == NULL)
        return true;
    const json_t *schema = json_object_get(format, "schema");
    if (strcmp(ln_json_text_of(format, "type"), "json_schema") != 0 || !json_is_object(schema))
        return ln_api_fail(fields->error, 400, param, "%s is not of type json_schema with a schema",
                           param);
    ln_chat_builder_set_schema(builder, schema, false);
    return true;
}

static bool check_max_tokens(const ln_fields *fields, bool counts) {
    int64_t max_tokens = counts ? 1 : -1;
    if (!ln_fields_integer(fields, "max_tokens", 1, INT32_MAX, &max_tokens))
        return false;
    return max_tokens > 0 || ln_api_fail(fields->error, 400, "max_tokens", "max_tokens is missing");
}

/* Fields whose types differ from those of what they become, or that nothing reads. */
static bool check_types(const ln_fields *fields) {
    const json_t *stops = ln_fields_get(fields, "stop_sequences");
    const json_t *metadata = ln_fields_get(fields, "metadata");
    const json_t *user = json_object_get(metadata, "user_id");
    if (stops != NULL && !json_is_array(stops))
        return ln_api_fail(fields->error, 400, "stop_sequences",
                           "stop_sequences is not a list of strings");
    if (metadata != NULL && !json_is_object(metadata))
        return ln_api_fail(fields->error, 400, "metadata", "metadata is not an object");
    return user == NULL || json_is_null(user) || json_is_string(user) ||
           ln_api_fail(fields->error, 400, "metadata.user_id", "metadata.user_id is not a string");
}

json_t *ln_messages_input_translate(const ln_fields *fields, bool counts) {
    static const char *const known[] = {
        "model",         "messages",      "max_tokens",   "system",       "stop_sequences",
        "stream",        "temperature",   "top_p",        "top_k",        "tools",
        "tool_choice",   "thinking",      "metadata",     "service_tier", "output_config",
        "output_format", "cache_control", "!mcp_servers", "!container",   NULL};
    static const char *const same[] = {"model", "max_tokens", "temperature", "top_p",
                                       "top_k", "stream",     NULL};
    ln_chat_builder builder;
    if (!ln_fields_only(fields, known) || !check_types(fields) || !check_max_tokens(fields, counts))
        return NULL;
    ln_chat_builder_init(&builder);
    ln_chat_builder_copy_all(&builder, fields, same);
    ln_chat_builder_copy(&builder, fields, "stop_sequences", "stop");
    if (add_system(&builder, fields) && add_messages(&builder, fields) &&
        add_tools(&builder, fields) && add_tool_choice(&builder, fields) &&
        add_thinking_field(&builder, fields))
        add_output_config(&builder, fields);
    return ln_chat_builder_take(&builder, fields->error);
}
