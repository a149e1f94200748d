#include "server/generation/common_fields.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/generation/structured_output.h"
#include "server/generation/token_ids.h"

/* ---- numbers ---------------------------------------------------------------------------- */

typedef struct number_field {
    const char *name;
    double min, max;
    size_t offset; /* in linnet_sampling */
} number_field;

#define FLOAT_FIELD(name, min, max, member)                                                        \
    { name, min, max, offsetof(linnet_sampling, member) }

static const number_field number_fields[] = {
    FLOAT_FIELD("temperature", 0, 2, temperature),
    FLOAT_FIELD("top_p", 0, 1, top_p),
    FLOAT_FIELD("min_p", 0, 1, min_p),
    FLOAT_FIELD("presence_penalty", -2, 2, presence_penalty),
    FLOAT_FIELD("frequency_penalty", -2, 2, frequency_penalty),
    FLOAT_FIELD("repetition_penalty", 0.01, 10, repeat_penalty),
    FLOAT_FIELD("repeat_penalty", 0.01, 10, repeat_penalty), /* llama.cpp's name for it */
    FLOAT_FIELD("typical_p", 0, 1, typical_p),
    FLOAT_FIELD("top_n_sigma", 0, 100, top_n_sigma),
    FLOAT_FIELD("xtc_probability", 0, 1, xtc_probability),
    FLOAT_FIELD("xtc_threshold", 0, 1, xtc_threshold),
    FLOAT_FIELD("dry_multiplier", 0, 100, dry_multiplier),
    FLOAT_FIELD("dry_base", 1, 100, dry_base),
    FLOAT_FIELD("mirostat_tau", 0, 100, mirostat_tau),
    FLOAT_FIELD("mirostat_eta", 0, 1, mirostat_eta),
};

static uint64_t random_seed(void) {
    uint32_t seed;
    return getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed ? seed : (uint64_t)time(NULL);
}

static bool read_sampling(const ln_fields *fields, linnet_sampling *sampling) {
    for (size_t i = 0; i < sizeof number_fields / sizeof *number_fields; i++) {
        const number_field *field = &number_fields[i];
        float *out = (float *)(void *)((char *)sampling + field->offset);
        ln_fields_number(fields, field->name, field->min, field->max, out);
    }
    bool has_seed = false;
    int64_t top_k = 0, last_n = INT32_MAX, dry_length = sampling->dry_allowed_length;
    ln_fields_integer(fields, "top_k", -1, INT32_MAX, &top_k);
    ln_fields_seed(fields, "seed", &has_seed, &sampling->seed);
    ln_fields_integer(fields, "repeat_last_n", 0, INT32_MAX, &last_n);
    ln_fields_integer(fields, "dry_allowed_length", 1, 1 << 20, &dry_length);
    sampling->top_k = top_k > 0 ? (int32_t)top_k : 0;
    if (!has_seed)
        sampling->seed = random_seed();
    sampling->repeat_last_n = (int32_t)last_n;
    sampling->dry_allowed_length = (int32_t)dry_length;
    if (sampling->top_p <= 0)
        return ln_api_fail(fields->error, 400, "top_p", "top_p is not above 0");
    return fields->error->status == 0;
}

/* ---- lists ------------------------------------------------------------------------------ */

static bool take_stop(const json_t *value, ln_generation_request *request, ln_api_error *error) {
    const char *text = json_string_value(value);
    size_t n_bytes = json_string_length(value);
    if (text == NULL || n_bytes == 0 || n_bytes > 1024 || strlen(text) != n_bytes)
        return ln_api_fail(
            error, 400, "stop",
            "stop is not a string of 1 to 1024 bytes without NUL, or a list of them");
    char *copy = strdup(text);
    if (copy == NULL)
        return ln_api_fail_memory(error);
    request->stop[request->options.n_stop++] = copy;
    return true;
}

static bool read_stop(const ln_fields *fields, ln_generation_request *request) {
    const json_t *value = ln_fields_get(fields, "stop");
    if (value == NULL || fields->error->status != 0)
        return fields->error->status == 0;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > LN_API_MAX_STOPS)
        return ln_api_fail(fields->error, 400, "stop", "stop has more than %d strings",
                           LN_API_MAX_STOPS);
    request->stop = calloc(count + 1, sizeof *request->stop);
    if (request->stop == NULL)
        return ln_api_fail_memory(fields->error);
    request->options.stop = (const char *const *)request->stop;
    for (size_t i = 0; i < count; i++)
        if (!take_stop(json_is_array(value) ? json_array_get(value, i) : value, request,
                       fields->error))
            return false;
    return true;
}

