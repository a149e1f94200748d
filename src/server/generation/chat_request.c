#include "server/generation/chat_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/value.h"
#include "model/model.h"
#include "server/generation/chat_messages.h"
#include "server/generation/chat_prompt.h"
#include "server/generation/chat_tools.h"
#include "server/generation/chat_variables.h"
#include "server/generation/common_fields.h"
#include "server/generation/token_rules.h"

static const char *const known_fields[] = {LN_API_COMMON_FIELDS,
                                           "messages",
                                           "max_tokens",
                                           "max_completion_tokens",
                                           "logprobs",
                                           "top_logprobs",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           LN_CHAT_VARIABLE_FIELDS,
                                           "modalities=[\"text\"]",
                                           "best_of=1",
                                           "echo",
                                           "add_generation_prompt",
                                           "!audio",
                                           "!web_search_options",
                                           "functions",
                                           "function_call",
                                           "chat_template",
                                           "!prompt",
                                           "continue_final_message",
                                           NULL};

/* ---- the prompt ------------------------------------------------------------------------- */

static bool check_length(size_t n_ids, size_t ctx_tokens, ln_api_error *error) {
    if (n_ids == 0)
        return ln_api_fail(error, 400, "messages", "the chat template renders to no tokens");
    if (n_ids < ctx_tokens)
        return true;
    return ln_api_fail_context(error, "messages", n_ids, ctx_tokens);
}

static size_t count_calls(const json_t *messages) {
    size_t index, n = 0;
    json_t *message;
    json_array_foreach(messages, index, message) {
        n += json_array_size(json_object_get(message, "tool_calls"));
    }
    return n;
}

/* *text: the rendered prompt. */
static bool read_prompt(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                        const ln_api_tools *tools, const char *chat_template,
                        ln_generation_request *request, char **text) {
    ln_api_error *error = fields->error;
    json_t *variables = NULL;
    bool begins = true, shows = true;
    ln_chat_prompt chat = {.messages = ln_fields_get(fields, "messages"),
                           .tools = tools->list,
                           .chat_template = chat_template};
    *text = NULL;
    if (!ln_api_shape_messages(chat.messages, error) ||
        !ln_fields_bool(fields, "add_generation_prompt", &begins) ||
        !ln_fields_bool(fields, "continue_final_message", &chat.continues) ||
        !ln_fields_bool(fields, "echo", &chat.keeps_text) ||
        !ln_chat_variables_read(fields, request->template_variables, &variables, &shows))
        return false;
    if (chat.continues && begins && ln_fields_get(fields, "add_generation_prompt") != NULL) {
        json_decref(variables);
        return ln_api_fail(error, 400, "continue_final_message",
                           "continue_final_message and add_generation_prompt exclude each other");
    }
    chat.omits_answer = !begins && !chat.continues;
    chat.variables = variables;
    request->n_past_calls = count_calls(chat.messages);
    request->hides_reasoning = !shows;
    request->echoes = chat.keeps_text = chat.keeps_text && chat.continues;
    request->continues_answer = chat.continues;
    request->prompts = calloc(1, sizeof *request->prompts);
    request->n_prompts = request->prompts != NULL;
    bool done = request->prompts != NULL
                    ? ln_chat_prompt_render(&chat, model, request->prompts, text, error)
                    : ln_api_fail_memory(error);
    json_decref(variables);
    if (done)
        ln_prompt_truncate(request->prompts, request, ctx_tokens);
    return done && check_length(request->prompts[0].n_ids, ctx_tokens, error);
}

/* ---- the answer ------------------------------------------------------------------------- */

static void show_token(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                       ln_generation_request *request) {
    int32_t id = ln_tokenizer_find(tokenizer, text, n_bytes);
    if (id >= 0 && ln_tokenizer_is_special(tokenizer, id) &&
        request->n_shown_ids < LN_API_MAX_MARKERS)
        request->shown_ids[request->n_shown_ids++] = id;
}

/* Markers that are special tokens, or have such in them, would be left out of the text. */
static void show_marker(const ln_tokenizer *tokenizer, const char *marker,
                        ln_generation_request *request) {
    for (const char *at = marker; *at != '\0'; at++) {
        const char *end = *at == '<' || *at == '[' ? strchr(at, *at == '<' ? '>' : ']') : NULL;
        if (end != NULL)
            show_token(tokenizer, at, (size_t)(end - at) + 1, request);
    }
}

