#include "server/ollama/ollama_input.h"

#include <stdio.h>
#include <string.h>

#include "base/json/value.h"
#include "server/generation/chat_builder.h"

static bool fail_at(ln_api_error *error, const char *param, const char *what) {
    return ln_api_fail(error, 400, param, "%s: %s", param, what);
}

json_t *ln_ollama_input_model(const json_t *name) {
    static const char tag[] = ":latest";
    size_t n_bytes = json_string_length(name), n_tag = sizeof tag - 1;
    const char *text = json_string_value(name);
    if (n_bytes > n_tag && strcmp(text + n_bytes - n_tag, tag) == 0)
        n_bytes -= n_tag;
    return json_stringn(text != NULL ? text : "", n_bytes);
}

/* ---- options ---------------------------------------------------------------------------- */

/* Sets what Ollama's models have when a request says nothing. */
static void put_defaults(ln_chat_builder *builder) {
    ln_chat_builder_put(builder, builder->body, "temperature", json_real(0.8));
    ln_chat_builder_put(builder, builder->body, "top_p", json_real(0.9));
    ln_chat_builder_put(builder, builder->body, "top_k", json_integer(40));
}

/* num_predict: tokens of output; negative: as many as there is room for. */
static bool add_num_predict(ln_chat_builder *builder, const ln_fields *options, bool is_raw) {
    int64_t n_tokens = -1;
    if (!ln_fields_integer(options, "num_predict", -2, INT32_MAX, &n_tokens))
        return false;
    if (n_tokens >= 0)
        ln_chat_builder_put(builder, builder->body, "max_tokens", json_integer(n_tokens));
    else if (is_raw)
        ln_chat_builder_put(builder, builder->body, "max_tokens", json_integer(INT32_MAX));
    return true;
}

static bool add_options(ln_chat_builder *builder, const ln_fields *fields, bool is_raw) {
    static const char *const known[] = {"temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "typical_p",
                                        "seed",
                                        "stop",
                                        "repeat_penalty",
                                        "repeat_last_n",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "num_predict",
                                        "num_ctx",
                                        "num_keep",
                                        "num_batch",
                                        "num_gpu",
                                        "main_gpu",
                                        "use_mmap",
                                        "num_thread",
                                        "numa",
                                        "low_vram",
                                        "vocab_only",
                                        "use_mlock",
                                        "penalize_newline",
                                        "tfs_z=1",
                                        "tfs_z=1.0",
                                        "mirostat=0",
                                        "mirostat_tau",
                                        "mirostat_eta",
                                        NULL};
    static const char *const same[] = {
        "temperature",       "top_p", "top_k", "min_p", "typical_p", "stop", "presence_penalty",
        "frequency_penalty", NULL};
    const json_t *value = ln_fields_get(fields, "options");
    const ln_fields options = {value, "options.", fields->error, fields->ignored};
    int64_t last_n = 64;
    uint64_t seed = 0;
    bool has_seed;
    put_defaults(builder);
    if (value != NULL && !json_is_object(value))
        return ln_api_fail(fields->error, 400, "options", "options is not an object");
    if (!ln_fields_only(&options, known) ||
        !ln_fields_integer(&options, "repeat_last_n", -1, INT32_MAX, &last_n) ||
        !ln_fields_seed(&options, "seed", &has_seed, &seed))
        return false;
    ln_chat_builder_copy_all(builder, &options, same);
    ln_chat_builder_copy(builder, &options, "repeat_penalty", "repetition_penalty");
    if (json_integer_value(ln_fields_get(&options, "seed")) >= 0) /* else any */
        ln_chat_builder_copy(builder, &options, "seed", "seed");
    if (last_n >= 0)
        ln_chat_builder_put(builder, builder->body, "repeat_last_n", json_integer(last_n));
    return add_num_predict(builder, &options, is_raw);
}

/* "json", or a schema. */
static bool add_format(ln_chat_builder *builder, const ln_fields *fields) {
    const json_t *format = ln_fields_get(fields, "format");
    if (format == NULL || (json_is_string(format) && json_string_length(format) == 0))
        return true;
    if (json_is_object(format)) /* Ollama's answers have no other members than the schema's */
        ln_chat_builder_set_schema(builder, format, true);
    else if (ln_json_is(format, "json"))
        ln_chat_builder_put(builder, builder->body, "response_format",
                            json_pack("{s:s}", "type", "json_object"));
    else
        return ln_api_fail(fields->error, 400, "format", "format is not json or a schema");
    return true;
}

/* What both kinds of bodies share. An answer is streamed unless `stream` is false. */
static bool add_common(ln_chat_builder *builder, const ln_fields *fields, bool is_raw) {
    bool streams = true;
    if (!ln_fields_bool(fields, "stream", &streams))
        return false;
    ln_chat_builder_put(builder, builder->body, "stream", json_boolean(streams));
    if (ln_fields_get(fields, "model") != NULL) {
        if (!json_is_string(ln_fields_get(fields, "model")))
            return ln_api_fail(fields->error, 400, "model", "model is not a string");
        ln_chat_builder_put(builder, builder->body, "model",
                            ln_ollama_input_model(ln_fields_get(fields, "model")));
    }
    const json_t *logprobs = ln_fields_get(fields, "logprobs");
    if (is_raw && logprobs != NULL && !json_is_false(logprobs))
        return ln_api_fail(fields->error, 400, "logprobs", "logprobs and raw exclude each other");
    if (!is_raw) {
        static const char *const same[] = {"think", "logprobs", "top_logprobs", NULL};
        ln_chat_builder_copy_all(builder, fields, same);
    }
    return add_options(builder, fields, is_raw) && add_format(builder, fields);
}

