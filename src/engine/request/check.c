#include "engine/request/check.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/pooler.h"
#include "sampling/sampler.h"

enum {
    MAX_BEAMS = 64,
    MAX_STOPS = 64,
    MAX_STOP_BYTES = 4096,
    MAX_RULES = 65536,
    MAX_BAD_WORD = 256
};

static ln_status check_ids(const int32_t *ids, size_t n_ids, size_t n_vocab, const char *name,
                           ln_error *err) {
    if (ids == NULL && n_ids > 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is NULL", name);
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= n_vocab)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "%s[%zu] is %d; the vocabulary has %zu tokens",
                           name, i, (int)ids[i], n_vocab);
    return LINNET_OK;
}

static ln_status check_prompt(const linnet_request_options *o, size_t n_vocab, size_t ctx_tokens,
                              ln_error *err) {
    size_t room = o->kind == LINNET_REQUEST_GENERATE ? 1 : 0; /* for a token of output */
    if (o->n_prompt_ids == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the prompt has no tokens");
    if (o->n_prompt_ids > ctx_tokens || o->n_prompt_ids + room > ctx_tokens)
        return ln_fail(err, LINNET_ERR_LIMIT, "the prompt has %zu tokens and the context %zu",
                       o->n_prompt_ids, ctx_tokens);
    return check_ids(o->prompt_ids, o->n_prompt_ids, n_vocab, "prompt_ids", err);
}

static ln_status check_source(const linnet_model *model, const ln_engine_plan *plan,
                              const linnet_request_options *o, ln_error *err) {
    const ln_spec *spec = &model->spec;
    size_t most = ln_engine_plan_max_encoder(plan);
    if (spec->n_encoder_layers == 0 && o->n_encoder_ids > 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "encoder_ids are given, but the model has no encoder");
    if (spec->n_encoder_layers == 0)
        return LINNET_OK;
    if (o->n_encoder_ids == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the model has an encoder; encoder_ids is empty");
    if (o->n_encoder_ids > most)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "the encoder's text has %zu tokens; one step holds %zu", o->n_encoder_ids,
                       most);
    size_t n_vocab = spec->n_encoder_vocab > 0 ? spec->n_encoder_vocab : spec->n_vocab;
    return check_ids(o->encoder_ids, o->n_encoder_ids, n_vocab, "encoder_ids", err);
}

static ln_status check_stops(const linnet_request_options *o, const ln_tokenizer *tokenizer,
                             ln_error *err) {
    if (o->n_stop > MAX_STOPS)
        return ln_fail(err, LINNET_ERR_LIMIT, "there are %zu stop strings; at most %d are possible",
                       o->n_stop, MAX_STOPS);
    if (o->n_stop > 0 && tokenizer == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "stop: the checkpoint has no tokenizer, so strings are not possible");
    if (o->n_stop > 0 && o->stop == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "stop is NULL");
    for (size_t i = 0; i < o->n_stop; i++) {
        size_t n_bytes = o->stop[i] != NULL ? strnlen(o->stop[i], MAX_STOP_BYTES + 1) : 0;
        if (n_bytes == 0)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "stop[%zu] is empty", i);
        if (n_bytes > MAX_STOP_BYTES)
            return ln_fail(err, LINNET_ERR_LIMIT, "stop[%zu] has more than %d bytes", i,
                           MAX_STOP_BYTES);
        if (!ln_utf8_check(o->stop[i], n_bytes))
            return ln_fail(err, LINNET_ERR_ARGUMENT, "stop[%zu] is not UTF-8", i);
    }
    return LINNET_OK;
}

static ln_status check_rules(const linnet_request_options *o, size_t n_vocab, ln_error *err) {
    const struct {
        const char *name;
        const void *array;
        size_t count;
    } arrays[] = {{"stop_ids", o->stop_ids, o->n_stop_ids},
                  {"logit_bias", o->logit_bias, o->n_logit_bias},
                  {"bad_words", o->bad_words, o->n_bad_words},
                  {"dry_breakers", o->dry_breakers, o->n_dry_breakers},
                  {"prediction_ids", o->prediction_ids, o->n_prediction_ids}};
    size_t most = n_vocab > MAX_RULES ? n_vocab : MAX_RULES; /* one for each token */
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (arrays[i].count > most)
            return ln_fail(err, LINNET_ERR_LIMIT, "%s has %zu entries; at most %zu are possible",
                           arrays[i].name, arrays[i].count, most);
        if (arrays[i].count > 0 && arrays[i].array == NULL)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is NULL", arrays[i].name);
    }
    LN_TRY(check_ids(o->stop_ids, o->n_stop_ids, n_vocab, "stop_ids", err));
    LN_TRY(check_ids(o->dry_breakers, o->n_dry_breakers, n_vocab, "dry_breakers", err));
    LN_TRY(check_ids(o->prediction_ids, o->n_prediction_ids, n_vocab, "prediction_ids", err));
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        const linnet_logit_bias *bias = &o->logit_bias[i];
        LN_TRY(check_ids(&bias->id, 1, n_vocab, "the id of logit_bias", err));
        if (bias->bias != -INFINITY && !(bias->bias >= -100 && bias->bias <= 100))
            return ln_fail(err, LINNET_ERR_ARGUMENT,
                           "logit_bias[%zu] is %g; it must be from -100 to 100, or -inf", i,
                           (double)bias->bias);
    }
    for (size_t i = 0; i < o->n_bad_words; i++) {
        const linnet_token_list *word = &o->bad_words[i];
        if (word->n_ids == 0 || word->n_ids > MAX_BAD_WORD)
            return ln_fail(err, LINNET_ERR_ARGUMENT,
                           "bad_words[%zu] has %zu tokens; it must have 1 to %d", i, word->n_ids,
                           MAX_BAD_WORD);
        LN_TRY(check_ids(word->ids, word->n_ids, n_vocab, "the ids of bad_words", err));
    }
    return LINNET_OK;
}

