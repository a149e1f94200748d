#include "engine/constraint.h"

#include <stdlib.h>
#include <string.h>

static ln_token_text token_text(const void *tokenizer, int32_t id) {
    return ln_tokenizer_text(tokenizer, id);
}

size_t ln_constraints_measure(const linnet_model *model) {
    if (model->tokenizer == NULL)
        return 0;
    return ln_token_trie_measure(token_text, model->tokenizer, model->spec.n_vocab);
}

ln_status ln_constraints_init(ln_constraints *constraints, const linnet_model *model,
                              size_t n_text_bytes, void *memory, ln_error *err) {
    *constraints = (ln_constraints){0};
    ln_masker_init(&constraints->masker, model->spec.n_vocab, n_text_bytes, memory);
    if (pthread_mutex_init(&constraints->mutex, NULL) != 0)
        return ln_fail(err, LINNET_ERR_NOMEM, "cannot create a mutex");
    constraints->tokenizer = model->tokenizer;
    return LINNET_OK;
}

static void evict(ln_cached_grammar *cached) {
    ln_grammar_release(cached->grammar);
    free(cached->text);
    *cached = (ln_cached_grammar){0};
}

void ln_constraints_free(ln_constraints *constraints) {
    if (constraints->masker.masks == NULL)
        return;
    for (size_t i = 0; i < LN_CACHED_GRAMMARS; i++)
        evict(&constraints->cached[i]);
    ln_grammar_release(constraints->common);
    pthread_mutex_destroy(&constraints->mutex);
}

/* Under the mutex: the grammar if it is cached, and the slot for it if not. */
static ln_cached_grammar *find(ln_constraints *c, const linnet_request_options *o, bool *found) {
    ln_cached_grammar *oldest = &c->cached[0];
    for (size_t i = 0; i < LN_CACHED_GRAMMARS; i++) {
        ln_cached_grammar *cached = &c->cached[i];
        *found = cached->grammar != NULL && cached->kind == o->grammar_kind &&
                 cached->reasoning == o->reasoning && cached->json_form == o->json_form &&
                 cached->n_bytes == o->grammar_bytes &&
                 (cached->n_bytes == 0 || memcmp(cached->text, o->grammar, cached->n_bytes) == 0);
        if (*found)
            return cached;
        if (cached->used < oldest->used)
            oldest = cached;
    }
    return oldest;
}

/* Keeps a grammar; without the memory it is compiled again next time. */
static void keep(ln_constraints *c, const linnet_request_options *o, ln_grammar *grammar) {
    char *text = malloc(o->grammar_bytes + 1);
    if (text == NULL)
        return;
    if (o->grammar_bytes > 0)
        memcpy(text, o->grammar, o->grammar_bytes);
    pthread_mutex_lock(&c->mutex);
    bool found;
    ln_cached_grammar *place = find(c, o, &found);
    evict(place);
    *place = (ln_cached_grammar){.grammar = ln_grammar_retain(grammar),
                                 .kind = o->grammar_kind,
                                 .reasoning = o->reasoning,
                                 .json_form = o->json_form,
                                 .text = text,
                                 .n_bytes = o->grammar_bytes,
                                 .used = ++c->clock};
    pthread_mutex_unlock(&c->mutex);
}

ln_status ln_constraints_compile(ln_constraints *c, const linnet_request_options *o,
                                 ln_grammar **grammar, ln_error *err) {
    bool found = false;
    *grammar = NULL;
    if (o->grammar_kind == LINNET_GRAMMAR_NONE)
        return LINNET_OK;
    if (c->tokenizer == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "grammar: the checkpoint has no tokenizer, which grammars need");
    if (!ln_tokenizer_joins(c->tokenizer))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "grammar: the texts of this tokenizer's tokens depend on what "
                       "follows, so grammars are not possible");
    if (o->grammar == NULL && o->grammar_bytes > 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "grammar is NULL");
    pthread_mutex_lock(&c->mutex);
    ln_status status = ln_masker_load(&c->masker, token_text, c->tokenizer, err);
    if (status == LINNET_OK && c->common == NULL)
        status = ln_grammar_share(&c->masker.trie, &c->common, err);
    ln_cached_grammar *cached = find(c, o, &found);
    if (status == LINNET_OK && found) {
        *grammar = ln_grammar_retain(cached->grammar);
        cached->used = ++c->clock;
    }
    pthread_mutex_unlock(&c->mutex);
    if (status != LINNET_OK || found)
        return status;
    const ln_grammar_source source = {.kind = o->grammar_kind,
                                      .text = o->grammar,
                                      .n_bytes = o->grammar_bytes,
                                      .reasoning = o->reasoning,
                                      .json_form = o->json_form};
    status = ln_grammar_compile(&source, &c->masker.trie, grammar, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, "grammar");
    keep(c, o, *grammar);
    return LINNET_OK;
}
