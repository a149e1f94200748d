/* Grammars of requests: compiled by the threads that submit, applied by the engine thread. The
 * last ones are cached, so that requests with the same grammar share it and what was learned of it.
 */
#ifndef LN_ENGINE_CONSTRAINT_H
#define LN_ENGINE_CONSTRAINT_H

#include <pthread.h>

#include "grammar/masker.h"
#include "model/model.h"

enum { LN_CACHED_GRAMMARS = 8 };

typedef struct ln_cached_grammar {
    ln_grammar *grammar; /* a reference; NULL: free */
    linnet_grammar_kind kind;
    linnet_reasoning reasoning;
    unsigned json_form;
    char *text; /* [n_bytes], owned */
    size_t n_bytes;
    uint64_t used;
} ln_cached_grammar;

typedef struct ln_constraints {
    ln_masker masker;   /* the engine thread's, but for its trie */
    ln_grammar *common; /* a reference: what grammars share; NULL: not yet */
    const ln_tokenizer *tokenizer;
    pthread_mutex_t mutex; /* over what follows, and while the trie is made */
    ln_cached_grammar cached[LN_CACHED_GRAMMARS];
    uint64_t clock;
} ln_constraints;

/* Bytes of the vocabulary's texts, for the plan; 0 without a tokenizer. */
size_t ln_constraints_measure(const linnet_model *model);
/* `memory` is what ln_masker_plan asks for n_vocab and the measured bytes. */
ln_status ln_constraints_init(ln_constraints *constraints, const linnet_model *model,
                              size_t n_text_bytes, void *memory, ln_error *err);
void ln_constraints_free(ln_constraints *constraints); /* zeroed ones are fine */

/* The grammar of a request, a reference; NULL when it has none. Any thread. Errors: as
 * ln_grammar_compile, ARGUMENT without a tokenizer. */
ln_status ln_constraints_compile(ln_constraints *constraints, const linnet_request_options *options,
                                 ln_grammar **grammar, ln_error *err);

#endif
