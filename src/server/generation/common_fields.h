/* The fields that completions and chats share. */
#ifndef LN_SERVER_GENERATION_COMMON_FIELDS_H
#define LN_SERVER_GENERATION_COMMON_FIELDS_H

#include "server/generation/request.h"
#include "server/json/fields.h"

/* The fields that ln_api_read_common reads, those that mean nothing here, what vLLM's clients send
 * although it changes nothing, and what would change the answer and is not possible. */
#define LN_API_COMMON_FIELDS                                                                       \
    "model", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",    \
        "repetition_penalty", "repeat_last_n", "typical_p", "top_n_sigma", "xtc_probability",      \
        "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "mirostat_tau",       \
        "mirostat_eta", "seed", "n", "priority", "cache_salt", "stream", "stream_options", "stop", \
        "stop_token_ids", "logit_bias", "min_tokens", "ignore_eos", "skip_special_tokens", "user", \
        "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",              \
        "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",   \
        "guided_grammar", "grammar", "json_schema", "structural_tag", "grammar_type",              \
        "json_whitespace", "json_order", "use_beam_search=false", "length_penalty=1",              \
        "length_penalty=1.0", "include_stop_str_in_output=false", "detokenize=true",               \
        "spaces_between_special_tokens=true", "return_tokens_as_token_ids", "truncation_side",     \
        "!logprob_token_ids", "!thinking_token_budget", "cache_prompt", "id_slot", "prediction",   \
        "timings_per_token", "!logits_processors", "!prompt_embeds", "!samplers", "lora",          \
        "allowed_token_ids", "bad_words", "truncate_prompt_tokens", "prompt_logprobs",             \
        "n_predict", "repeat_penalty", "return_token_ids", "dynatemp_range=0",                     \
        "dynatemp_range=0.0"

/* Reads them into request->options and beside them. */
bool ln_api_read_common(const ln_fields *fields, const linnet_model_info *info,
                        ln_generation_request *request);

/* The field "metadata", as OpenAI bounds it. */
bool ln_api_check_metadata(const ln_fields *fields);

/* max_tokens, by the field `name` or by llama.cpp's n_predict; negative: as many as there is room
 * for. */
bool ln_api_read_max_tokens(const ln_fields *fields, const char *name, int64_t *max_tokens);

/* Shows `n_top` likeliest tokens beside each of the output, as many as the vocabulary has, and
 * reads prompt_logprobs. Both share what the engine collects. */
bool ln_api_read_logprobs(const ln_fields *fields, const linnet_model_info *info, int64_t n_top,
                          ln_generation_request *request);

/* min_tokens within max_tokens, once both are read. */
bool ln_api_check_lengths(const ln_generation_request *request, ln_api_error *error);

#endif
