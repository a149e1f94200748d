#include "server/responses/responses_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "base/json/value.h"
#include "server/generation/chat_builder.h"
#include "server/responses/responses_items.h"

void ln_responses_request_free(ln_responses_request *request) {
    ln_strbuf_free(&request->echo);
    ln_strbuf_free(&request->input);
    ln_strbuf_free(&request->messages);
    *request = (ln_responses_request){0};
}

/* ---- messages --------------------------------------------------------------------------- */

/* Templates have one system message: what came as one before follows the instructions. */
static void join_system(ln_chat_builder *builder, const json_t *content) {
    json_t *system = json_array_get(builder->messages, 0), *part;
    size_t index;
    if (json_is_string(content))
        ln_chat_builder_add_text(builder, system, content);
    json_array_foreach(content, index, part) {
        ln_chat_builder_add_text(builder, system, json_object_get(part, "text"));
    }
}

/* A part of a stored response; NULL: none. */
static json_t *load_part(ln_response_store *store, const char *id, ln_stored_part part) {
    char *stored = ln_response_store_get(store, id, part);
    json_t *value =
        stored != NULL ? ln_json_load_bytes(stored, strlen(stored), JSON_ALLOW_NUL, NULL) : NULL;
    free(stored);
    return value;
}

/* A stored chat; NULL: none, or what is stored is not a list of messages. */
static json_t *load_messages(ln_response_store *store, const char *id) {
    json_t *messages = load_part(store, id, LN_STORED_MESSAGES);
    bool is_chat = json_is_array(messages);
    size_t index;
    json_t *message;
    json_array_foreach(messages, index, message) {
        is_chat = is_chat && json_is_object(message);
    }
    if (is_chat)
        return messages;
    json_decref(messages);
    return NULL;
}

/* The chat that a previous response ends. */
static bool add_previous(ln_chat_builder *builder, const ln_fields *fields,
                         ln_response_store *store) {
    const char *id = NULL;
    if (!ln_fields_text(fields, "previous_response_id", &id))
        return false;
    if (id == NULL)
        return true;
    json_t *messages = load_messages(store, id);
    if (messages == NULL) {
        ln_api_fail(fields->error, 404, "previous_response_id",
                    "Previous response with id '%.128s' not found.", id);
        fields->error->code = "previous_response_not_found";
        return false;
    }
    const json_t *first = json_array_get(messages, 0);
    if (json_array_size(builder->messages) > 0 &&
        strcmp(ln_json_text_of(first, "role"), "system") == 0) {
        join_system(builder, json_object_get(first, "content"));
        json_array_remove(messages, 0);
    }
    builder->failed |= json_array_extend(builder->messages, messages) != 0;
    json_decref(messages);
    return true;
}

/* The chat without what instructions say, for responses that follow this one. */
static bool keep_messages(const ln_chat_builder *builder, bool has_instructions,
                          ln_responses_request *kept) {
    json_t *messages = json_array();
    bool is_whole = true;
    for (size_t i = has_instructions; i < json_array_size(builder->messages); i++)
        is_whole =
            json_array_append(messages, json_array_get(builder->messages, i)) == 0 && is_whole;
    char *text = is_whole ? json_dumps(messages, JSON_COMPACT) : NULL;
    json_decref(messages);
    if (text == NULL)
        return false;
    text[strlen(text) - 1] = '\0'; /* the list goes on */
    bool done = ln_strbuf_puts(&kept->messages, text);
    free(text);
    return done;
}

/* The parts of a message as lists have them: one that the assistant said has annotations. */
static void complete_parts(json_t *item) {
    json_t *content = json_object_get(item, "content"), *part;
    bool is_assistant = strcmp(ln_json_text_of(item, "role"), "assistant") == 0;
    size_t index;
    if (json_is_string(content))
        json_object_set_new(item, "content",
                            json_pack("[{s:s, s:O}]", "type",
                                      is_assistant ? "output_text" : "input_text", "text",
                                      content));
    json_array_foreach(json_object_get(item, "content"), index, part) {
        if (strcmp(ln_json_text_of(part, "type"), "output_text") == 0 &&
            json_object_get(part, "annotations") == NULL)
            json_object_set_new(part, "annotations", json_array());
    }
}