static ln_status check_logprobs(const linnet_request_options *o, size_t n_vocab, ln_error *err) {
    size_t most = n_vocab < LINNET_MAX_TOP_LOGPROBS ? n_vocab : LINNET_MAX_TOP_LOGPROBS;
    if (o->top_logprobs < 0 || (size_t)o->top_logprobs > most)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "top_logprobs is %d; it must be from 0 to %zu",
                       (int)o->top_logprobs, most);
    if (o->top_logprobs > 0 && !o->logprobs && !o->prompt_logprobs)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "top_logprobs needs logprobs or prompt_logprobs");
    return LINNET_OK;
}

static ln_status check_generate(const linnet_model *model, const linnet_request_options *o,
                                ln_error *err) {
    if ((unsigned)o->reasoning > LINNET_REASONING_OPEN)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "reasoning is %d, which is none",
                       (int)o->reasoning);
    LN_TRY(ln_sampling_check(&o->sampling, err));
    LN_TRY(check_rules(o, model->spec.n_vocab, err));
    LN_TRY(check_logprobs(o, model->spec.n_vocab, err));
    return check_stops(o, model->tokenizer, err);
}

/* What only generation has is refused by name elsewhere. */
static ln_status check_generate_alone(const linnet_request_options *o, const char *kind,
                                      ln_error *err) {
    const struct {
        const char *name;
        bool is_given;
    } others[] = {{"min_tokens", o->min_tokens > 0},
                  {"stop_ids", o->n_stop_ids > 0},
                  {"logit_bias", o->n_logit_bias > 0},
                  {"bad_words", o->n_bad_words > 0},
                  {"dry_breakers", o->n_dry_breakers > 0},
                  {"prediction_ids", o->n_prediction_ids > 0},
                  {"first_output", o->first_output > 0},
                  {"logprobs", o->logprobs},
                  {"grammar", o->grammar_kind != LINNET_GRAMMAR_NONE},
                  {"prompt_logprobs", o->prompt_logprobs},
                  {"top_logprobs", o->top_logprobs != 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_given)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is for kind GENERATE; the kind is %s",
                           others[i].name, kind);
    return LINNET_OK;
}

static ln_status check_score(const linnet_request_options *o, ln_error *err) {
    LN_TRY(check_generate_alone(o, "SCORE", err));
    if (o->on_logits == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "on_logits is NULL; kind SCORE needs it");
    return LINNET_OK;
}

static ln_status check_embed(const linnet_model *model, const ln_engine_plan *plan,
                             const linnet_request_options *o, ln_error *err) {
    if ((unsigned)o->pooling > LINNET_POOLING_LAST || (unsigned)o->head > LINNET_HEAD_CLASSES ||
        (unsigned)o->normalization > LINNET_NORMALIZATION_OFF)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "pooling %d, head %d or normalization %d, which is none", (int)o->pooling,
                       (int)o->head, (int)o->normalization);
    if (model->spec.n_encoder_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "a model with an encoder and a decoder makes no embeddings");
    if (o->head == LINNET_HEAD_CLASSES && model->embedding.classes.n == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "the model has no head that classifies or scores pairs");
    if (o->dimensions > ln_pooler_width(model, o))
        return ln_fail(err, LINNET_ERR_ARGUMENT, "dimensions is %zu; the vector has %zu",
                       o->dimensions, ln_pooler_width(model, o));
    if (o->n_first_ids > o->n_prompt_ids)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "n_first_ids is %zu; the prompt has %zu tokens",
                       o->n_first_ids, o->n_prompt_ids);
    if (model->spec.bidirectional && o->n_prompt_ids > plan->budget.max_tokens)
        return ln_fail(err, LINNET_ERR_LIMIT, "the prompt has %zu tokens; one step holds %zu",
                       o->n_prompt_ids, plan->budget.max_tokens);
    return check_generate_alone(o, "EMBED", err);
}

static ln_status check_makes_tokens(const linnet_model *model, ln_error *err) {
    if (!model->spec.bidirectional && !model->spec.lacks_output)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "the model makes embeddings alone (kind EMBED), and writes no text");
}

static ln_kv_need need_of(const linnet_request_options *o, size_t n_output) {
    return (ln_kv_need){.n_sequences = ln_request_sequences(o),
                        .n_prompt = o->n_prompt_ids,
                        .max_tokens = o->n_prompt_ids + n_output,
                        .n_encoder = o->n_encoder_ids};
}