static void show_calls(const linnet_model *model, ln_generation_request *request) {
    const char *markers[LN_CALLS_MAX_MARKERS];
    size_t n = ln_call_syntax_markers(request->syntax, markers);
    for (size_t i = 0; i < n; i++)
        show_marker(model->tokenizer, markers[i], request);
    if (request->syntax->mark != NULL)
        show_token(model->tokenizer, request->syntax->mark, strlen(request->syntax->mark), request);
    request->hides_markers = request->n_shown_ids > 0;
}

static void show_reasoning(const linnet_model *model, ln_generation_request *request) {
    const ln_reasoning_format *format = request->format;
    show_marker(model->tokenizer, format->begin, request);
    show_marker(model->tokenizer, format->end, request);
    for (size_t i = 0; i < LN_REASONING_MAX_DROPPED; i++)
        if (format->dropped[i] != NULL)
            show_marker(model->tokenizer, format->dropped[i], request);
}

/* Chooses how the answer is parsed, by the template's source: its syntax of tool calls and of
 * reasoning. Calls are looked for where tools were given, and not in JSON that was asked for. A
 * template that knows no syntax has Hermes'. */
static void choose_parts(const linnet_model *model, const char *source, ln_api_tools *tools,
                         const char *prompt, ln_generation_request *request) {
    size_t n_bytes = source != NULL ? strlen(source) : 0;
    linnet_grammar_kind kind = request->options.grammar_kind;
    bool is_json = kind == LINNET_GRAMMAR_JSON || kind == LINNET_GRAMMAR_JSON_SCHEMA;
    if (tools->list != NULL && (tools->must_call || !is_json)) {
        request->syntax = ln_call_syntax_detect(source, n_bytes);
        if (request->syntax == NULL)
            request->syntax = ln_call_syntax_find("hermes");
        request->calls_once = !tools->many || tools->name != NULL;
        request->must_call = tools->must_call;
        request->tools = ln_json_share(tools->list);
        show_calls(model, request);
    }
    tools->is_bound = ln_api_may_bind_calls(tools, request);
    request->format = ln_reasoning_detect(source, n_bytes);
    request->model_reasons = request->format != NULL && !request->format->is_none;
    if (request->format != NULL && !request->continues_answer)
        request->reasoning = ln_reasoning_of_prompt(request->format, prompt, strlen(prompt));
    request->options.reasoning = (linnet_reasoning)request->reasoning;
    /* grammars other than those of calls know <think> only */
    if (request->format != NULL &&
        (request->format->is_none || (!tools->must_call && !tools->is_bound &&
                                      strcmp(request->format->begin, LN_THINK_BEGIN) != 0)))
        request->options.reasoning = LINNET_REASONING_NONE;
    if (request->reasoning != LN_REASONING_NONE)
        show_reasoning(model, request);
    if (request->n_shown_ids > 0 && !request->options.keep_special)
        request->options.keep_special = request->hides_special = true;
}

/* The template that comes with the messages; NULL: none. */
static bool read_template(const ln_fields *fields, const char **source) {
    enum { MAX_BYTES = 256 << 10 };
    *source = NULL;
    if (!ln_fields_text(fields, "chat_template", source))
        return false;
    if (*source == NULL || strlen(*source) <= MAX_BYTES)
        return true;
    return ln_api_fail(fields->error, 400, "chat_template", "chat_template has more than %d bytes",
                       MAX_BYTES);
}

static bool read_answer(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                        ln_generation_request *request) {
    ln_api_tools tools;
    char *text = NULL;
    const char *source = NULL;
    bool done = read_template(fields, &source) &&
                ln_api_shape_functions(fields, &request->calls_function) &&
                ln_api_shape_custom_tools(fields, &request->custom_tools) &&
                ln_api_read_tools(fields, &tools) &&
                read_prompt(fields, model, ctx_tokens, &tools, source, request, &text);
    if (done)
        choose_parts(model, source != NULL ? source : model->chat_source, &tools, text, request);
    if (request->keeps_rendered)
        request->rendered = text;
    else
        linnet_free(text);
    request->options.continues_prompt =
        request->continues_answer && request->options.grammar_kind == LINNET_GRAMMAR_NONE;
    if (done && (tools.must_call || tools.is_bound))
        done = ln_api_shape_calls(&tools, request, fields->error);
    return done;
}