/* An item as clients may list it, with what OpenAI's types ask for: an id, a message's type and
 * parts, a status, the summary of thoughts. */
static void complete_item(json_t *item, size_t index) {
    char id[40];
    if (!json_is_object(item))
        return;
    snprintf(id, sizeof id, "item_%zu", index);
    if (!json_is_string(json_object_get(item, "id")))
        json_object_set_new(item, "id", json_string(id));
    if (json_is_string(json_object_get(item, "role")) &&
        !json_is_string(json_object_get(item, "type")))
        json_object_set_new(item, "type", json_string("message"));
    bool is_reasoning = strcmp(ln_json_text_of(item, "type"), "reasoning") == 0;
    if (is_reasoning && !json_is_array(json_object_get(item, "summary")))
        json_object_set_new(item, "summary", json_array());
    if (!is_reasoning && !json_is_string(json_object_get(item, "status")))
        json_object_set_new(item, "status", json_string("completed"));
    if (strcmp(ln_json_text_of(item, "type"), "message") == 0)
        complete_parts(item);
}

/* What the previous response answered, and its answer: the items before those of the input. */
static json_t *list_previous_items(const ln_fields *fields, ln_response_store *store) {
    const char *id = json_string_value(ln_fields_get(fields, "previous_response_id"));
    json_t *input = id != NULL ? load_part(store, id, LN_STORED_INPUT) : NULL;
    json_t *response = id != NULL ? load_part(store, id, LN_STORED_RESPONSE) : NULL;
    json_t *items = json_array();
    json_array_extend(items, input);
    json_array_extend(items, json_object_get(response, "output"));
    json_decref(input);
    json_decref(response);
    return items;
}

static bool keep_input(const ln_fields *fields, ln_response_store *store, const json_t *input,
                       ln_responses_request *kept) {
    json_t *all = list_previous_items(fields, store);
    json_t *items = json_is_array(input)
                        ? json_deep_copy(input)
                        : json_pack("[{s:s, s:s, s:[{s:s, s:O}]}]", "type", "message", "role",
                                    "user", "content", "type", "input_text", "text", input);
    size_t n_previous = json_array_size(all), index;
    json_t *item;
    json_array_foreach(items, index, item) {
        complete_item(item, n_previous + index);
    }
    char *text = json_array_extend(all, items) == 0 ? json_dumps(all, JSON_COMPACT) : NULL;
    bool done = text != NULL && ln_strbuf_puts(&kept->input, text);
    free(text);
    json_decref(items);
    json_decref(all);
    return done;
}

static bool add_messages(ln_chat_builder *builder, const ln_fields *fields,
                         ln_response_store *store, ln_responses_request *kept) {
    const char *instructions = NULL;
    const json_t *input = ln_fields_get(fields, "input");
    if (!ln_fields_text(fields, "instructions", &instructions))
        return false;
    if (instructions != NULL)
        ln_chat_builder_add_message(builder, "system", json_string(instructions));
    if (!add_previous(builder, fields, store) ||
        !ln_responses_items_add(builder, input, fields->error))
        return false;
    if (!keep_messages(builder, instructions != NULL, kept) ||
        !keep_input(fields, store, input, kept))
        return ln_api_fail_memory(fields->error);
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
        const json_t *name = json_object_get(tool, "name"), *type = json_object_get(tool, "type");
        snprintf(param, sizeof param, "tools[%zu]", index);
        if (ln_json_is(type, "custom")) { /* what the chat reads, less a level */
            ln_chat_builder_add_custom(builder, tool);
            continue;
        }
        if (!ln_json_is(type, "function") || !json_is_string(name))
            return ln_api_fail(fields->error, 400, param,
                               "%s is not of type function or custom with a name", param);
        ln_chat_builder_add_tool(builder, name, json_object_get(tool, "description"),
                                 json_object_get(tool, "parameters"));
    }
    return true;
}

/* {"type": "allowed_tools", "mode": ..., "tools": [{"type": "function", "name": ...}]} */
static json_t *allowed_tools(const json_t *choice) {
    size_t index;
    json_t *tool, *list = json_array();
    json_array_foreach(json_object_get(choice, "tools"), index, tool) {
        json_array_append_new(list,
                              json_pack("{s:O*, s:{s:s}}", "type", json_object_get(tool, "type"),
                                        "function", "name", ln_json_text_of(tool, "name")));
    }
    return json_pack("{s:s, s:{s:s, s:o}}", "type", "allowed_tools", "allowed_tools", "mode",
                     ln_json_text_of(choice, "mode"), "tools", list);
}

