#include "server/generation/chat_messages.h"

#include <stdio.h>
#include <string.h>

#include "base/json/value.h"
#include "base/strbuf.h"

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
        ln_api_fail_memory(error);
    ln_strbuf_free(&text);
    return joined;
}

/* The call of a custom tool as one of the function that the model sees; false for want of memory.
 */
static bool open_custom(json_t *call) {
    json_t *custom = json_object_get(call, "custom");
    json_t *name = json_object_get(custom, "name"), *input = json_object_get(custom, "input");
    if (!json_is_string(name) || !json_is_string(input))
        return true;
    json_t *function = json_pack("{s:O, s:{s:O}}", "name", name, "arguments", "input", input);
    return json_object_set_new(call, "function", function) == 0 &&
           json_object_set_new(call, "type", json_string("function")) == 0 &&
           json_object_del(call, "custom") == 0;
}

/* Clients send the arguments of calls as a string; templates expect the object in it. */
static bool open_call(json_t *call, size_t index, const char *param, ln_api_error *error) {
    if (!open_custom(call))
        return ln_api_fail_memory(error);
    json_t *function = json_object_get(call, "function");
    const json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_object(call) || !json_is_object(function) ||
        !json_is_string(json_object_get(function, "name")))
        return ln_api_fail(error, 400, param, "%s: item %zu has no function with a name", param,
                           index);
    static const char *const texts[] = {"id", "type"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const json_t *text = json_object_get(call, texts[i]);
        if (text != NULL && !json_is_string(text) && !json_is_null(text))
            return ln_api_fail(error, 400, param, "%s: the %s of item %zu is not a string", param,
                               texts[i], index);
    }
    if (json_is_object(arguments))
        return true;
    bool is_empty = arguments == NULL || json_is_null(arguments) ||
                    (json_is_string(arguments) && json_string_length(arguments) == 0);
    json_t *object = is_empty ? json_object() : ln_fields_parse_value(arguments);
    if (!json_is_object(object)) {
        json_decref(object);
        return ln_api_fail(error, 400, param, "%s: the arguments of item %zu are not a JSON object",
                           param, index);
    }
    return json_object_set_new(function, "arguments", object) == 0 || ln_api_fail_memory(error);
}

static bool open_calls(json_t *message, size_t index, ln_api_error *error) {
    size_t i;
    json_t *call, *calls = json_object_get(message, "tool_calls");
    char param[96];
    snprintf(param, sizeof param, "messages[%zu].tool_calls", index);
    if (calls == NULL || json_is_null(calls))
        return calls == NULL || json_object_del(message, "tool_calls") == 0;
    if (!json_is_array(calls))
        return ln_api_fail(error, 400, param, "%s is not a list", param);
    json_array_foreach(calls, i, call) {
        if (!open_call(call, i, param, error))
            return false;
    }
    return true;
}

/* Sets what a message lacks, or has in another form; takes the value, NULL for want of memory. */
static bool set(json_t *message, const char *name, json_t *value, ln_api_error *error) {
    return json_object_set_new(message, name, value) == 0 || ln_api_fail_memory(error);
}

/* What templates know as reasoning_content has two names. */
static bool shape_reasoning(json_t *message, size_t index, ln_api_error *error) {
    static const char *const names[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2; i++) {
        json_t *value = json_object_get(message, names[i]);
        char param[96];
        snprintf(param, sizeof param, "messages[%zu].%s", index, names[i]);
        if (value == NULL)
            continue;
        if (json_is_null(value))
            json_object_del(message, names[i]);
        else if (!json_is_string(value))
            return ln_api_fail(error, 400, param, "%s is not a string", param);
        else if (json_object_get(message, names[0]) == NULL &&
                 !set(message, names[0], json_incref(value), error))
            return false;
    }
    return true;
}

/* Templates know which roles there are; a word is all that can be said here. */
static bool is_role(const char *role) {
    enum { MAX_ROLE = 64 };
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n_bytes = strlen(role);
    return n_bytes > 0 && n_bytes <= MAX_ROLE && strspn(role, allowed) == n_bytes;
}

/* A member that is a string where it is there at all. */
static bool check_text(const json_t *message, size_t index, const char *name, ln_api_error *error) {
    const json_t *value = json_object_get(message, name);
    char param[96];
    if (value == NULL || json_is_null(value) || json_is_string(value))
        return true;
    snprintf(param, sizeof param, "messages[%zu].%s", index, name);
    return ln_api_fail(error, 400, param, "%s is not a string", param);
}

