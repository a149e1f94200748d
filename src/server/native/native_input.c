#include "server/native/native_input.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

/* What llama.cpp's server does unless it is told otherwise. */
static bool set_defaults(json_t *body, ln_api_error *error) {
    static const struct {
        const char *name;
        double value;
    } numbers[] = {{"temperature", 0.8}, {"top_p", 0.95}, {"min_p", 0.05}};
    static const struct {
        const char *name;
        int value;
    } integers[] = {{"top_k", 40}, {"n_predict", -1}, {"repeat_last_n", 64}};
    bool done = true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (json_object_get(body, numbers[i].name) == NULL)
            done &= json_object_set_new(body, numbers[i].name, json_real(numbers[i].value)) == 0;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (json_object_get(body, integers[i].name) == NULL)
            done &=
                json_object_set_new(body, integers[i].name, json_integer(integers[i].value)) == 0;
    const json_t *seed = json_object_get(body, "seed");
    if (json_is_integer(seed) && json_integer_value(seed) < 0) /* any */
        json_object_del(body, "seed");
    const json_t *last_n = json_object_get(body, "repeat_last_n");
    if (json_is_integer(last_n) && json_integer_value(last_n) == -1) /* all */
        json_object_del(body, "repeat_last_n");
    return done || ln_api_fail_memory(error);
}

/* [[id, bias], ...], where a bias of false is never, as the object that other APIs have. */
static bool unify_biases(json_t *body, ln_api_error *error) {
    enum { NEVER = -100 };
    const json_t *list = json_object_get(body, "logit_bias");
    char key[24];
    size_t index;
    json_t *pair;
    if (!json_is_array(list))
        return true;
    json_t *biases = json_object();
    bool done = true;
    json_array_foreach(list, index, pair) {
        const json_t *id = json_array_get(pair, 0);
        json_t *bias = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(id)) {
            json_decref(biases);
            return ln_api_fail(error, 400, "logit_bias",
                               "logit_bias: item %zu is not a list of a token id and a bias",
                               index);
        }
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(id));
        bias = json_is_false(bias) ? json_integer(NEVER) : json_incref(bias);
        done = json_object_set_new(biases, key, bias) == 0 && done;
    }
    done = json_object_set_new(body, "logit_bias", biases) == 0 && done;
    return done || ln_api_fail_memory(error);
}

/* One prompt: a text or ids. Lists of prompts have answers in another shape. */
static bool check_prompt(const ln_fields *fields) {
    const json_t *prompt = ln_fields_get(fields, "prompt");
    const json_t *first = json_array_get(prompt, 0);
    if (json_is_string(prompt) || json_is_integer(first))
        return true;
    return ln_api_fail(fields->error, 400, "prompt", "prompt is not a string or a list of ids");
}

/* The text before the gap, and the one behind it as `suffix`. */
static bool join_texts(const ln_fields *fields, json_t *body) {
    const char *prefix = NULL, *prompt = NULL, *suffix = NULL;
    ln_strbuf text;
    if (!ln_fields_text(fields, "input_prefix", &prefix) ||
        !ln_fields_text(fields, "prompt", &prompt) ||
        !ln_fields_text(fields, "input_suffix", &suffix))
        return false;
    if (prefix == NULL && suffix == NULL)
        return ln_api_fail(fields->error, 400, "input_prefix",
                           "input_prefix and input_suffix are missing");
    if (json_array_size(ln_fields_get(fields, "input_extra")) > 0)
        return ln_api_fail(fields->error, 400, "input_extra",
                           "the field 'input_extra' is not supported here");
    ln_strbuf_init(&text);
    ln_strbuf_puts(&text, prefix != NULL ? prefix : "");
    ln_strbuf_puts(&text, prompt != NULL ? prompt : "");
    bool done = !text.failed &&
                json_object_set_new(body, "prompt",
                                    json_stringn(text.len > 0 ? text.data : "", text.len)) == 0 &&
                json_object_set_new(body, "suffix", json_string(suffix != NULL ? suffix : "")) == 0;
    ln_strbuf_free(&text);
    json_object_del(body, "input_prefix");
    json_object_del(body, "input_suffix");
    json_object_del(body, "input_extra");
    return done || ln_api_fail_memory(fields->error);
}

json_t *ln_native_input_translate(const ln_fields *fields, bool fills_in) {
    int64_t n_probs = 0;
    if (!ln_fields_integer(fields, "n_probs", 0, INT32_MAX, &n_probs))
        return NULL;
    if (n_probs > 0) {
        ln_api_fail(fields->error, 400, "n_probs",
                    "n_probs is not supported here; /v1/completions has logprobs");
        return NULL;
    }
    json_t *body = json_copy((json_t *)(uintptr_t)fields->root);
    json_object_del(body, "n_probs");
    if (json_is_boolean(json_object_get(body, "return_tokens")))
        json_object_set(body, "return_token_ids", json_object_get(body, "return_tokens"));
    json_object_del(body, "return_tokens");
    bool done = body != NULL || ln_api_fail_memory(fields->error);
    done = done && (fills_in ? join_texts(fields, body) : check_prompt(fields)) &&
           unify_biases(body, fields->error) && set_defaults(body, fields->error);
    if (done)
        return body;
    json_decref(body);
    return NULL;
}