/* ---- the body --------------------------------------------------------------------------- */

static bool read_logprobs(const ln_fields *fields, const linnet_model_info *info,
                          ln_generation_request *request) {
    linnet_request_options *options = &request->options;
    int64_t n_top = -1;
    if (!ln_fields_bool(fields, "logprobs", &options->logprobs) ||
        !ln_fields_integer(fields, "top_logprobs", 0, LN_API_MAX_TOP_LOGPROBS, &n_top))
        return false;
    if (n_top >= 0 && !options->logprobs)
        return ln_api_fail(fields->error, 400, "top_logprobs",
                           "top_logprobs needs logprobs to be true");
    return ln_api_read_logprobs(fields, info, n_top, request);
}

static bool add_text(const json_t *text, ln_strbuf *all) {
    return json_is_string(text) &&
           ln_strbuf_append(all, json_string_value(text), json_string_length(text));
}

/* {"type": "content", "content": a text, or a list of parts that are}: what the answer will be for
 * the most part, which is drafted. */
static bool read_prediction(const ln_fields *fields, const linnet_model *model,
                            ln_generation_request *request) {
    const json_t *prediction = ln_fields_get(fields, "prediction");
    const json_t *content = json_object_get(prediction, "content"), *part;
    const char *type = json_string_value(json_object_get(prediction, "type"));
    linnet_error err = {0};
    ln_strbuf text;
    size_t i;
    if (prediction == NULL)
        return fields->error->status == 0;
    ln_strbuf_init(&text);
    bool is_text = type != NULL && strcmp(type, "content") == 0 &&
                   (json_is_array(content) || add_text(content, &text));
    json_array_foreach(content, i, part) {
        is_text = is_text && add_text(json_object_get(part, "text"), &text);
    }
    if (!is_text && !text.failed)
        ln_api_fail(fields->error, 400, "prediction",
                    "prediction is not of type content with a text or parts of text");
    else if (text.failed)
        ln_api_fail_memory(fields->error);
    else if (linnet_model_encode(model, text.len > 0 ? text.data : "", text.len, false, false,
                                 &request->prediction_ids, &request->options.n_prediction_ids,
                                 &err) != LINNET_OK)
        ln_api_fail_with(fields->error, &err, "prediction");
    request->options.prediction_ids = request->prediction_ids;
    ln_strbuf_free(&text);
    return fields->error->status == 0;
}

bool ln_chat_request_read(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    linnet_request_options *options = &request->options;
    int64_t max_tokens = -1, max_completion = -1;
    request->kind = LN_API_CHAT;
    if (!ln_fields_only(fields, known_fields) || !ln_api_read_common(fields, &info, request) ||
        !ln_token_rules_read(fields, model, &info, request) ||
        !ln_api_read_max_tokens(fields, "max_tokens", &max_tokens) ||
        !ln_fields_integer(fields, "max_completion_tokens", 0, INT32_MAX, &max_completion) ||
        !read_logprobs(fields, &info, request) || !read_prediction(fields, model, request))
        return false;
    if (max_completion >= 0)
        max_tokens = max_completion;
    request->drops_output = max_tokens == 0;
    options->max_tokens = max_tokens > 0 ? (size_t)max_tokens : max_tokens == 0 ? 1 : 0;
    return ln_api_check_lengths(request, fields->error) &&
           read_answer(fields, model, ctx_tokens, request);
}

bool ln_chat_request_generate(ln_api_task *task, json_t *body, const char *messages_name) {
    ln_api_error *error = &task->error;
    const ln_fields fields = {body, "", error, NULL};
    if (body == NULL || ln_generate(task, &fields, ln_chat_request_read))
        return body != NULL;
    if (strcmp(error->param, "messages") == 0)
        snprintf(error->param, sizeof error->param, "%s", messages_name);
    return false;
}

bool ln_chat_request_count(ln_api_task *task, json_t *body) {
    const ln_fields fields = {body, "", &task->error, NULL};
    return body != NULL && ln_api_task_check_model(task, &fields) &&
           ln_chat_request_read(&fields, task->served->model, SIZE_MAX, &task->request);
}