/* The older function_call of an assistant's message as one of tool_calls, and the role "function"
 * of its result as "tool". The message at `call` has the call; it gives it an id of nine letters
 * and digits, which all templates take. */
static bool shape_function(json_t *message, size_t index, size_t *call, ln_api_error *error) {
    json_t *function = json_object_get(message, "function_call");
    char id[32], param[96];
    if (json_is_object(function) && json_object_get(message, "tool_calls") == NULL) {
        *call = index;
        snprintf(id, sizeof id, "call%05zu", index);
        json_t *calls =
            json_pack("[{s:s, s:s, s:O}]", "id", id, "type", "function", "function", function);
        if (!set(message, "tool_calls", calls, error))
            return false;
    } else if (function != NULL && !json_is_null(function)) {
        snprintf(param, sizeof param, "messages[%zu].function_call", index);
        return ln_api_fail(error, 400, param, "%s is not an object, or beside tool_calls", param);
    }
    json_object_del(message, "function_call");
    const json_t *role = json_object_get(message, "role");
    if (!ln_json_is(role, "function"))
        return true;
    snprintf(id, sizeof id, "call%05zu", *call);
    return set(message, "role", json_string("tool"), error) &&
           set(message, "tool_call_id", json_string(id), error);
}

/* Null stays beside calls; an answer that had thoughts alone, or nothing, is the empty text. */
static bool shape_missing(json_t *message, const char *param, ln_api_error *error) {
    const char *role = json_string_value(json_object_get(message, "role"));
    if (json_array_size(json_object_get(message, "tool_calls")) > 0)
        return set(message, "content", json_null(), error);
    if (strcmp(role, "assistant") == 0)
        return set(message, "content", json_string(""), error);
    return ln_api_fail(error, 400, param, "%s is missing", param);
}

static bool shape_message(json_t *message, size_t index, ln_api_error *error) {
    char param[96];
    const json_t *role = json_object_get(message, "role");
    json_t *content = json_object_get(message, "content");
    snprintf(param, sizeof param, "messages[%zu].role", index);
    if (!json_is_string(role))
        return ln_api_fail(error, 400, param, "%s is missing or not a string", param);
    if (strcmp(json_string_value(role), "developer") == 0) { /* a newer word for it */
        if (!set(message, "role", json_string("system"), error))
            return false;
    } else if (!is_role(json_string_value(role))) {
        return ln_api_fail(error, 400, param,
                           "%s is not system, user, assistant, tool or a word that the chat "
                           "template knows",
                           param);
    }
    snprintf(param, sizeof param, "messages[%zu].content", index);
    if (json_is_array(content)) {
        json_t *joined = join_parts(content, index, error);
        if (joined == NULL || json_object_set_new(message, "content", joined) != 0)
            return ln_api_fail_memory(error);
    } else if (content == NULL || json_is_null(content)) {
        if (!shape_missing(message, param, error))
            return false;
    } else if (!json_is_string(content)) {
        return ln_api_fail(error, 400, param, "%s is not a string or a list of parts", param);
    }
    return check_text(message, index, "name", error) &&
           check_text(message, index, "tool_call_id", error) && open_calls(message, index, error) &&
           shape_reasoning(message, index, error);
}

bool ln_api_shape_messages(json_t *messages, ln_api_error *error) {
    enum { MAX_MESSAGES = 10000 };
    size_t index, call = 0;
    json_t *message;
    if (!json_is_array(messages))
        return ln_api_fail(error, 400, "messages", "messages is %s",
                           messages == NULL ? "missing" : "not a list of messages");
    if (json_array_size(messages) == 0)
        return ln_api_fail(error, 400, "messages", "messages is empty; it needs one at least");
    if (json_array_size(messages) > MAX_MESSAGES)
        return ln_api_fail(error, 400, "messages", "messages has more than %d items", MAX_MESSAGES);
    json_array_foreach(messages, index, message) {
        char param[96];
        snprintf(param, sizeof param, "messages[%zu]", index);
        if (!json_is_object(message))
            return ln_api_fail(error, 400, param, "%s is not an object", param);
        if (!shape_function(message, index, &call, error) || !shape_message(message, index, error))
            return false;
    }
    return true;
}
