#include "server/completions/completion_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/completions/completion_echo.h"
#include "server/completions/fill_in_middle.h"
#include "server/generation/common_fields.h"
#include "server/generation/token_ids.h"
#include "server/generation/token_rules.h"

static const char *const known_fields[] = {LN_API_COMMON_FIELDS,
                                           "prompt",
                                           "max_tokens",
                                           "echo",
                                           "logprobs",
                                           "add_special_tokens",
                                           "best_of",
                                           "suffix",
                                           "!messages",
                                           "!tools",
                                           NULL};

/* A prompt's text to ids. */
static bool encode(const json_t *value, const char *param, const linnet_model *model,
                   bool adds_special, ln_prompt *prompt, ln_api_error *error) {
    linnet_error err = {0};
    if (linnet_model_encode(model, json_string_value(value), json_string_length(value),
                            adds_special, true, &prompt->ids, &prompt->n_ids, &err) != LINNET_OK)
        return ln_api_fail_with(error, &err, param);
    return true;
}

static bool is_list_of_ids(const json_t *value) {
    return json_is_array(value) && json_array_size(value) > 0 &&
           json_is_number(json_array_get(value, 0));
}

/* The prompts as a list of their values: a string, ids, a list of strings, a list of ids. */
static size_t count_prompts(const json_t *value) {
    return json_is_array(value) && !is_list_of_ids(value) ? json_array_size(value) : 1;
}

static bool read_prompt(const json_t *value, size_t index, bool is_listed, bool adds_special,
                        const char *suffix, const linnet_model *model,
                        const linnet_model_info *info, size_t ctx_tokens,
                        ln_generation_request *request, ln_api_error *error) {
    char param[32] = "prompt";
    ln_prompt *prompt = &request->prompts[index];
    if (is_listed)
        snprintf(param, sizeof param, "prompt[%zu]", index);
    bool is_text = json_is_string(value);
    bool read =
        is_text ? encode(value, param, model, adds_special, prompt, error)
        : json_is_array(value)
            ? ln_api_read_ids(value, info, param, &prompt->ids, &prompt->n_ids, error)
            : ln_api_fail(error, 400, param, "%s is not a string or a list of token ids", param);
    ln_shown_ids shown = {0, prompt->n_ids};
    if (!read ||
        (request->echoes && is_text &&
         !ln_completion_echo_find(model, value, prompt, &shown, error)) ||
        (suffix != NULL && !ln_fill_in_middle(prompt, suffix, model, info, &shown, error)) ||
        (request->echoes &&
         !ln_completion_echo_keep(model, is_text ? value : NULL, shown, request, prompt, error)))
        return false;
    ln_prompt_truncate(prompt, request, ctx_tokens);
    if (prompt->n_ids == 0)
        return ln_api_fail(error, 400, param, "%s has no tokens", param);
    return prompt->n_ids < ctx_tokens ||
           ln_api_fail_context(error, param, prompt->n_ids, ctx_tokens);
}

static bool read_prompts(const ln_fields *fields, const linnet_model *model,
                         const linnet_model_info *info, size_t ctx_tokens,
                         ln_generation_request *request) {
    const json_t *value = ln_fields_get(fields, "prompt");
    bool adds_special = true;
    const char *suffix = NULL;
    if (!ln_fields_bool(fields, "add_special_tokens", &adds_special) ||
        !ln_fields_text(fields, "suffix", &suffix))
        return false;
    if (value == NULL)
        return ln_api_fail(fields->error, 400, "prompt", "prompt is missing");
    size_t count = count_prompts(value);
    bool is_listed = json_is_array(value) && !is_list_of_ids(value);
    if (count == 0 || count > LN_API_MAX_PROMPTS)
        return ln_api_fail(fields->error, 400, "prompt", "prompt must have from 1 to %d items",
                           LN_API_MAX_PROMPTS);
    if (!ln_api_check_mixed(value, "prompt", fields->error))
        return false;
    request->prompts = calloc(count, sizeof *request->prompts);
    if (request->prompts == NULL)
        return ln_api_fail_memory(fields->error);
    request->n_prompts = count;
    for (size_t i = 0; i < count; i++)
        if (!read_prompt(is_listed ? json_array_get(value, i) : value, i, is_listed, adds_special,
                         suffix, model, info, ctx_tokens, request, fields->error))
            return false;
    return true;
}

bool ln_completion_request_read(const ln_fields *fields, const linnet_model *model,
                                size_t ctx_tokens, ln_generation_request *request) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    linnet_request_options *options = &request->options;
    int64_t max_tokens = 16, n_logprobs = -1;
    request->kind = LN_API_COMPLETION;
    if (!ln_fields_only(fields, known_fields) || !ln_api_read_common(fields, &info, request) ||
        !ln_token_rules_read(fields, model, &info, request) ||
        !ln_api_read_max_tokens(fields, "max_tokens", &max_tokens) ||
        !ln_fields_integer(fields, "logprobs", 0, LN_API_MAX_TOP_LOGPROBS, &n_logprobs) ||
        !ln_fields_bool(fields, "echo", &request->echoes))
        return false;
    request->drops_output = max_tokens == 0;
    options->max_tokens = max_tokens > 0 ? (size_t)max_tokens : max_tokens == 0 ? 1 : 0;
    if (!ln_api_check_lengths(request, fields->error))
        return false;
    options->logprobs = n_logprobs >= 0;
    options->prompt_logprobs = options->logprobs && request->echoes;
    if (!ln_api_read_logprobs(fields, &info, n_logprobs, request))
        return false;
    options->continues_prompt = options->grammar_kind == LINNET_GRAMMAR_NONE && !info.has_encoder;
    return read_prompts(fields, model, &info, ctx_tokens, request);
}
