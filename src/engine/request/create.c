#include "engine/request/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/beam.h"
#include "engine/pooler.h"
#include "engine/request/check.h"
#include "engine/request/rules.h"

static size_t output_limit(const ln_engine_plan *plan, const linnet_request_options *o) {
    size_t room = ln_request_room(plan, o);
    if (o->kind != LINNET_REQUEST_GENERATE)
        return 0;
    return o->max_tokens > 0 && o->max_tokens < room ? o->max_tokens : room;
}

/* Sizes of the stop strings: their number, the longest, the sum. */
typedef struct stop_sizes {
    size_t count, longest, total;
} stop_sizes;

static stop_sizes measure_stops(const linnet_request_options *o) {
    stop_sizes sizes = {.count = o->kind == LINNET_REQUEST_GENERATE ? o->n_stop : 0};
    for (size_t i = 0; i < sizes.count; i++) {
        size_t n_bytes = strlen(o->stop[i]);
        sizes.longest = n_bytes > sizes.longest ? n_bytes : sizes.longest;
        sizes.total += n_bytes;
    }
    return sizes;
}

/* Copies the stop strings to bytes[total], with their borders[total]. */
static void copy_stops(const linnet_request_options *o, size_t count, ln_stop_string *stops,
                       char *bytes, uint32_t *borders) {
    for (size_t i = 0; i < count; i++) {
        size_t n_bytes = strlen(o->stop[i]);
        memcpy(bytes, o->stop[i], n_bytes);
        ln_stop_string_init(&stops[i], bytes, n_bytes, borders);
        bytes += n_bytes;
        borders += n_bytes;
    }
}

/* Where everything lies in the allocation; of an output, from its beginning. */
typedef struct request_layout {
    size_t encoder_tokens, prediction, embedding, rules, prompt_logprobs, prompt_top, stops,
        stop_bytes, borders;
    size_t sequences, outputs, ranks, beams, parts, part_bytes, total_bytes;
    struct {
        size_t tokens, logprobs, top, stream, stop_stream;
    } part;
    size_t n_sequences, max_output, n_predicted;
    stop_sizes sizes;
    bool overflow;
} request_layout;

static ln_beams_shape shape_beams(const linnet_model *model, const linnet_request_options *o,
                                  const request_layout *at) {
    return (ln_beams_shape){.width = o->beam_width,
                            .n_stop_ids = ln_request_stop_ids(model, o),
                            .n_vocab = model->spec.n_vocab,
                            .max_output = at->max_output,
                            .has_logprobs = o->logprobs,
                            .n_top = (size_t)o->top_logprobs,
                            .tokenizer = model->tokenizer,
                            .n_stops = at->sizes.count,
                            .longest_stop = at->sizes.longest};
}

static request_layout lay_out(const linnet_model *model, const ln_engine_plan *plan,
                              const linnet_request_options *o) {
    const ln_tokenizer *tokenizer = model->tokenizer;
    size_t top_bytes = (size_t)o->top_logprobs * sizeof(linnet_logprob);
    size_t n_prompt = o->prompt_logprobs ? o->n_prompt_ids : 0;
    request_layout r = {.n_sequences = ln_request_sequences(o),
                        .max_output = output_limit(plan, o),
                        /* each step looks through them: no more than could be an output */
                        .n_predicted = o->n_prediction_ids < plan->ctx_tokens ? o->n_prediction_ids
                                                                              : plan->ctx_tokens,
                        .sizes = measure_stops(o)};
    size_t n_output = o->logprobs ? r.max_output : 0;
    ln_layout all = {0}, part = {0};
    ln_layout_add(&all, 1, sizeof(linnet_request));
    r.encoder_tokens = ln_layout_add(&all, o->n_encoder_ids, sizeof(int32_t));
    r.prediction = ln_layout_add(&all, r.n_predicted, sizeof(int32_t));
    if (o->kind == LINNET_REQUEST_EMBED)
        r.embedding = ln_layout_add(&all, ln_pooler_room(model), sizeof(float));
    r.rules = ln_request_rules_plan(&all, model, o);
    r.prompt_logprobs = ln_layout_add(&all, n_prompt, sizeof(float));
    r.prompt_top = ln_layout_add(&all, n_prompt, top_bytes);
    r.stops = ln_layout_add(&all, r.sizes.count, sizeof(ln_stop_string));
    r.stop_bytes = ln_layout_add(&all, r.sizes.total, 1);
    r.borders = ln_layout_add(&all, r.sizes.total, sizeof(uint32_t));
    r.sequences = ln_layout_add(&all, r.n_sequences, sizeof(ln_sequence));
    r.outputs = ln_layout_add(&all, r.n_sequences, sizeof(ln_output));
    r.ranks = ln_layout_add(&all, r.n_sequences, sizeof(size_t));
    if (o->beam_width > 0) {
        ln_beams_shape shape = shape_beams(model, o, &r);
        r.beams = ln_beams_plan(&all, &shape);
    }
    r.part.tokens = ln_layout_add(&part, o->n_prompt_ids + r.max_output, sizeof(int32_t));
    r.part.logprobs = ln_layout_add(&part, n_output, sizeof(float));
    r.part.top = ln_layout_add(&part, n_output, top_bytes);
    r.part.stream = ln_text_stream_plan(&part, tokenizer, r.sizes.count, r.sizes.longest);
    r.part.stop_stream = ln_text_stream_plan(&part, tokenizer, r.sizes.count, r.sizes.longest);
    r.part_bytes = part.bytes;
    r.parts = ln_layout_add(&all, r.n_sequences, part.bytes);
    r.total_bytes = all.bytes;
    r.overflow = all.overflow || part.overflow;
    return r;
}

