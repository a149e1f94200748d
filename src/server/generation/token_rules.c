#include "server/generation/token_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/generation/token_ids.h"

/* ---- biases ----------------------------------------------------------------------------- */

/* Makes room for so many more. */
static bool reserve_biases(ln_generation_request *request, size_t n_more, ln_api_error *error) {
    size_t count = request->options.n_logit_bias + n_more + 1;
    linnet_logit_bias *biases = realloc(request->logit_bias, count * sizeof *biases);
    if (biases == NULL)
        return ln_api_fail_memory(error);
    request->logit_bias = biases;
    request->options.logit_bias = biases;
    return true;
}

/* {"id": bias}; -100 is never, as clients use it. */
static bool read_logit_bias(const ln_fields *fields, const linnet_model_info *info,
                            ln_generation_request *request) {
    enum { MAX_BIASES = 1024 };
    const char *key;
    json_t *value, *object = ln_fields_get(fields, "logit_bias");
    if (object == NULL)
        return true;
    if (!json_is_object(object) || json_object_size(object) > MAX_BIASES)
        return ln_api_fail(fields->error, 400, "logit_bias",
                           "logit_bias is not an object of at most %d ids", MAX_BIASES);
    if (!reserve_biases(request, json_object_size(object), fields->error))
        return false;
    json_object_foreach(object, key, value) {
        bool is_id = strspn(key, "0123456789") == strlen(key) && *key && (*key != '0' || !key[1]);
        long id = is_id ? strtol(key, NULL, 10) : -1;
        double bias = json_is_number(value) ? json_number_value(value) : NAN;
        if (id < 0 || id >= info->n_vocab)
            return ln_api_fail(fields->error, 400, "logit_bias",
                               "logit_bias: '%.32s' is no token id from 0 to %d", key,
                               (int)info->n_vocab - 1);
        if (!(bias >= -100 && bias <= 100))
            return ln_api_fail(fields->error, 400, "logit_bias",
                               "logit_bias: the bias of %ld is not a number from -100 to 100", id);
        request->logit_bias[request->options.n_logit_bias++] =
            (linnet_logit_bias){(int32_t)id, bias <= -100 ? -INFINITY : (float)bias};
    }
    return true;
}

/* All other tokens never come. */
static bool read_allowed(const ln_fields *fields, const linnet_model_info *info,
                         ln_generation_request *request) {
    enum { MAX_ALLOWED = 16384 };
    const json_t *value = ln_fields_get(fields, "allowed_token_ids");
    int32_t *ids = NULL;
    size_t n_ids = 0, n_vocab = (size_t)info->n_vocab;
    if (value == NULL)
        return true;
    if (json_array_size(value) == 0 || json_array_size(value) > MAX_ALLOWED)
        return ln_api_fail(fields->error, 400, "allowed_token_ids",
                           "allowed_token_ids is not a list of 1 to %d ids", MAX_ALLOWED);
    bool *is_allowed = calloc(n_vocab, sizeof *is_allowed);
    bool done = is_allowed != NULL || ln_api_fail_memory(fields->error);
    done = done && ln_api_read_ids(value, info, "allowed_token_ids", &ids, &n_ids, fields->error) &&
           reserve_biases(request, n_vocab, fields->error);
    for (size_t i = 0; done && i < n_ids; i++)
        is_allowed[ids[i]] = true;
    for (size_t id = 0; done && id < n_vocab; id++)
        if (!is_allowed[id])
            request->logit_bias[request->options.n_logit_bias++] =
                (linnet_logit_bias){(int32_t)id, -INFINITY};
    free(is_allowed);
    free(ids);
    return done;
}

/* ---- words ------------------------------------------------------------------------------ */

/* The tokens of a word, as it begins a text or, with a space before it, follows another. */
static bool add_word(const json_t *word, bool is_inner, const linnet_model *model,
                     ln_generation_request *request, ln_api_error *error) {
    enum { MAX_WORD_BYTES = 128 };
    char text[MAX_WORD_BYTES + 2] = " ";
    const char *bytes = json_string_value(word);
    size_t n_bytes = json_string_length(word), n_ids = 0;
    linnet_error err = {0};
    int32_t *ids = NULL;
    while (n_bytes > 0 && *bytes == ' ')
        bytes++, n_bytes--;
    if (n_bytes == 0 || n_bytes > MAX_WORD_BYTES)
        return ln_api_fail(error, 400, "bad_words", "bad_words: a word is not 1 to %d bytes long",
                           MAX_WORD_BYTES);
    memcpy(text + 1, bytes, n_bytes);
    if (linnet_model_encode(model, is_inner ? text : text + 1, n_bytes + is_inner, false, false,
                            &ids, &n_ids, &err) != LINNET_OK)
        return ln_api_fail_with(error, &err, "bad_words");
    if (n_ids == 0) {
        linnet_free(ids);
        return true;
    }
    request->bad_words[request->options.n_bad_words++] = (linnet_token_list){ids, n_ids};
    return true;
}

static bool read_bad_words(const ln_fields *fields, const linnet_model *model,
                           ln_generation_request *request) {
    enum { MAX_WORDS = 256 };
    const json_t *value = ln_fields_get(fields, "bad_words");
    size_t index;
    json_t *word;
    if (value == NULL)
        return true;
    if (!json_is_array(value) || json_array_size(value) > MAX_WORDS)
        return ln_api_fail(fields->error, 400, "bad_words",
                           "bad_words is not a list of at most %d words", MAX_WORDS);
    request->bad_words = calloc(2 * json_array_size(value) + 1, sizeof *request->bad_words);
    if (request->bad_words == NULL)
        return ln_api_fail_memory(fields->error);
    request->options.bad_words = request->bad_words;
    json_array_foreach(value, index, word) {
        if (!add_word(word, false, model, request, fields->error) ||
            !add_word(word, true, model, request, fields->error))
            return false;
    }
    return true;
}

bool ln_token_rules_read(const ln_fields *fields, const linnet_model *model,
                         const linnet_model_info *info, ln_generation_request *request) {
    return read_logit_bias(fields, info, request) && read_allowed(fields, info, request) &&
           read_bad_words(fields, model, request);
}
