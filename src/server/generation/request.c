#include "server/generation/request.h"

#include <stdlib.h>
#include <string.h>

/* Where a text's character begins. */
static size_t find_char(const char *text, size_t n_bytes, size_t n_chars) {
    size_t at = 0;
    for (size_t count = 0; at < n_bytes; at++) {
        bool begins = ((unsigned char)text[at] & 0xc0) != 0x80;
        if (begins && count++ == n_chars)
            break;
    }
    return at;
}

/* The text of the ids [first, first + n). */
static void cut_text(ln_prompt *prompt, size_t first, size_t n) {
    size_t *offsets = prompt->offsets, n_ahead = offsets[first];
    size_t begin = find_char(prompt->text, prompt->text_bytes, n_ahead);
    size_t end = find_char(prompt->text, prompt->text_bytes, offsets[first + n]);
    prompt->text_bytes = end - begin;
    memmove(prompt->text, prompt->text + begin, prompt->text_bytes);
    prompt->text[prompt->text_bytes] = '\0';
    for (size_t i = 0; i <= n; i++)
        offsets[i] = offsets[first + i] - n_ahead;
}

void ln_prompt_truncate(ln_prompt *prompt, const ln_generation_request *request,
                        size_t ctx_tokens) {
    int64_t truncates = request->truncates;
    size_t most = truncates >= 0 ? (size_t)truncates : ctx_tokens > 0 ? ctx_tokens - 1 : 0;
    if (prompt->n_ids <= most)
        return;
    size_t first = request->truncates_end ? 0 : prompt->n_ids - most;
    memmove(prompt->ids, prompt->ids + first, most * sizeof *prompt->ids);
    if (prompt->offsets != NULL)
        cut_text(prompt, first, most);
    prompt->n_ids = most;
}

void ln_generation_request_free(ln_generation_request *request) {
    for (size_t i = 0; i < request->n_prompts; i++) {
        linnet_free(request->prompts[i].ids);
        free(request->prompts[i].text);
        free(request->prompts[i].offsets);
    }
    free(request->prompts);
    for (size_t i = 0; i < request->options.n_stop; i++)
        free(request->stop[i]);
    free(request->stop);
    free(request->stop_ids);
    linnet_free(request->prediction_ids);
    free(request->logit_bias);
    for (size_t i = 0; i < request->options.n_bad_words; i++)
        linnet_free((void *)(uintptr_t)request->bad_words[i].ids);
    free(request->bad_words);
    free(request->grammar);
    linnet_free(request->rendered);
    json_decref(request->tools);
    json_decref(request->custom_tools);
    if (request->free_extra != NULL)
        request->free_extra(request->extra);
    *request = (ln_generation_request){0};
}

/* The field that the library's sentence begins with, when clients know it by that name. */
static const char *named_field(const char *message) {
    static const char *const names[] = {"n",          "best_of", "priority",   "cache_salt",
                                        "min_tokens", "stop",    "max_tokens", "prompt_logprobs"};
    size_t n_bytes = strcspn(message, " :");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n_bytes && strncmp(names[i], message, n_bytes) == 0)
            return names[i];
    return NULL;
}

bool ln_api_fail_with(ln_api_error *error, const linnet_error *err, const char *param) {
    const char *named = named_field(err->message);
    param = named != NULL ? named : param;
    int status = err->status == LINNET_ERR_NOMEM                                     ? 503
                 : err->status == LINNET_ERR_COMPUTE || err->status == LINNET_ERR_IO ? 500
                                                                                     : 400;
    ln_api_fail(error, status, param, "%s", err->message);
    if (err->status == LINNET_ERR_LIMIT && named == NULL && error->code == NULL)
        error->code = "context_length_exceeded";
    return false;
}

bool ln_api_fail_grammar(ln_api_error *error, int status, const char *message,
                         const ln_generation_request *request) {
    static const char grammar[] = "grammar: ", line[] = "grammar, ";
    const char *param = request->grammar_param;
    if (param[0] == '\0' || strncmp(message, grammar, sizeof grammar - 1) != 0)
        return false;
    message += sizeof grammar - 1;
    /* what the sentence itself calls it gives way to the field's name */
    if (strncmp(message, grammar, sizeof grammar - 1) == 0 ||
        strncmp(message, line, sizeof line - 1) == 0)
        message += sizeof grammar - 1;
    ln_api_fail(error, status, param, "%s: %s", param, message);
    return true;
}
