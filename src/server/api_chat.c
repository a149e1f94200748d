/* The body of /v1/chat/completions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "server/api.h"

static const char *const known_fields[] = {LN_API_COMMON_FIELDS,
                                           "messages",
                                           "max_tokens",
                                           "max_completion_tokens",
                                           "logprobs",
                                           "top_logprobs",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "chat_template_kwargs",
                                           "reasoning_effort",
                                           NULL};

/* ---- messages --------------------------------------------------------------------------- */

/* Parts of type text as one string, each on lines of its own; NULL with the error set. */
static json_t *join_parts(const json_t *parts, size_t message, ln_api_error *error) {
    size_t index;
    json_t *part, *joined = NULL;
    ln_strbuf text;
    ln_strbuf_init(&text);
    json_array_foreach(parts, index, part) {
        const json_t *type = json_object_get(part, "type"), *value = json_object_get(part, "text");
        const char *name = json_is_string(type) ? json_string_value(type) : "";
        char param[96];
        snprintf(param, sizeof param, "messages[%zu].content[%zu]", message, index);
        bool is_text = strcmp(name, "text") == 0;
        if (!is_text || !json_is_string(value)) {
            ln_api_fail(error, 400, param, "%s: %s", param,
                        is_text ? "text is not a string" : "only parts of type text are supported");
            break;
        }
        if (index > 0)
            ln_strbuf_putc(&text, '\n');
        ln_strbuf_append(&text, json_string_value(value), json_string_length(value));
    }
    if (error->status == 0 && !text.failed)
        joined = json_stringn(text.len > 0 ? text.data : "", text.len);
    if (joined == NULL)
        ln_api_fail(error, 503, NULL, "out of memory");
    ln_strbuf_free(&text);
    return joined;
}

/* Clients send the arguments of calls as a string; templates expect the object in it. */
static bool open_arguments(json_t *message, size_t index, ln_api_error *error) {
    size_t i;
    json_t *call, *calls = json_object_get(message, "tool_calls");
    char param[96];
    snprintf(param, sizeof param, "messages[%zu].tool_calls", index);
    if (calls == NULL || json_is_null(calls))
        return true;
    if (!json_is_array(calls))
        return ln_api_fail(error, 400, param, "%s is not a list", param);
    json_array_foreach(calls, i, call) {
        json_t *function = json_object_get(call, "function");
        json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_object(call) || !json_is_object(function) ||
            !json_is_string(json_object_get(function, "name")))
            return ln_api_fail(error, 400, param, "%s: item %zu has no function with a name", param,
                               i);
        if (!json_is_string(arguments))
            continue;
        json_t *object =
            json_loadb(json_string_value(arguments), json_string_length(arguments),
                       JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        if (!json_is_object(object)) {
            json_decref(object);
            return ln_api_fail(error, 400, param,
                               "%s: the arguments of item %zu are not a JSON object", param, i);
        }
        if (json_object_set_new(function, "arguments", object) != 0)
            return ln_api_fail(error, 503, NULL, "out of memory");
    }
    return true;
}

static bool is_known_role(const char *role) {
    static const char *const roles[] = {"system", "user", "assistant", "tool", NULL};
    const char *const *known = roles;
    while (*known != NULL && strcmp(*known, role) != 0)
        known++;
    return *known != NULL;
}

/* Checks a message, and brings it to the form that templates expect. */
static bool shape_message(json_t *message, size_t index, ln_api_error *error) {
    char param[96];
    const json_t *role = json_object_get(message, "role");
    json_t *content = json_object_get(message, "content");
    snprintf(param, sizeof param, "messages[%zu].role", index);
    if (!json_is_string(role))
        return ln_api_fail(error, 400, param, "%s is missing or not a string", param);
    if (strcmp(json_string_value(role), "developer") == 0) /* a newer word for it */
        json_object_set_new(message, "role", json_string("system"));
    else if (!is_known_role(json_string_value(role)))
        return ln_api_fail(error, 400, param, "%s is not system, user, assistant or tool", param);
    snprintf(param, sizeof param, "messages[%zu].content", index);
    if (json_is_array(content)) {
        json_t *joined = join_parts(content, index, error);
        if (joined == NULL || json_object_set_new(message, "content", joined) != 0)
            return ln_api_fail(error, 503, NULL, "out of memory");
    } else if (content == NULL || json_is_null(content)) {
        bool has_calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
        if (!has_calls)
            return ln_api_fail(error, 400, param, "%s is missing", param);
        json_object_set_new(message, "content", json_null());
    } else if (!json_is_string(content)) {
        return ln_api_fail(error, 400, param, "%s is not a string or a list of parts", param);
    }
    return open_arguments(message, index, error);
}