static bool read_stop_ids(const ln_fields *fields, const linnet_model_info *info,
                          ln_generation_request *request) {
    enum { MAX_STOP_IDS = 1024 };
    const json_t *value = ln_fields_get(fields, "stop_token_ids");
    if (value == NULL || fields->error->status != 0)
        return fields->error->status == 0;
    if (!json_is_array(value) || json_array_size(value) > MAX_STOP_IDS)
        return ln_api_fail(fields->error, 400, "stop_token_ids",
                           "stop_token_ids is not a list of at most %d ids", MAX_STOP_IDS);
    if (!ln_api_read_ids(value, info, "stop_token_ids", &request->stop_ids,
                         &request->options.n_stop_ids, fields->error))
        return false;
    request->options.stop_ids = request->stop_ids;
    return true;
}

/* ---- the rest --------------------------------------------------------------------------- */

static bool read_stream(const ln_fields *fields, ln_generation_request *request) {
    ln_fields_bool(fields, "stream", &request->streams);
    json_t *value = ln_fields_get(fields, "stream_options");
    if (value == NULL || fields->error->status != 0)
        return fields->error->status == 0;
    static const char *const known[] = {"include_usage", "include_obfuscation",
                                        "continuous_usage_stats", NULL};
    if (!json_is_object(value))
        return ln_api_fail(fields->error, 400, "stream_options", "stream_options is no object");
    if (!request->streams)
        return ln_api_fail(fields->error, 400, "stream_options",
                           "stream_options needs stream to be true");
    const ln_fields inner = {value, "stream_options.", fields->error, fields->ignored};
    bool counts_always = false;
    if (!ln_fields_only(&inner, known) ||
        !ln_fields_bool(&inner, "include_usage", &request->includes_usage) ||
        !ln_fields_bool(&inner, "continuous_usage_stats", &counts_always))
        return false;
    request->continuous_usage = counts_always && request->includes_usage;
    return true;
}

/* Reads n, best_of, priority and cache_salt. */
static bool read_group(const ln_fields *fields, ln_generation_request *request) {
    int64_t n = 1, best_of = 0, priority = 0;
    if (!ln_fields_integer(fields, "n", 1, LN_API_MAX_CHOICES, &n) ||
        !ln_fields_integer(fields, "best_of", 1, LN_API_MAX_CHOICES, &best_of) ||
        !ln_fields_integer(fields, "priority", INT32_MIN, INT32_MAX, &priority) ||
        !ln_fields_text(fields, "cache_salt", &request->options.cache_salt))
        return false;
    if (best_of > 0 && best_of < n)
        return ln_api_fail(fields->error, 400, "best_of", "best_of is less than n");
    if (best_of > n && request->streams)
        return ln_api_fail(fields->error, 400, "best_of", "best_of above n cannot be streamed");
    const char *salt = request->options.cache_salt;
    if (salt != NULL && (*salt == '\0' || strlen(salt) > 256))
        return ln_api_fail(fields->error, 400, "cache_salt", "cache_salt is not 1 to 256 bytes");
    request->n = (size_t)n;
    request->options.n = (uint32_t)n;
    request->options.best_of = best_of > n ? (uint32_t)best_of : 0;
    request->options.priority = (int32_t)priority;
    return true;
}