static bool add_tool_choice(ln_chat_builder *builder, const ln_fields *fields) {
    json_t *choice = ln_fields_get(fields, "tool_choice"), *value;
    const char *type = ln_json_text_of(choice, "type");
    /* clients send "auto" without tools */
    bool is_auto = ln_json_is(choice, "auto");
    if (choice == NULL || is_auto)
        return true;
    if (json_is_string(choice))
        value = json_incref(choice);
    else if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0)
        value = json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name",
                          ln_json_text_of(choice, "name"));
    else if (strcmp(type, "allowed_tools") == 0)
        value = allowed_tools(choice);
    else
        return ln_api_fail(fields->error, 400, "tool_choice",
                           "tool_choice is not none, auto, required, a function or allowed_tools");
    ln_chat_builder_put(builder, builder->body, "tool_choice", value);
    return true;
}

/* ---- other fields ----------------------------------------------------------------------- */

/* {"format": {"type": ..., "name": ..., "schema": ...}, "verbosity": ...} */
static bool add_text(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *text = ln_fields_get(fields, "text");
    json_t *format = json_object_get(text, "format");
    json_t *verbosity = json_object_get(text, "verbosity");
    const json_t *schema = json_object_get(format, "schema");
    if (text != NULL && !json_is_object(text))
        return ln_api_fail(fields->error, 400, "text", "text is not an object");
    if (verbosity != NULL && !json_is_null(verbosity))
        ln_chat_builder_put(builder, builder->body, "verbosity", json_incref(verbosity));
    if (format == NULL || json_is_null(format))
        return true;
    const char *type = ln_json_text_of(format, "type"), *name = NULL;
    const ln_fields inner = {format, "text.format.", fields->error, NULL};
    bool is_strict = false;
    if (!ln_fields_text(&inner, "name", &name) || !ln_fields_bool(&inner, "strict", &is_strict))
        return false;
    if (strcmp(type, "json_schema") == 0 && json_is_object(schema))
        ln_chat_builder_set_schema(builder, schema, is_strict);
    else if (strcmp(type, "json_object") == 0)
        ln_chat_builder_put(builder, builder->body, "response_format",
                            json_pack("{s:s}", "type", "json_object"));
    else if (strcmp(type, "text") != 0)
        return ln_api_fail(fields->error, 400, "text.format",
                           "text.format is not of type text, json_object, or json_schema with a "
                           "schema");
    return true;
}

/* Logprobs come when they are asked for by `include` or by their number. */
static bool add_include(ln_chat_builder *builder, const ln_fields *fields) {
    static const char *const known[] = {"message.output_text.logprobs",
                                        "reasoning.encrypted_content", NULL};
    const json_t *include = ln_fields_get(fields, "include");
    size_t index;
    json_t *item;
    int64_t n_top = 0;
    if (include != NULL && !json_is_array(include))
        return ln_api_fail(fields->error, 400, "include", "include is not a list");
    if (!ln_fields_integer(fields, "top_logprobs", 0, 20, &n_top))
        return false;
    bool wants = n_top > 0;
    json_array_foreach(include, index, item) {
        const char *name = json_is_string(item) ? json_string_value(item) : "";
        if (strcmp(name, known[0]) == 0)
            wants = true;
        else if (strcmp(name, known[1]) != 0)
            return ln_api_fail(fields->error, 400, "include", "include: '%.64s' is not supported",
                               name);
    }
    if (wants) {
        ln_chat_builder_put(builder, builder->body, "logprobs", json_true());
        ln_chat_builder_put(builder, builder->body, "top_logprobs", json_integer(n_top));
    }
    return true;
}

static void put_value(ln_strbuf *out, const char *name, const json_t *value,
                      const char *otherwise) {
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    ln_strbuf_printf(out, ",\"%s\":", name);
    ln_strbuf_puts(out, text != NULL ? text : otherwise);
    free(text);
}