static void init_output(linnet_request *request, size_t index, const request_layout *at,
                        const ln_tokenizer *tokenizer, const linnet_request_options *o) {
    ln_output *output = &request->outputs[index];
    char *base = (char *)request + at->parts + index * at->part_bytes;
    const ln_stop_string *stops =
        (const ln_stop_string *)(const void *)((char *)request + at->stops);
    output->tokens = (int32_t *)(void *)(base + at->part.tokens);
    memcpy(output->tokens, o->prompt_ids, o->n_prompt_ids * sizeof *o->prompt_ids);
    output->logprobs = (ln_logprob_lists){(float *)(void *)(base + at->part.logprobs),
                                          (linnet_logprob *)(void *)(base + at->part.top)};
    ln_text_stream_init(&output->stream, tokenizer, o->keep_special, stops, at->sizes.count,
                        at->sizes.longest, base + at->part.stream);
    ln_text_stream_init(&output->stop_stream, tokenizer, o->keep_special, stops, at->sizes.count,
                        at->sizes.longest, base + at->part.stop_stream);
    if (index == 0 && o->continues_prompt && o->grammar_kind == LINNET_GRAMMAR_NONE)
        ln_text_stream_follow(&output->stream, o->prompt_ids, o->n_prompt_ids);
    output->stream.decoder = request->outputs[0].stream.decoder;
    output->stop_stream.decoder = output->stream.decoder;
    request->ranks[index] = index;
    request->sequences[index] = (ln_sequence){.group = &request->group,
                                              .tokens = output->tokens,
                                              .n_tokens = o->n_prompt_ids,
                                              .max_tokens = o->n_prompt_ids + at->max_output,
                                              .index = (uint32_t)index};
}

static ln_prediction copy_prediction(void *memory, size_t n, const linnet_request_options *o) {
    if (n > 0)
        memcpy(memory, o->prediction_ids, n * sizeof *o->prediction_ids);
    return (ln_prediction){memory, n};
}

/* One allocation with everything in it; NULL when memory is out. */
static linnet_request *allocate(const ln_request_factory *factory,
                                const linnet_request_options *o) {
    const linnet_model *model = factory->model;
    request_layout at = lay_out(model, factory->plan, o);
    char *base = at.overflow ? NULL : calloc(1, at.total_bytes);
    if (base == NULL)
        return NULL;
    linnet_request *request = (linnet_request *)(void *)base;
    request->n_prompt = o->n_prompt_ids;
    request->max_output = at.max_output;
    request->encoder_tokens = (int32_t *)(void *)(base + at.encoder_tokens);
    if (o->n_encoder_ids > 0)
        memcpy(request->encoder_tokens, o->encoder_ids, o->n_encoder_ids * sizeof *o->encoder_ids);
    request->prediction = copy_prediction(base + at.prediction, at.n_predicted, o);
    ln_request_rules_init(&request->rules, model, o, base + at.rules);
    request->prompt_logprobs = (ln_logprob_lists){(float *)(void *)(base + at.prompt_logprobs),
                                                  (linnet_logprob *)(void *)(base + at.prompt_top)};
    for (int32_t i = 0; o->prompt_logprobs && i < o->top_logprobs; i++)
        request->prompt_logprobs.top[i].id = -1;
    copy_stops(o, at.sizes.count, (ln_stop_string *)(void *)(base + at.stops), base + at.stop_bytes,
               (uint32_t *)(void *)(base + at.borders));
    request->has_stops = at.sizes.count > 0;
    request->sequences = (ln_sequence *)(void *)(base + at.sequences);
    request->outputs = (ln_output *)(void *)(base + at.outputs);
    request->ranks = (size_t *)(void *)(base + at.ranks);
    for (size_t i = 0; i < at.n_sequences; i++)
        init_output(request, i, &at, model->tokenizer, o);
    request->n_outputs = o->n > 0 ? o->n : 1;
    request->is_ranked = at.n_sequences > request->n_outputs || o->beam_width > 0;
    if (o->beam_width > 0) {
        ln_beams_shape shape = shape_beams(model, o, &at);
        request->beams = ln_beams_init(&shape, base + at.beams);
    }
    request->n_to_come = request->n_outputs;
    atomic_init(&request->n_open, request->n_outputs);
    request->group = (ln_sequence_group){
        .request = request,
        .sequences = request->sequences,
        .n_sequences = at.n_sequences,
        .n_live = at.n_sequences,
        .n_prompt = o->n_prompt_ids,
        .encoder_tokens = request->encoder_tokens,
        .n_encoder = o->n_encoder_ids,
        .needs_encoder = o->n_encoder_ids > 0,
        .wants_all_logits = o->kind == LINNET_REQUEST_SCORE || o->prompt_logprobs,
        .priority = o->priority,
        .in_lockstep = o->beam_width > 0,
    };
    if (o->kind == LINNET_REQUEST_EMBED) {
        request->embedding = (float *)(void *)(base + at.embedding);
        request->n_embedding = ln_pooler_width(model, o);
        if (o->dimensions > 0)
            request->n_embedding = o->dimensions;
        request->group.pooling = ln_pooler_kind(model, o);
        request->group.is_whole = model->spec.bidirectional;
        request->group.n_first = o->n_first_ids;
    }
    return request;
}