size_t ln_request_room(const ln_engine_plan *plan, const linnet_request_options *o) {
    size_t low = 0, high = plan->ctx_tokens - o->n_prompt_ids;
    while (low < high) { /* the most that fits is in [low, high] */
        size_t middle = high - (high - low) / 2;
        if (ln_kv_cache_fits(&plan->kv_shape, need_of(o, middle)))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Beams take the likeliest: what only drawing has is refused by name, but for temperature and the
 * filters, which say nothing to them. */
static ln_status check_beams(const linnet_model *model, const ln_engine_plan *plan,
                             const linnet_request_options *o, ln_error *err) {
    const linnet_sampling *s = &o->sampling;
    const struct {
        const char *name;
        bool is_given;
    } others[] = {{"best_of", o->best_of > 0},
                  {"xtc_probability", s->xtc_probability != 0},
                  {"mirostat_tau", s->mirostat_tau != 0},
                  {"speculation (draft_tokens)", plan->draft_tokens > 0 && !plan->draft.by_cost}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_given)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s and beam_width do not combine",
                           others[i].name);
    if (o->beam_width > MAX_BEAMS || o->n > o->beam_width || o->beam_width > model->spec.n_vocab)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "beam_width is %u; it must be from n to %d, and within the vocabulary",
                       (unsigned)o->beam_width, MAX_BEAMS);
    if ((int)o->early_stopping < LINNET_EARLY_STOPPING_OFF ||
        o->early_stopping > LINNET_EARLY_STOPPING_NEVER)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "early_stopping is %d, which is none",
                       (int)o->early_stopping);
    if (!(o->length_penalty >= -100 && o->length_penalty <= 100))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "length_penalty is %g; it must be from -100 to 100",
                       (double)o->length_penalty);
    return LINNET_OK;
}

static ln_status check_group(const linnet_model *model, const ln_engine_plan *plan,
                             const linnet_request_options *o, ln_error *err) {
    size_t n_sequences = ln_request_sequences(o), max_seqs = plan->budget.max_seqs;
    if (o->cache_salt != NULL && strnlen(o->cache_salt, LN_MAX_SALT_BYTES + 1) > LN_MAX_SALT_BYTES)
        return ln_fail(err, LINNET_ERR_LIMIT, "cache_salt has more than %d bytes",
                       LN_MAX_SALT_BYTES);
    if (o->beam_width > 0)
        LN_TRY(check_beams(model, plan, o, err));
    if (o->best_of > 0 && o->best_of < o->n)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "best_of is %u and n %u; it must be at least n",
                       (unsigned)o->best_of, (unsigned)o->n);
    if (n_sequences > max_seqs)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "%s is %zu; a step holds %zu sequences, which max_seqs says",
                       o->beam_width > 0   ? "beam_width"
                       : o->best_of > o->n ? "best_of"
                                           : "n",
                       n_sequences, max_seqs);
    if ((n_sequences > 1 || o->beam_width > 0) && o->kind != LINNET_REQUEST_GENERATE)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "n, best_of and beam_width are for kind GENERATE");
    return LINNET_OK;
}

/* Whether it can ever run, with all that may come of it. */
static ln_status check_room(const ln_engine_plan *plan, const linnet_request_options *o,
                            ln_error *err) {
    bool generates = o->kind == LINNET_REQUEST_GENERATE;
    size_t room = ln_request_room(plan, o), in_ctx = plan->ctx_tokens - o->n_prompt_ids;
    size_t wanted = o->max_tokens < in_ctx ? o->max_tokens : in_ctx;
    if (!ln_kv_cache_fits(&plan->kv_shape, need_of(o, generates ? 1 : 0)))
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "the prompt has %zu tokens%s; the KV cache holds %zu tokens in all",
                       o->n_prompt_ids, ln_request_sequences(o) > 1 ? ", and n sequences" : "",
                       plan->kv_shape.n_blocks[0] * LN_KV_BLOCK_TOKENS);
    if (generates && wanted > room)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "max_tokens is %zu; the KV cache has room for %zu besides the prompt",
                       o->max_tokens, room);
    return LINNET_OK;
}

ln_status ln_request_check(const linnet_model *model, const ln_engine_plan *plan,
                           const linnet_request_options *o, ln_error *err) {
    if (o->kind != LINNET_REQUEST_EMBED)
        LN_TRY(check_makes_tokens(model, err));
    LN_TRY(check_prompt(o, model->spec.n_vocab, plan->ctx_tokens, err));
    LN_TRY(check_source(model, plan, o, err));
    LN_TRY(check_group(model, plan, o, err));
    LN_TRY(check_room(plan, o, err));
    switch (o->kind) {
    case LINNET_REQUEST_GENERATE: return check_generate(model, o, err);
    case LINNET_REQUEST_SCORE: return check_score(o, err);
    case LINNET_REQUEST_EMBED: return check_embed(model, plan, o, err);
    default: return ln_fail(err, LINNET_ERR_ARGUMENT, "kind is %d, which is none", (int)o->kind);
    }
}