/* What a response repeats of its request, with the values of fields that are missing. */
static bool keep_echo(const ln_fields *fields, bool stores, ln_strbuf *out) {
    static const struct {
        const char *name, *otherwise;
    } members[] = {{"instructions", "null"},
                   {"max_output_tokens", "null"},
                   {"max_tool_calls", "null"},
                   {"metadata", "{}"},
                   {"parallel_tool_calls", "true"},
                   {"previous_response_id", "null"},
                   {"reasoning", "{\"effort\":null,\"summary\":null}"},
                   {"service_tier", "\"default\""},
                   {"temperature", "1.0"},
                   {"text", "{\"format\":{\"type\":\"text\"}}"},
                   {"tool_choice", "\"auto\""},
                   {"tools", "[]"},
                   {"top_logprobs", "0"},
                   {"top_p", "1.0"},
                   {"truncation", "\"disabled\""},
                   {"user", "null"}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_value(out, members[i].name, ln_fields_get(fields, members[i].name),
                  members[i].otherwise);
    ln_strbuf_printf(out, ",\"store\":%s", stores ? "true" : "false");
    return !out->failed;
}

/* Whether fields that are repeated only have their types. */
static bool check_rest(const ln_fields *fields) {
    const json_t *reasoning = ln_fields_get(fields, "reasoning");
    const char *text;
    int64_t n_calls;
    if (reasoning != NULL && !json_is_object(reasoning))
        return ln_api_fail(fields->error, 400, "reasoning", "reasoning is not an object");
    return ln_fields_text(fields, "truncation", &text) && ln_fields_text(fields, "user", &text) &&
           ln_fields_text(fields, "service_tier", &text) &&
           ln_fields_integer(fields, "max_tool_calls", 0, INT32_MAX, &n_calls);
}

static const char *const known_fields[] = {"model",
                                           "input",
                                           "instructions",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "max_output_tokens",
                                           "max_tool_calls",
                                           "temperature",
                                           "top_p",
                                           "top_k",
                                           "min_p",
                                           "seed",
                                           "stop",
                                           "presence_penalty",
                                           "frequency_penalty",
                                           "repetition_penalty",
                                           "logit_bias",
                                           "allowed_token_ids",
                                           "bad_words",
                                           "chat_template_kwargs",
                                           "priority",
                                           "cache_salt",
                                           "stream",
                                           "stream_options",
                                           "text",
                                           "reasoning",
                                           "previous_response_id",
                                           "store",
                                           "background",
                                           "metadata",
                                           "include",
                                           "truncation=\"disabled\"",
                                           "truncation=\"auto\"",
                                           "user",
                                           "service_tier",
                                           "top_logprobs",
                                           "prompt_cache_key",
                                           "prompt_cache_retention",
                                           "safety_identifier",
                                           "!conversation",
                                           "!prompt",
                                           "!messages",
                                           NULL};

json_t *ln_responses_input_translate(const ln_fields *fields, ln_response_store *store,
                                     ln_responses_request *kept) {
    static const char *const same[] = {"model",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "seed",
                                       "stop",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "priority",
                                       "repetition_penalty",
                                       "logit_bias",
                                       "allowed_token_ids",
                                       "bad_words",
                                       "chat_template_kwargs",
                                       "cache_salt",
                                       "parallel_tool_calls",
                                       "stream",
                                       "metadata",
                                       "reasoning",
                                       NULL};
    bool stores = true;
    ln_chat_builder builder;
    if (!ln_fields_only(fields, known_fields) || !check_rest(fields) ||
        !ln_fields_bool(fields, "store", &stores) ||
        !ln_fields_bool(fields, "background", &kept->runs_in_background))
        return NULL;
    kept->store = stores ? store : NULL;
    ln_chat_builder_init(&builder);
    ln_chat_builder_copy_all(&builder, fields, same);
    ln_chat_builder_copy(&builder, fields, "max_output_tokens", "max_tokens");
    if (add_messages(&builder, fields, store, kept) && add_tools(&builder, fields) &&
        add_tool_choice(&builder, fields) && add_text(&builder, fields) &&
        add_include(&builder, fields) && !keep_echo(fields, stores, &kept->echo))
        ln_api_fail_memory(fields->error);
    return ln_chat_builder_take(&builder, fields->error);
}