/* ---- messages --------------------------------------------------------------------------- */

/* Calls have no ids here: the next results are theirs, in their order. */
typedef struct call_numbers {
    size_t n_calls, n_results;
} call_numbers;

static json_t *call_id(size_t number) {
    char id[16];
    snprintf(id, sizeof id, "call%05zu", number % 100000);
    return json_string(id);
}

static bool add_calls(ln_chat_builder *builder, json_t *message, const json_t *calls,
                      const char *param, call_numbers *numbers, ln_api_error *error) {
    size_t index;
    json_t *call;
    if (calls != NULL && !json_is_null(calls) && !json_is_array(calls))
        return fail_at(error, param, "tool_calls is not a list");
    json_array_foreach(calls, index, call) {
        const json_t *function = json_object_get(call, "function");
        const json_t *name = json_object_get(function, "name");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(name) || !json_is_object(arguments))
            return fail_at(error, param, "a call needs a name and an object as arguments");
        json_t *id = call_id(numbers->n_calls++);
        ln_chat_builder_add_call(builder, message, id, name, arguments);
        json_decref(id);
    }
    return true;
}

static bool add_message(ln_chat_builder *builder, const json_t *message, size_t index,
                        call_numbers *numbers, ln_api_error *error) {
    char param[64];
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    const json_t *thinking = json_object_get(message, "thinking");
    snprintf(param, sizeof param, "messages[%zu]", index);
    if (role == NULL)
        return fail_at(error, param, "the role is missing or not a string");
    if (json_array_size(json_object_get(message, "images")) > 0)
        return fail_at(error, param, "images are not supported");
    if (content != NULL && !json_is_null(content) && !json_is_string(content))
        return fail_at(error, param, "the content is not a string");
    json_t *added = ln_chat_builder_add_message(
        builder, role, json_is_string(content) ? ln_json_share(content) : json_string(""));
    if (json_is_string(thinking))
        ln_chat_builder_put(builder, added, "reasoning_content", ln_json_share(thinking));
    if (strcmp(role, "tool") == 0)
        ln_chat_builder_put(builder, added, "tool_call_id", call_id(numbers->n_results++));
    return add_calls(builder, added, json_object_get(message, "tool_calls"), param, numbers, error);
}

json_t *ln_ollama_input_translate_chat(const ln_fields *fields, bool *is_empty) {
    static const char *const known[] = {"model",    "messages",     "tools", "format",   "options",
                                        "stream",   "keep_alive",   "think", "truncate", "shift",
                                        "logprobs", "top_logprobs", NULL};
    enum { MAX_MESSAGES = 10000 };
    const json_t *messages = ln_fields_get(fields, "messages");
    size_t index;
    json_t *message;
    call_numbers numbers = {0};
    ln_chat_builder builder;
    if (!ln_fields_only(fields, known))
        return NULL;
    if ((messages != NULL && !json_is_array(messages)) ||
        json_array_size(messages) > MAX_MESSAGES) {
        ln_api_fail(fields->error, 400, "messages", "messages is not a list of at most %d messages",
                    MAX_MESSAGES);
        return NULL;
    }
    *is_empty = json_array_size(messages) == 0;
    if (*is_empty)
        return NULL;
    ln_chat_builder_init(&builder);
    bool done = add_common(&builder, fields, false);
    json_array_foreach(messages, index, message) {
        done = done && add_message(&builder, message, index, &numbers, fields->error);
    }
    ln_chat_builder_copy(&builder, fields, "tools", "tools");
    return ln_chat_builder_take(&builder, fields->error);
}

json_t *ln_ollama_input_translate_generate(const ln_fields *fields, ln_ollama_kind *kind,
                                           bool *is_empty) {
    static const char *const known[] = {
        "model",     "prompt",   "system",     "format",      "options",       "stream",
        "raw",       "think",    "keep_alive", "suffix=\"\"", "template=\"\"", "context",
        "images=[]", "truncate", "shift",      "logprobs",    "top_logprobs",  NULL};
    const char *system = NULL, *prompt = NULL;
    bool is_raw = false;
    ln_chat_builder builder;
    if (!ln_fields_only(fields, known) || !ln_fields_bool(fields, "raw", &is_raw) ||
        !ln_fields_text(fields, "system", &system) || !ln_fields_text(fields, "prompt", &prompt))
        return NULL;
    *kind = is_raw ? LN_OLLAMA_RAW : LN_OLLAMA_GENERATE;
    *is_empty = prompt == NULL || *prompt == '\0';
    if (*is_empty)
        return NULL;
    ln_chat_builder_init(&builder);
    if (add_common(&builder, fields, is_raw) && is_raw) {
        json_object_del(builder.body, "messages");
        ln_chat_builder_put(&builder, builder.body, "prompt", json_string(prompt));
        ln_chat_builder_put(&builder, builder.body, "add_special_tokens", json_true());
    } else {
        if (system != NULL && *system != '\0')
            ln_chat_builder_add_message(&builder, "system", json_string(system));
        ln_chat_builder_add_message(&builder, "user", json_string(prompt));
    }
    return ln_chat_builder_take(&builder, fields->error);
}
