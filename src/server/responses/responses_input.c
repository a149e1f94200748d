#include "server/responses/responses_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "base/json/value.h"
#include "server/generation/chat_builder.h"
#include "server/json/out.h"
#include "server/responses/input_items.h"
#include "server/responses/responses_items.h"

void ln_responses_request_free(ln_responses_request *request) {
    ln_strbuf_free(&request->echo);
    ln_item_list_free(&request->items);
    *request = (ln_responses_request){0};
}

/* ---- messages --------------------------------------------------------------------------- */

/* The id of what a response goes on with; NULL: it goes on with nothing, or there is an error. */
static const char *read_past_id(const ln_fields *fields, const char **param) {
    const json_t *conversation = ln_fields_get(fields, "conversation");
    const ln_fields inner = {conversation, "conversation.", fields->error, NULL};
    const char *previous = NULL, *id = NULL;
    *param = "previous_response_id";
    if (!ln_fields_text(fields, "previous_response_id", &previous) || conversation == NULL)
        return previous;
    *param = "conversation";
    if (json_is_object(conversation) ? !ln_fields_text(&inner, "id", &id)
                                     : !ln_fields_text(fields, "conversation", &id))
        return NULL;
    if (id == NULL)
        ln_api_fail(fields->error, 400, *param, "conversation has no id");
    else if (previous != NULL)
        ln_api_fail(fields->error, 400, *param,
                    "conversation and previous_response_id exclude each other");
    return id;
}

/* The items of the previous response or of the conversation. */
static bool load_past(const ln_fields *fields, ln_response_store *store, ln_responses_request *kept,
                      json_t **past) {
    const char *param, *id = read_past_id(fields, &param);
    bool is_conversation = strcmp(param, "conversation") == 0;
    if (fields->error->status != 0)
        return false;
    if (id != NULL && (strncmp(id, is_conversation ? "conv_" : "resp_", 5) != 0 ||
                       !ln_response_store_list(store, id, false, &kept->items))) {
        ln_api_fail(fields->error, 404, param, "%s with id '%.128s' not found.",
                    is_conversation ? "Conversation" : "Previous response", id);
        fields->error->code = is_conversation ? NULL : "previous_response_not_found";
        return false;
    }
    if (is_conversation)
        snprintf(kept->conversation, sizeof kept->conversation, "%s", id);
    kept->n_past = kept->items.n_items;
    *past = kept->items.failed ? NULL : ln_input_items_parse(&kept->items);
    if (*past != NULL)
        return true;
    if (kept->items.failed || ln_json_memory_failed())
        return ln_api_fail_memory(fields->error);
    return ln_api_fail(fields->error, 404, param, "what is stored of '%.128s' is damaged", id);
}

/* The chat that the items of the input end. */
static bool add_input(ln_chat_builder *builder, const ln_fields *fields, ln_response_store *store,
                      const char *serial, ln_responses_request *kept) {
    json_t *all = NULL, *items = NULL;
    bool done = load_past(fields, store, kept, &all) &&
                (items = ln_input_items_read(ln_fields_get(fields, "input"), "input", serial,
                                             &kept->items, store, fields->error)) != NULL;
    bool keeps = kept->is_stored || kept->conversation[0] != '\0';
    if (done && (json_array_extend(all, items) != 0 ||
                 (keeps && !ln_input_items_keep(items, &kept->items))))
        done = ln_api_fail_memory(fields->error);
    if (done && kept->conversation[0] != '\0' &&
        !ln_response_store_fits(store, NULL, NULL, &kept->items))
        done = ln_api_fail(fields->error, 400, "conversation",
                           "the conversation with this input is larger than what the server stores "
                           "(--max-response-bytes)");
    done = done && ln_responses_items_add(builder, all, kept->n_past, "input", fields->error);
    if (!keeps)
        ln_item_list_free(&kept->items);
    json_decref(items);
    json_decref(all);
    return done;
}

static bool add_messages(ln_chat_builder *builder, const ln_fields *fields,
                         ln_response_store *store, const char *serial, ln_responses_request *kept) {
    const char *instructions = NULL;
    if (!ln_fields_text(fields, "instructions", &instructions))
        return false;
    if (instructions != NULL)
        ln_chat_builder_add_message(builder, "system", json_string(instructions));
    return add_input(builder, fields, store, serial, kept);
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
static bool keep_echo(const ln_fields *fields, ln_responses_request *kept) {
    ln_strbuf *out = &kept->echo;
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
    ln_strbuf_printf(out, ",\"store\":%s,\"conversation\":", kept->is_stored ? "true" : "false");
    if (kept->conversation[0] != '\0')
        ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, kept->conversation[0] != '\0' ? kept->conversation : NULL);
    if (kept->conversation[0] != '\0')
        ln_strbuf_putc(out, '}');
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
                                           "conversation",
                                           "!prompt",
                                           "!messages",
                                           NULL};

json_t *ln_responses_input_translate(const ln_fields *fields, ln_response_store *store,
                                     const char *serial, ln_responses_request *kept) {
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
    ln_chat_builder builder;
    kept->store = store;
    kept->is_stored = true;
    if (!ln_fields_only(fields, known_fields) || !check_rest(fields) ||
        !ln_fields_bool(fields, "store", &kept->is_stored) ||
        !ln_fields_bool(fields, "background", &kept->runs_in_background))
        return NULL;
    ln_chat_builder_init(&builder);
    ln_chat_builder_copy_all(&builder, fields, same);
    ln_chat_builder_copy(&builder, fields, "max_output_tokens", "max_tokens");
    if (add_messages(&builder, fields, store, serial, kept) && add_tools(&builder, fields) &&
        add_tool_choice(&builder, fields) && add_text(&builder, fields) &&
        add_include(&builder, fields) && !keep_echo(fields, kept))
        ln_api_fail_memory(fields->error);
    return ln_chat_builder_take(&builder, fields->error);
}
