/* What sampling looks at beside the logits: the request's rules and the tokens so far. */
#ifndef LN_SAMPLING_CONTEXT_H
#define LN_SAMPLING_CONTEXT_H

#include <stdbool.h>

#include <linnet.h>

/* What a request asks of certain tokens; all ids are below n_vocab, all arrays the request's. */
typedef struct ln_token_rules {
    const linnet_logit_bias *biases; /* [n_biases] */
    size_t n_biases;
    const int32_t *bad_ids; /* word i is bad_ids[bad_ends[i - 1] .. bad_ends[i]), never empty */
    const size_t *bad_ends; /* [n_bad_words] */
    size_t n_bad_words;
    const int32_t *stop_ids; /* [n_stop_ids], which end the sequence */
    size_t n_stop_ids;
    bool forces_end;             /* the last token that there is room for is forced_end_id */
    int32_t forced_end_id;       /* one of stop_ids */
    size_t min_tokens;           /* prompt and output before which no stop id comes */
    const int32_t *dry_breakers; /* [n_dry_breakers] */
    size_t n_dry_breakers;
} ln_token_rules;

/* What comes before the sampled token, and the counters of its random numbers. */
typedef struct ln_sample_context {
    const int32_t *tokens;       /* [n_tokens] prompt and output so far, ids below n_vocab */
    size_t n_tokens;             /* also the position of the sampled token; at most ctx_tokens */
    uint32_t index;              /* of the sequence in its group */
    const ln_token_rules *rules; /* NULL: none */
    double *mirostat_excess;     /* the sequence's state of mirostat, 0 at first: bits of surprise
                                    beyond tau so far; NULL without mirostat */
} ln_sample_context;

#endif
