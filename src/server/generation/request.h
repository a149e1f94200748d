/* A request for text as it was read from its JSON: what to generate, and how to show it. */
#ifndef LN_SERVER_GENERATION_REQUEST_H
#define LN_SERVER_GENERATION_REQUEST_H

#include <jansson.h>
#include <linnet.h>

#include "server/json/error.h"
#include "text/chat/calls/call_syntax.h"
#include "text/chat/reasoning.h"

enum {
    LN_API_MAX_PROMPTS = 1024,
    LN_API_MAX_CHOICES = 128, /* n, best_of */
    LN_API_MAX_STOPS = 16,
    LN_API_MAX_TOP_LOGPROBS = 20,
    LN_API_MAX_MARKERS = 32
};

typedef enum ln_api_kind { LN_API_COMPLETION = 0, LN_API_CHAT } ln_api_kind;

typedef struct ln_prompt {
    const char *param; /* the field that it comes from, static; NULL: the usual one */
    int32_t *ids;      /* [n_ids], owned */
    size_t n_ids;
    size_t n_first; /* of the first of two texts; 0: there is one */
    char *text;     /* [text_bytes], owned; with echo, else NULL */
    size_t text_bytes;
    size_t *offsets; /* [n_ids + 1], owned; of a completion with echo, else NULL: the characters of
                        the text ahead of each id, and all of them */
} ln_prompt;

typedef struct ln_generation_request {
    ln_api_kind kind;
    bool streams, includes_usage, echoes;
    bool continuous_usage; /* every chunk has the counts so far */
    bool keeps_text;       /* of parts that were sent: the end of a stream repeats it */
    bool drops_output;     /* max_tokens 0: only the prompt is wanted */
    ln_prompt *prompts;    /* [n_prompts], owned */
    size_t n_prompts;
    size_t n;             /* choices for each prompt, which share it */
    int32_t n_top;        /* likeliest tokens that are shown of each place in the output */
    int32_t n_prompt_top; /* and of each in the prompt, for prompt_logprobs; -1: none */
    linnet_request_options options;   /* its arrays are those below */
    char **stop;                      /* [options.n_stop], owned, as are its strings */
    int32_t *stop_ids;                /* owned */
    int32_t *prediction_ids;          /* owned (linnet_free) */
    linnet_logit_bias *logit_bias;    /* owned */
    linnet_token_list *bad_words;     /* [options.n_bad_words], owned, as are the ids */
    int64_t truncates;                /* so many tokens at the end of a prompt are used; -1: as many
                                         as there is room for; INT64_MAX: all */
    bool truncates_end;               /* so many at the beginning instead */
    bool names_ids;                   /* logprobs have "token_id:N" in place of a token's text */
    bool returns_ids;                 /* the tokens' ids are part of the answer */
    char *grammar;                    /* options.grammar, owned */
    char grammar_param[64];           /* the field that it comes from; "": there is none */
    const json_t *template_variables; /* the server's own; NULL: none */
    bool keeps_rendered;              /* what the template wrote is wanted: it becomes */
    char *rendered;                   /* this, NUL-terminated; owned */
    /* how a chat's answer is taken apart */
    const ln_call_syntax *syntax;          /* of calls; NULL: none are looked for */
    json_t *tools;                         /* that may be called so, shared; NULL: none */
    json_t *custom_tools;                  /* names of those that take free text, owned, or NULL */
    size_t n_past_calls;                   /* in the chat so far */
    ln_reasoning reasoning;                /* how it begins */
    const ln_reasoning_format *format;     /* of the reasoning; NULL: none comes */
    bool model_reasons;                    /* at times */
    bool continues_answer;                 /* that a message begins */
    bool hides_reasoning;                  /* the client wants none */
    bool calls_once;                       /* calls after the first are left out */
    bool must_call;                        /* a grammar sees to it: there is no content */
    bool calls_function;                   /* a call is shown as OpenAI's older function_call */
    bool hides_markers;                    /* of calls: they are special tokens */
    bool hides_special;                    /* special tokens, but for those that mark the parts */
    int32_t shown_ids[LN_API_MAX_MARKERS]; /* [n_shown_ids] which they are */
    size_t n_shown_ids;
    char adapter[LINNET_MAX_ADAPTER_NAME]; /* "": none */
    bool is_detached;           /* it goes on without its client, who has had an answer */
    void *extra;                /* the endpoint's and its format's, */
    void (*free_extra)(void *); /* freed with the request; NULL: there is none */
} ln_generation_request;

/* Drops the tokens of a prompt that the request does not want, at its beginning or its end, and,
 * where it has their offsets, their text. */
void ln_prompt_truncate(ln_prompt *prompt, const ln_generation_request *request, size_t ctx_tokens);

void ln_generation_request_free(ln_generation_request *request);

/* What a failure of the library means to a client, about the field `param`. */
bool ln_api_fail_with(ln_api_error *error, const linnet_error *err, const char *param);
/* The same about the field of the request's grammar; false when the message is not about it. */
bool ln_api_fail_grammar(ln_api_error *error, int status, const char *message,
                         const ln_generation_request *request);

#endif
