/* A request for text as it was read from its JSON: what to generate, and how to show it. */
#ifndef LN_SERVER_API_H
#define LN_SERVER_API_H

#include <jansson.h>
#include <linnet.h>

#include "server/fields.h"
#include "text/chat/tool_syntax.h"

enum {
    LN_API_MAX_PROMPTS = 1024,
    LN_API_MAX_CHOICES = 128, /* n, best_of */
    LN_API_MAX_STOPS = 16,
    LN_API_MAX_TOP_LOGPROBS = 20,
    LN_API_MAX_MARKERS = 16
};

/* The fields that ln_api_read_common reads, those that mean nothing here, and what vLLM's clients
 * send although it changes nothing. */
#define LN_API_COMMON_FIELDS                                                                       \
    "model", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",    \
        "repetition_penalty", "repeat_last_n", "typical_p", "top_n_sigma", "xtc_probability",      \
        "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "mirostat_tau",       \
        "mirostat_eta", "seed", "n", "priority", "cache_salt", "stream", "stream_options", "stop", \
        "stop_token_ids", "logit_bias", "min_tokens", "ignore_eos", "skip_special_tokens", "user", \
        "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",              \
        "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",   \
        "guided_grammar", "grammar", "json_schema", "use_beam_search=false", "length_penalty=1",   \
        "length_penalty=1.0", "include_stop_str_in_output=false", "detokenize=true",               \
        "spaces_between_special_tokens=true", "return_tokens_as_token_ids=false"

typedef enum ln_api_kind { LN_API_COMPLETION = 0, LN_API_CHAT } ln_api_kind;

typedef struct ln_prompt {
    int32_t *ids; /* [n_ids], owned */
    size_t n_ids;
    char *text; /* [text_bytes], owned; with echo, else NULL */
    size_t text_bytes;
} ln_prompt;

typedef struct ln_api_request {
    ln_api_kind kind;
    bool streams, includes_usage, echoes;
    bool drops_output;  /* max_tokens 0: only the prompt is wanted */
    ln_prompt *prompts; /* [n_prompts], owned */
    size_t n_prompts;
    size_t n;                       /* choices for each prompt, which share it */
    linnet_request_options options; /* its arrays are those below */
    const char **stop;              /* owned; the strings are the body's */
    int32_t *stop_ids;              /* owned */
    linnet_logit_bias *logit_bias;  /* owned */
    char *grammar;                  /* options.grammar, owned */
    char grammar_param[64];         /* the field that it comes from; "": there is none */
    /* how a chat's answer is taken apart */
    ln_tool_syntax syntax;                 /* of calls; NONE: none are looked for */
    ln_reasoning reasoning;                /* how it begins */
    bool model_reasons;                    /* at times */
    bool calls_once;                       /* calls after the first are left out */
    bool hides_markers;                    /* of calls: they are special tokens */
    bool hides_special;                    /* special tokens, but for those that mark the parts */
    int32_t shown_ids[LN_API_MAX_MARKERS]; /* [n_shown_ids] which they are */
    size_t n_shown_ids;
} ln_api_request;

void ln_api_request_free(ln_api_request *request);

/* Reads the fields that both kinds have into request->options and beside them. */
bool ln_api_read_common(const ln_fields *fields, const linnet_model_info *info,
                        ln_api_request *request);

/* min_tokens within max_tokens, once both are read. */
bool ln_api_check_lengths(const linnet_request_options *options, ln_api_error *error);

/* Reads what the answer must look like, by whichever field says it: at most one. */
bool ln_api_read_grammar(const ln_fields *fields, ln_api_request *request);
/* Makes a grammar the request's: `source` is a string's text or a value as JSON. */
bool ln_api_set_grammar(ln_api_request *request, linnet_grammar_kind kind, const json_t *source,
                        const char *param, ln_api_error *error);
/* Takes it back. */
void ln_api_clear_grammar(ln_api_request *request);

/* Read a whole body (its root lives as long as the request's strings are needed), and encode the
 * prompts. False with the error set. */
bool ln_api_read_completion(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                            ln_api_request *request);
bool ln_api_read_chat(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                      ln_api_request *request);

/* The ids of a JSON array of numbers, malloc'd; errors name `param`. */
bool ln_api_read_ids(const json_t *array, const linnet_model_info *info, const char *param,
                     int32_t **ids, size_t *n_ids, ln_api_error *error);

/* What a failure of the library means to a client, about the field `param`. */
bool ln_api_fail_with(ln_api_error *error, const linnet_error *err, const char *param);
/* The same about the field of the request's grammar; false when the message is not about it. */
bool ln_api_fail_grammar(ln_api_error *error, int status, const char *message,
                         const ln_api_request *request);

#endif