static bool shape_messages(json_t *messages, ln_api_error *error) {
    enum { MAX_MESSAGES = 10000 };
    size_t index;
    json_t *message;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return ln_api_fail(error, 400, "messages", "messages is missing or not a list of messages");
    if (json_array_size(messages) > MAX_MESSAGES)
        return ln_api_fail(error, 400, "messages", "messages has more than %d items", MAX_MESSAGES);
    json_array_foreach(messages, index, message) {
        char param[96];
        snprintf(param, sizeof param, "messages[%zu]", index);
        if (!json_is_object(message))
            return ln_api_fail(error, 400, param, "%s is not an object", param);
        if (!shape_message(message, index, error))
            return false;
    }
    return true;
}

/* ---- tools ------------------------------------------------------------------------------ */

static bool check_tools(const json_t *tools, ln_api_error *error) {
    enum { MAX_TOOLS = 128 };
    size_t index;
    json_t *tool;
    if (!json_is_array(tools) || json_array_size(tools) > MAX_TOOLS)
        return ln_api_fail(error, 400, "tools", "tools is not a list of at most %d tools",
                           MAX_TOOLS);
    json_array_foreach(tools, index, tool) {
        const json_t *function = json_object_get(tool, "function");
        const json_t *type = json_object_get(tool, "type");
        char param[96];
        snprintf(param, sizeof param, "tools[%zu]", index);
        if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0 ||
            !json_is_string(json_object_get(function, "name")))
            return ln_api_fail(error, 400, param, "%s is not of type function with a name", param);
        const json_t *parameters = json_object_get(function, "parameters");
        if (parameters != NULL && !json_is_object(parameters) && !json_is_null(parameters))
            return ln_api_fail(error, 400, param, "%s: parameters is not an object", param);
    }
    return true;
}

/* Whether the template sees the tools: "none" hides them. */
static bool read_tool_choice(const ln_fields *fields, const json_t *tools, bool *hides_tools) {
    const json_t *choice = ln_fields_get(fields, "tool_choice");
    const char *word = json_string_value(choice);
    if (choice == NULL)
        return fields->error->status == 0;
    if (word != NULL && strcmp(word, "none") == 0) {
        *hides_tools = true;
        return true;
    }
    if (tools == NULL)
        return ln_api_fail(fields->error, 400, "tool_choice", "tool_choice needs tools");
    if (word != NULL && strcmp(word, "auto") == 0)
        return true;
    if ((word != NULL && strcmp(word, "required") == 0) || json_is_object(choice))
        return ln_api_fail(fields->error, 400, "tool_choice",
                           "tool_choice: only none and auto are supported yet");
    return ln_api_fail(fields->error, 400, "tool_choice",
                       "tool_choice is not none, auto, required or a named function");
}

/* ---- the prompt ------------------------------------------------------------------------- */

/* Further variables of the template. */
static bool read_variables(const ln_fields *fields, json_t **variables) {
    const json_t *given = ln_fields_get(fields, "chat_template_kwargs");
    const char *effort = NULL;
    if (!ln_fields_text(fields, "reasoning_effort", &effort))
        return false;
    if (given != NULL && !json_is_object(given))
        return ln_api_fail(fields->error, 400, "chat_template_kwargs",
                           "chat_template_kwargs is not an object");
    *variables = given != NULL ? json_copy((json_t *)(uintptr_t)given) : json_object();
    if (*variables == NULL)
        return ln_api_fail(fields->error, 503, NULL, "out of memory");
    if (effort != NULL)
        json_object_set_new(*variables, "reasoning_effort", json_string(effort));
    return true;
}

