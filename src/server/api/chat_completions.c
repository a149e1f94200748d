/* /v1/chat/completions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "server/api/routes.h"
#include "server/generation/chat_messages.h"
#include "server/generation/chat_tools.h"
#include "server/generation/common_fields.h"
#include "server/generation/generate.h"
#include "server/generation/generation.h"
#include "server/generation/openai_writer.h"

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
                                           "modalities=[\"text\"]",
                                           "best_of=1",
                                           "echo=false",
                                           "add_generation_prompt=true",
                                           "!audio",
                                           "!web_search_options",
                                           "!functions",
                                           "!function_call",
                                           "!chat_template",
                                           "!documents",
                                           "!prompt",
                                           "continue_final_message=false",
                                           NULL};

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

/* Renders the template; *text is what it wrote (linnet_free). */
static bool render(const linnet_model *model, const json_t *messages, const json_t *tools,
                   const json_t *variables, ln_prompt *prompt, char **text, ln_api_error *error) {
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
    else if (linnet_model_render_chat(model, &options, &prompt->ids, &prompt->n_ids, text, &err) !=
             LINNET_OK)
        ln_api_fail_with(error, &err, "messages");
    free(messages_json);
    free(tools_json);
    free(variables_json);
    return error->status == 0;
}

static bool check_length(size_t n_ids, size_t ctx_tokens, ln_api_error *error) {
    if (n_ids == 0)
        return ln_api_fail(error, 400, "messages", "the chat template renders to no tokens");
    if (n_ids < ctx_tokens)
        return true;
    ln_api_fail(error, 400, "messages", "messages has %zu tokens and the context %zu", n_ids,
                ctx_tokens);
    error->code = "context_length_exceeded";
    return false;
}

/* *text: the rendered prompt. */
static bool read_prompt(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                        const ln_api_tools *tools, ln_generation_request *request, char **text) {
    ln_api_error *error = fields->error;
    const char *source = model->chat_source;
    json_t *messages = ln_fields_get(fields, "messages"), *variables = NULL;
    bool knows_calls = source != NULL && strstr(source, "tool_calls") != NULL;
    if (!ln_api_shape_messages(messages, !knows_calls, error) ||
        !read_variables(fields, &variables))
        return false;
    request->prompts = calloc(1, sizeof *request->prompts);
    request->n_prompts = request->prompts != NULL;
    bool done = request->prompts != NULL
                    ? render(model, messages, tools->list, variables, request->prompts, text, error)
                    : ln_api_fail(error, 503, NULL, "out of memory");
    json_decref(variables);
    return done && check_length(request->prompts[0].n_ids, ctx_tokens, error);
}

/* ---- the answer ------------------------------------------------------------------------- */

/* Markers that are special tokens would be left out of the text. */
static void show_markers(const ln_tokenizer *tokenizer, const char *const *markers,
                         ln_generation_request *request) {
    for (; *markers != NULL && request->n_shown_ids < LN_API_MAX_MARKERS; markers++) {
        int32_t id = ln_tokenizer_find(tokenizer, *markers, strlen(*markers));
        if (id >= 0 && ln_tokenizer_is_special(tokenizer, id))
            request->shown_ids[request->n_shown_ids++] = id;
    }
}

/* How the answer is taken apart. Calls are looked for where tools were given, and not in JSON that
 * was asked for. A template that knows no syntax has Hermes'. */
static void choose_parts(const linnet_model *model, const ln_api_tools *tools, const char *prompt,
                         ln_generation_request *request) {
    static const char *const thoughts[] = {LN_THINK_BEGIN, LN_THINK_END, NULL};
    const char *source = model->chat_source;
    size_t n_bytes = source != NULL ? strlen(source) : 0;
    linnet_grammar_kind kind = request->options.grammar_kind;
    bool is_json = kind == LINNET_GRAMMAR_JSON || kind == LINNET_GRAMMAR_JSON_SCHEMA;
    if (tools->list != NULL && (tools->must_call || !is_json)) {
        request->syntax = ln_tool_syntax_detect(source, n_bytes);
        if (request->syntax == LN_TOOLS_NONE)
            request->syntax = LN_TOOLS_HERMES;
        request->calls_once = !tools->many || tools->name != NULL;
        show_markers(model->tokenizer, ln_tool_syntax_markers(request->syntax), request);
        request->hides_markers = request->n_shown_ids > 0;
    }
    request->model_reasons = ln_chat_template_reasons(source, n_bytes);
    if (request->model_reasons)
        request->reasoning = ln_chat_prompt_reasoning(prompt, strlen(prompt));
    request->options.reasoning = (linnet_reasoning)request->reasoning;
    if (request->reasoning != LN_REASONING_NONE)
        show_markers(model->tokenizer, thoughts, request);
    if (request->n_shown_ids > 0 && !request->options.keep_special)
        request->options.keep_special = request->hides_special = true;
}

static bool read_answer(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                        ln_generation_request *request) {
    ln_api_tools tools;
    char *text = NULL;
    bool done = ln_api_read_tools(fields, &tools) &&
                read_prompt(fields, model, ctx_tokens, &tools, request, &text);
    if (done)
        choose_parts(model, &tools, text, request);
    linnet_free(text);
    if (done && tools.must_call)
        done = ln_api_require_calls(&tools, request, fields->error);
    return done;
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

static bool read_body(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                      ln_generation_request *request) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    linnet_request_options *options = &request->options;
    int64_t max_tokens = -1, max_completion = -1;
    request->kind = LN_API_CHAT;
    if (!ln_fields_only(fields, known_fields) || !ln_api_read_common(fields, &info, request) ||
        !ln_fields_integer(fields, "max_tokens", 0, INT32_MAX, &max_tokens) ||
        !ln_fields_integer(fields, "max_completion_tokens", 0, INT32_MAX, &max_completion) ||
        !read_logprobs(fields, &info, options))
        return false;
    if (max_completion >= 0)
        max_tokens = max_completion;
    request->drops_output = max_tokens == 0;
    options->max_tokens = max_tokens > 0 ? (size_t)max_tokens : max_tokens == 0 ? 1 : 0;
    return ln_api_check_lengths(options, fields->error) &&
           read_answer(fields, model, ctx_tokens, request);
}

static bool generate(ln_api_task *task, const ln_fields *fields) {
    return ln_generate(task, fields, read_body);
}

void ln_endpoint_chat_completions(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_CHAT,
                                     .generates = true,
                                     .format = &ln_openai_chat_format,
                                     .read = generate,
                                     .answer = ln_generation_begin};
    ln_api_task_push(context, exchange, &work);
}