static size_t count_characters(const char *text) {
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

bool ln_api_check_metadata(const ln_fields *fields) {
    enum { MAX_PAIRS = 16, MAX_KEY = 64, MAX_VALUE = 512 }; /* characters */
    json_t *metadata = ln_fields_get(fields, "metadata");
    ln_api_error *error = fields->error;
    const char *key;
    json_t *value;
    if (metadata == NULL)
        return true;
    if (!json_is_object(metadata))
        return ln_api_fail(error, 400, "metadata", "metadata is not an object");
    bool fits = json_object_size(metadata) <= MAX_PAIRS;
    json_object_foreach(metadata, key, value) {
        const char *text = json_string_value(value);
        fits = fits && text != NULL && strlen(text) == json_string_length(value) &&
               count_characters(key) <= MAX_KEY && count_characters(text) <= MAX_VALUE;
    }
    return fits || ln_api_fail(error, 400, "metadata",
                               "metadata is not at most %d strings of at most %d characters, with "
                               "names of at most %d",
                               MAX_PAIRS, MAX_VALUE, MAX_KEY);
}

/* Fields without meaning here must have the right type nevertheless. */
static bool check_unused(const ln_fields *fields) {
    static const char *const texts[] = {"user", "service_tier", "safety_identifier",
                                        "prompt_cache_key"};
    const char *text;
    bool flag;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ln_fields_text(fields, texts[i], &text);
    ln_fields_bool(fields, "store", &flag);
    return fields->error->status == 0 && ln_api_check_metadata(fields);
}

static bool read_truncation(const ln_fields *fields, ln_generation_request *request) {
    const char *side = NULL;
    if (!ln_fields_integer(fields, "truncate_prompt_tokens", -1, INT32_MAX, &request->truncates) ||
        !ln_fields_text(fields, "truncation_side", &side))
        return false;
    request->truncates_end = side != NULL && strcmp(side, "right") == 0;
    return side == NULL || request->truncates_end || strcmp(side, "left") == 0 ||
           ln_api_fail(fields->error, 400, "truncation_side",
                       "truncation_side is not left or right");
}

bool ln_api_read_common(const ln_fields *fields, const linnet_model_info *info,
                        ln_generation_request *request) {
    linnet_request_options *options = &request->options;
    linnet_request_options_init(options);
    options->sampling.temperature = 1; /* OpenAI's defaults */
    options->sampling.top_p = 1;
    request->n = 1;
    request->n_prompt_top = -1;
    request->truncates = INT64_MAX;
    int64_t min_tokens = 0;
    bool skips_special = true;
    check_unused(fields);
    read_sampling(fields, &options->sampling);
    read_stream(fields, request);
    read_group(fields, request);
    read_stop(fields, request);
    read_stop_ids(fields, info, request);
    ln_api_read_grammar(fields, request);
    ln_fields_integer(fields, "min_tokens", 0, INT32_MAX, &min_tokens);
    ln_fields_bool(fields, "ignore_eos", &options->ignore_eos);
    ln_fields_bool(fields, "skip_special_tokens", &skips_special);
    ln_fields_bool(fields, "return_token_ids", &request->returns_ids);
    ln_fields_bool(fields, "return_tokens_as_token_ids", &request->names_ids);
    read_truncation(fields, request);
    options->min_tokens = (size_t)min_tokens;
    options->keep_special = !skips_special;
    return fields->error->status == 0;
}

bool ln_api_read_max_tokens(const ln_fields *fields, const char *name, int64_t *max_tokens) {
    int64_t n_predict = INT64_MIN;
    if (!ln_fields_integer(fields, name, 0, INT32_MAX, max_tokens) ||
        !ln_fields_integer(fields, "n_predict", -2, INT32_MAX, &n_predict))
        return false;
    if (n_predict != INT64_MIN && ln_fields_get(fields, name) == NULL)
        *max_tokens = n_predict;
    return true;
}

bool ln_api_read_logprobs(const ln_fields *fields, const linnet_model_info *info, int64_t n_top,
                          ln_generation_request *request) {
    linnet_request_options *options = &request->options;
    int64_t n_prompt_top = -1;
    if (!ln_fields_integer(fields, "prompt_logprobs", 0, LN_API_MAX_TOP_LOGPROBS, &n_prompt_top))
        return false;
    if (n_prompt_top >= 0 && request->streams)
        return ln_api_fail(fields->error, 400, "prompt_logprobs",
                           "prompt_logprobs cannot be streamed");
    if (info->has_encoder && (n_prompt_top >= 0 || options->prompt_logprobs))
        return ln_api_fail(fields->error, 400, n_prompt_top >= 0 ? "prompt_logprobs" : "echo",
                           "an encoder's text has no logprobs");
    n_top = n_top < info->n_vocab ? n_top : info->n_vocab;
    n_prompt_top = n_prompt_top < info->n_vocab ? n_prompt_top : info->n_vocab;
    request->n_top = n_top > 0 ? (int32_t)n_top : 0;
    request->n_prompt_top = (int32_t)n_prompt_top;
    options->prompt_logprobs = options->prompt_logprobs || n_prompt_top >= 0;
    options->top_logprobs = n_prompt_top > request->n_top ? request->n_prompt_top : request->n_top;
    return true;
}

bool ln_api_check_lengths(const ln_generation_request *request, ln_api_error *error) {
    const linnet_request_options *options = &request->options;
    size_t most = request->drops_output ? 0 : options->max_tokens;
    bool is_bounded = request->drops_output || most > 0;
    return !is_bounded || options->min_tokens <= most ||
           ln_api_fail(error, 400, "min_tokens", "min_tokens is %zu and max_tokens %zu",
                       options->min_tokens, most);
}