static bool render(const linnet_model *model, const json_t *messages, const json_t *tools,
                   const json_t *variables, ln_prompt *prompt, ln_api_error *error) {
    linnet_error err = {0};
    linnet_chat_options options;
    linnet_chat_options_init(&options);
    char *messages_json = json_dumps(messages, JSON_COMPACT);
    char *tools_json = tools != NULL ? json_dumps(tools, JSON_COMPACT) : NULL;
    char *variables_json = json_dumps(variables, JSON_COMPACT);
    options.messages_json = messages_json;
    options.tools_json = tools_json;
    options.variables_json = variables_json;
    if (messages_json == NULL || variables_json == NULL || (tools != NULL && tools_json == NULL))
        ln_api_fail(error, 503, NULL, "out of memory");
    else if (linnet_model_render_chat(model, &options, &prompt->ids, &prompt->n_ids, NULL, &err) !=
             LINNET_OK)
        ln_api_fail_with(error, &err, "messages");
    free(messages_json);
    free(tools_json);
    free(variables_json);
    return error->status == 0;
}

static bool read_prompt(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                        ln_api_request *request) {
    ln_api_error *error = fields->error;
    json_t *messages = ln_fields_get(fields, "messages"), *variables = NULL;
    const json_t *tools = ln_fields_get(fields, "tools");
    bool hides_tools = false;
    if (!shape_messages(messages, error) || (tools != NULL && !check_tools(tools, error)) ||
        !read_tool_choice(fields, tools, &hides_tools) || !read_variables(fields, &variables))
        return false;
    if (hides_tools || json_array_size(tools) == 0)
        tools = NULL;
    request->prompts = calloc(1, sizeof *request->prompts);
    request->n_prompts = request->prompts != NULL;
    bool done = request->prompts != NULL
                    ? render(model, messages, tools, variables, request->prompts, error)
                    : ln_api_fail(error, 503, NULL, "out of memory");
    json_decref(variables);
    if (!done)
        return false;
    size_t n_ids = request->prompts[0].n_ids;
    if (n_ids == 0)
        return ln_api_fail(error, 400, "messages", "the chat template renders to no tokens");
    if (n_ids < ctx_tokens)
        return true;
    ln_api_fail(error, 400, "messages", "messages has %zu tokens and the context %zu", n_ids,
                ctx_tokens);
    error->code = "context_length_exceeded";
    return false;
}

/* ---- the body --------------------------------------------------------------------------- */

static bool read_logprobs(const ln_fields *fields, const linnet_model_info *info,
                          linnet_request_options *options) {
    int64_t n_top = -1;
    if (!ln_fields_bool(fields, "logprobs", &options->logprobs) ||
        !ln_fields_integer(fields, "top_logprobs", 0, LN_API_MAX_TOP_LOGPROBS, &n_top))
        return false;
    if (n_top >= 0 && !options->logprobs)
        return ln_api_fail(fields->error, 400, "top_logprobs",
                           "top_logprobs needs logprobs to be true");
    n_top = n_top > info->n_vocab ? info->n_vocab : n_top;
    options->top_logprobs = n_top > 0 ? (int32_t)n_top : 0;
    return true;
}

bool ln_api_read_chat(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                      ln_api_request *request) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    linnet_request_options *options = &request->options;
    int64_t max_tokens = -1, max_completion = -1;
    bool is_parallel;
    request->kind = LN_API_CHAT;
    if (!ln_fields_only(fields, known_fields) || !ln_api_read_common(fields, &info, request) ||
        !ln_fields_integer(fields, "max_tokens", 0, INT32_MAX, &max_tokens) ||
        !ln_fields_integer(fields, "max_completion_tokens", 0, INT32_MAX, &max_completion) ||
        !ln_fields_bool(fields, "parallel_tool_calls", &is_parallel) ||
        !read_logprobs(fields, &info, options))
        return false;
    if (max_completion >= 0)
        max_tokens = max_completion;
    request->drops_output = max_tokens == 0;
    options->max_tokens = max_tokens > 0 ? (size_t)max_tokens : max_tokens == 0 ? 1 : 0;
    return read_prompt(fields, model, ctx_tokens, request);
}