/* The request holds its adapter until the engine is done with it. Its number, which no other one
 * has, is part of what prefixes are found by. */
static ln_status take_adapter(const ln_request_factory *factory, const linnet_request_options *o,
                              ln_sequence_group *group, ln_error *err) {
    const char *salt = o->cache_salt != NULL ? o->cache_salt : "";
    char key[LN_MAX_SALT_BYTES + 1 + sizeof(uint64_t)] = {0};
    size_t n_bytes = strlen(salt);
    uint64_t number;
    LN_TRY(ln_adapters_acquire(factory->adapters, o->adapter, &group->adapter, &number, err));
    memcpy(key, salt, n_bytes);
    if (group->adapter > 0) {
        memcpy(key + n_bytes + 1, &number, sizeof number);
        n_bytes += 1 + sizeof number;
        group->origin.adapter = factory->adapters->slots[group->adapter - 1].info.name;
        group->origin.adapter_number = number;
    }
    group->origin.has_salt = *salt != '\0';
    group->root = ln_kv_cache_root(factory->kv, key, n_bytes);
    return LINNET_OK;
}

/* Frees what has not been submitted. */
static ln_status give_up(linnet_request *request, ln_grammar *grammar, ln_status status) {
    ln_grammar_release(grammar);
    if (request != NULL && request->event_fd >= 0)
        close(request->event_fd);
    free(request);
    return status;
}

ln_status ln_request_create(const ln_request_factory *factory,
                            const linnet_request_options *options, linnet_request **out,
                            ln_error *err) {
    linnet_request_options own = *options;
    ln_grammar *grammar;
    *out = NULL;
    if (own.n_prompt_ids == 0 && own.n_encoder_ids > 0 && own.kind == LINNET_REQUEST_GENERATE) {
        own.prompt_ids = &factory->model->spec.decoder_start_id;
        own.n_prompt_ids = 1;
    }
    LN_TRY(ln_request_check(factory->model, factory->plan, &own, err));
    LN_TRY(ln_constraints_compile(factory->constraints, &own, &grammar, err));
    linnet_request *request = allocate(factory, &own);
    if (request == NULL)
        return give_up(NULL, grammar,
                       ln_fail(err, LINNET_ERR_NOMEM, "out of memory for a request of %zu tokens",
                               own.n_prompt_ids));
    request->grammar = grammar;
    request->event_fd =
        own.completion_queue != NULL ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (own.completion_queue == NULL && request->event_fd < 0)
        return give_up(request, grammar,
                       ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of a request: %s",
                               strerror(errno)));
    ln_status status = take_adapter(factory, &own, &request->group, err);
    if (status != LINNET_OK)
        return give_up(request, grammar, status);
    ln_completion_entry_init(&request->entry, request, own.completion_queue);
    pthread_mutex_init(&request->on_logits_mutex, NULL);
    own.prompt_ids = own.encoder_ids = own.prediction_ids = NULL;
    own.stop = NULL;
    own.stop_ids = own.dry_breakers = NULL;
    own.logit_bias = NULL;
    own.bad_words = NULL;
    own.cache_salt = own.grammar = own.adapter = NULL;
    request->options = own;
    request->cancel_came = factory->cancel_came;
    request->submit_ns = ln_clock_ns();
    if (own.timeout_ms > 0)
        request->deadline_ns = request->submit_ns + (uint64_t)own.timeout_ms * 1000000u;
    atomic_init(&request->references, 2);
    *out = request;
    return LINNET_OK;
}
