#include "engine/beam.h"

#include <math.h>
#include <string.h>

#include "engine/request/request.h"
#include "engine/request/rules.h"
#include "sampling/logprobs.h"
#include "sampling/penalties.h"

/* ---- memory ----------------------------------------------------------------------------- */

typedef struct beams_layout {
    size_t self, top, chosen, shown, candidates, next, scores, slots, taken, ended, tokens;
    size_t ended_chosen, ended_top, probe, n_candidates, n_kept, n_top;
} beams_layout;

static beams_layout lay_out(ln_layout *layout, const ln_beams_shape *shape) {
    beams_layout b;
    size_t width = shape->width;
    size_t n_candidates = (shape->n_stop_ids > 0 ? 1 + shape->n_stop_ids : 2) * width;
    b.n_candidates = n_candidates < shape->n_vocab ? n_candidates : shape->n_vocab;
    b.n_kept = shape->has_logprobs ? shape->max_output : 0;
    b.n_top = shape->has_logprobs ? shape->n_top : 0;
    b.self = ln_layout_add(layout, 1, sizeof(ln_beams));
    b.top = ln_layout_add(layout, width, b.n_candidates * sizeof(linnet_logprob));
    b.chosen = ln_layout_add(layout, width, b.n_candidates * sizeof(float));
    b.shown = ln_layout_add(layout, width, b.n_top * sizeof(linnet_logprob));
    b.candidates = ln_layout_add(layout, b.n_candidates, sizeof(ln_beam_candidate));
    b.next = ln_layout_add(layout, width, sizeof(ln_beam_candidate));
    b.scores = ln_layout_add(layout, width, sizeof(float));
    b.slots = ln_layout_add(layout, width, sizeof(size_t));
    b.taken = ln_layout_add(layout, width, sizeof(bool));
    b.ended = ln_layout_add(layout, width, sizeof(ln_hypothesis));
    b.tokens = ln_layout_add(layout, width, shape->max_output * sizeof(int32_t));
    b.ended_chosen = ln_layout_add(layout, width, b.n_kept * sizeof(float));
    b.ended_top = ln_layout_add(layout, width * b.n_top, b.n_kept * sizeof(linnet_logprob));
    b.probe = ln_text_stream_plan(layout, shape->tokenizer, shape->n_stops, shape->longest_stop);
    return b;
}

size_t ln_beams_plan(ln_layout *layout, const ln_beams_shape *shape) {
    return lay_out(layout, shape).self;
}

ln_beams *ln_beams_init(const ln_beams_shape *shape, void *memory) {
    ln_layout layout = {0};
    beams_layout at = lay_out(&layout, shape);
    char *base = memory;
    ln_beams *beams = memory;
    *beams = (ln_beams){
        .width = shape->width,
        .n_candidates = at.n_candidates,
        .n_top = at.n_top,
        .top = (linnet_logprob *)(void *)(base + at.top),
        .chosen = (float *)(void *)(base + at.chosen),
        .shown = (linnet_logprob *)(void *)(base + at.shown),
        .candidates = (ln_beam_candidate *)(void *)(base + at.candidates),
        .next = (ln_beam_candidate *)(void *)(base + at.next),
        .scores = (float *)(void *)(base + at.scores),
        .slots = (size_t *)(void *)(base + at.slots),
        .taken = (bool *)(base + at.taken),
        .ended = (ln_hypothesis *)(void *)(base + at.ended),
    };
    ln_text_stream_init(&beams->probe, shape->tokenizer, false, NULL, shape->n_stops,
                        shape->longest_stop, base + at.probe);
    for (size_t i = 0; i < shape->width; i++) {
        ln_hypothesis *own = &beams->ended[i];
        own->tokens = (int32_t *)(void *)(base + at.tokens) + i * shape->max_output;
        own->logprobs.chosen = (float *)(void *)(base + at.ended_chosen) + i * at.n_kept;
        own->logprobs.top =
            (linnet_logprob *)(void *)(base + at.ended_top) + i * at.n_kept * at.n_top;
    }
    return beams;
}

/* ---- candidates ------------------------------------------------------------------------- */

/* A row's candidates, none of which may follow. */
static void forbid_row(ln_beams *beams, size_t row) {
    for (size_t i = 0; i < beams->n_candidates; i++) {
        beams->top[row * beams->n_candidates + i] = (linnet_logprob){.logprob = -INFINITY};
        beams->chosen[row * beams->n_candidates + i] = -INFINITY;
    }
}

static ln_status check_numbers(const float *logprobs, size_t n, ln_error *err) {
    for (size_t i = 0; i < n; i++)
        if (isnan(logprobs[i]))
            return ln_fail(err, LINNET_ERR_COMPUTE, "the logit of token %zu is not a number", i);
    return LINNET_OK;
}

/* Nothing but the end may come, which costs nothing. */
static void force_end(const ln_sampler *sampler, int32_t end, float *logprobs) {
    for (size_t i = 0; i < sampler->n_vocab; i++)
        logprobs[i] = (int32_t)i == end ? 0.0f : -INFINITY;
}

/* The best candidates of a beam, from its logits, which become logprobs. *is_complete: there is
 * none, for its text is what the grammar asks for. */
static ln_status look_at_row(ln_beams *beams, ln_sequence *sequence, const ln_beams_tools *tools,
                             size_t row, float *logits, bool *is_complete, ln_error *err) {
    const linnet_request *request = sequence->group->request;
    ln_sampler *sampler = tools->sampler;
    size_t n_prompt = request->n_prompt;
    ln_status status = LINNET_OK;
    linnet_logprob *top = beams->top + row * beams->n_candidates;
    const linnet_sampling *sampling = &request->options.sampling;
    ln_sample_context context = {
        .tokens = sequence->tokens, .n_tokens = sequence->n_tokens, .rules = &request->rules};
    ln_logprobs_take(sampler, logits, beams->shown + row * beams->n_top, beams->n_top);
    ln_logprobs_get_all(sampler, logits);
    if (request->grammar != NULL)
        status = ln_masker_apply(tools->masker, request->grammar, &sequence->grammar_state,
                                 sequence->tokens + n_prompt, sequence->n_tokens - n_prompt,
                                 request->rules.stop_ids, request->rules.n_stop_ids, logits,
                                 is_complete, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, "grammar");
    if (*is_complete) {
        forbid_row(beams, row);
        return LINNET_OK;
    }
    ln_rules_apply(&context, logits);
    ln_penalties_apply(sampling, &context, sampler->marks, logits);
    ln_dry_apply(sampling, &context, sampler->marks, sampler->lengths, logits);
    LN_TRY(check_numbers(logits, sampler->n_vocab, err));
    if (request->rules.forces_end && request->outputs[row].n_made + 1 == request->max_output)
        force_end(sampler, request->rules.forced_end_id, logits);
    ln_logprobs_select(sampler, logits, top, beams->n_candidates);
    for (size_t i = 0; i < beams->n_candidates; i++)
        beams->chosen[row * beams->n_candidates + i] = ln_logprobs_get(sampler, top[i].id);
    return LINNET_OK;
}

/* The best n_candidates of all beams: their lists, each best first, merge. */
static void merge_candidates(ln_beams *beams, size_t n_rows) {
    size_t at[256] = {0}; /* in each list */
    LN_BUG_ON(n_rows > sizeof at / sizeof *at);
    for (size_t i = 0; i < beams->n_candidates; i++) {
        ln_beam_candidate best = {.score = -INFINITY, .token = -1};
        for (size_t row = 0; row < n_rows; row++) {
            if (at[row] == beams->n_candidates)
                continue;
            size_t place = row * beams->n_candidates + at[row];
            float score = beams->scores[row] + beams->top[place].logprob;
            if (best.token < 0 || score > best.score)
                best = (ln_beam_candidate){row, beams->top[place].id, score, beams->chosen[place]};
        }
        at[best.parent]++;
        beams->candidates[i] = best;
    }
}

/* ---- hypotheses ------------------------------------------------------------------------- */

static double penalised(const linnet_request *request, float score, size_t length) {
    return (double)score / pow((double)length, (double)request->options.length_penalty);
}

/* Keeps what a beam has said, and `last` unless it is NULL, when it is among the best so far. */
static void add_ended(ln_beams *beams, const linnet_request *request, size_t parent,
                      const ln_beam_candidate *last, double score, linnet_finish finish) {
    const ln_output *from = &request->outputs[parent];
    size_t n_tokens = from->n_made, n_top = beams->n_top;
    bool is_full = beams->n_ended == beams->width;
    if (is_full && !(score > beams->ended[beams->width - 1].score))
        return;
    size_t at = is_full ? beams->width - 1 : beams->n_ended++;
    ln_hypothesis own = beams->ended[at];
    for (; at > 0 && score > beams->ended[at - 1].score; at--)
        beams->ended[at] = beams->ended[at - 1];
    ln_output_copy_logprobs(request, &own.logprobs, &from->logprobs, n_tokens);
    memcpy(own.tokens, from->tokens + request->n_prompt, n_tokens * sizeof *own.tokens);
    if (last != NULL) {
        own.tokens[n_tokens] = last->token;
        if (request->options.logprobs) {
            own.logprobs.chosen[n_tokens] = last->logprob;
            memcpy(own.logprobs.top + n_tokens * n_top, beams->shown + parent * n_top,
                   n_top * sizeof *beams->shown);
        }
        n_tokens++;
    }
    own.n_tokens = n_tokens;
    own.score = score;
    own.finish = finish;
    beams->ended[at] = own;
}

/* ---- places ----------------------------------------------------------------------------- */

/* A beam that goes on keeps its place for the first of its successors; the others take the places
 * of beams that do not. At the beginning all places are alike. */
static void find_slots(ln_beams *beams, bool begins) {
    memset(beams->taken, 0, beams->width * sizeof *beams->taken);
    for (size_t i = 0; i < beams->width; i++) {
        size_t parent = begins ? i : beams->next[i].parent;
        beams->slots[i] = beams->taken[parent] ? beams->width : parent;
        beams->taken[parent] = true;
    }
    size_t unused = 0;
    for (size_t i = 0; i < beams->width; i++) {
        if (beams->slots[i] < beams->width)
            continue;
        while (beams->taken[unused])
            unused++;
        beams->taken[unused] = true;
        beams->slots[i] = unused;
    }
}

/* Makes the beam at `slot` what the one at `parent` is. */
static void fork_beam(ln_sequence_group *group, ln_kv_cache *kv, size_t parent, size_t slot) {
    linnet_request *request = group->request;
    ln_output *to = &request->outputs[slot];
    const ln_output *from = &request->outputs[parent];
    memcpy(to->tokens + request->n_prompt, from->tokens + request->n_prompt,
           from->n_made * sizeof *to->tokens);
    ln_output_copy_logprobs(request, &to->logprobs, &from->logprobs, from->n_made);
    if (request->has_stops)
        ln_text_stream_copy(&to->stop_stream, &from->stop_stream);
    group->sequences[slot].grammar_state = group->sequences[parent].grammar_state;
    ln_kv_cache_clear(kv, group->sequences[slot].kv_row);
    ln_kv_cache_fork(kv, group->sequences[parent].kv_row, group->sequences[slot].kv_row);
}

static void move_beams(ln_beams *beams, ln_sequence_group *group, ln_kv_cache *kv, bool begins) {
    linnet_request *request = group->request;
    size_t n_top = beams->n_top, n_bytes;
    find_slots(beams, begins);
    for (size_t i = 0; i < beams->width && !begins; i++)
        if (beams->slots[i] != beams->next[i].parent)
            fork_beam(group, kv, beams->next[i].parent, beams->slots[i]);
    for (size_t i = 0; i < beams->width; i++) {
        const ln_beam_candidate *candidate = &beams->next[i];
        ln_output *output = &request->outputs[beams->slots[i]];
        if (request->options.logprobs) {
            output->logprobs.chosen[output->n_made] = candidate->logprob;
            memcpy(output->logprobs.top + output->n_made * n_top,
                   beams->shown + candidate->parent * n_top, n_top * sizeof *beams->shown);
        }
        if (request->has_stops)
            ln_text_stream_push(&output->stop_stream, candidate->token, &n_bytes);
        output->tokens[request->n_prompt + output->n_made++] = candidate->token;
        output->score = (double)candidate->score;
        beams->scores[beams->slots[i]] = candidate->score;
        group->sequences[beams->slots[i]].n_tokens++;
    }
}

/* ---- a step ----------------------------------------------------------------------------- */

/* The candidates of all beams; those whose text is complete end. */
static ln_status look_at_rows(ln_beams *beams, ln_sequence_group *group,
                              const ln_beams_tools *tools, float *logits, size_t n_rows,
                              ln_error *err) {
    const linnet_request *request = group->request;
    for (size_t row = 0; row < n_rows; row++) {
        bool is_complete = false;
        size_t length = request->outputs[row].n_made;
        if (beams->scores[row] == -INFINITY) {
            forbid_row(beams, row);
            continue;
        }
        LN_TRY(look_at_row(beams, &group->sequences[row], tools, row,
                           logits + row * tools->sampler->n_vocab, &is_complete, err));
        if (is_complete)
            add_ended(beams, request, row, NULL,
                      penalised(request, beams->scores[row], length > 0 ? length : 1),
                      LINNET_FINISH_STOP);
    }
    return LINNET_OK;
}

/* Whether a candidate completes a stop string. */
static bool completes_stop(ln_beams *beams, const linnet_request *request,
                           const ln_beam_candidate *candidate) {
    size_t n_bytes;
    if (!request->has_stops)
        return false;
    ln_text_stream_copy(&beams->probe, &request->outputs[candidate->parent].stop_stream);
    ln_text_stream_push(&beams->probe, candidate->token, &n_bytes);
    return beams->probe.stopped;
}

/* Why a candidate ends its beam, with outputs of this length, or NONE; *is_said: its token is
 * shown. */
static linnet_finish finish_of(ln_beams *beams, const linnet_request *request,
                               const ln_beam_candidate *candidate, size_t length, bool *is_said) {
    *is_said = !ln_request_rules_stop(&request->rules, candidate->token);
    bool is_cut = length == request->max_output;
    if (!*is_said && is_cut && request->rules.forces_end)
        return LINNET_FINISH_LENGTH;
    if (!*is_said || completes_stop(beams, request, candidate))
        return LINNET_FINISH_STOP;
    return is_cut ? LINNET_FINISH_LENGTH : LINNET_FINISH_NONE;
}

/* Sorts the candidates into those that end and those that run on; returns how many of the latter
 * there are. */
static size_t divide_candidates(ln_beams *beams, const linnet_request *request, size_t length) {
    size_t n_next = 0;
    for (size_t i = 0; i < beams->n_candidates; i++) {
        const ln_beam_candidate *candidate = &beams->candidates[i];
        bool is_said;
        if (candidate->score == -INFINITY || (i >= beams->width && n_next == beams->width))
            break;
        linnet_finish finish = finish_of(beams, request, candidate, length, &is_said);
        if (finish == LINNET_FINISH_NONE && n_next < beams->width)
            beams->next[n_next++] = *candidate;
        else if (finish != LINNET_FINISH_NONE && i < beams->width)
            add_ended(beams, request, candidate->parent, is_said ? candidate : NULL,
                      penalised(request, candidate->score, length), finish);
    }
    return n_next;
}

/* Whether what would go on, with outputs of this length, no longer matters. */
static bool is_decided(const ln_beams *beams, const linnet_request *request, size_t length) {
    const linnet_request_options *o = &request->options;
    if (beams->n_ended < beams->width)
        return false;
    if (o->early_stopping == LINNET_EARLY_STOPPING_ON)
        return true;
    if (o->early_stopping == LINNET_EARLY_STOPPING_NEVER && o->length_penalty > 0)
        length = request->max_output;
    return !(penalised(request, beams->next[0].score, length) >
             beams->ended[beams->width - 1].score);
}

ln_status ln_beams_step(ln_beams *beams, ln_sequence_group *group, const ln_beams_tools *tools,
                        float *logits, bool begins, bool *is_over, ln_error *err) {
    const linnet_request *request = group->request;
    size_t n_rows = begins ? 1 : beams->width;
    size_t length = request->outputs[0].n_made + 1;
    LN_TRY(look_at_rows(beams, group, tools, logits, n_rows, err));
    merge_candidates(beams, n_rows);
    size_t n_next = divide_candidates(beams, request, length);
    *is_over = n_next == 0 || is_decided(beams, request, length);
    if (*is_over)
        return LINNET_OK;
    for (; n_next < beams->width; n_next++) /* these give nothing */
        beams->next[n_next] = (ln_beam_candidate){.score = -INFINITY, .logprob = -INFINITY};
    move_beams(beams, group, tools->kv, begins);
    return LINNET_OK;
}

void ln_beams_end(const ln_beams *beams, linnet_request *request) {
    for (size_t i = 0; i < beams->n_ended; i++) {
        const ln_hypothesis *ended = &beams->ended[i];
        ln_output *output = &request->outputs[i];
        memcpy(output->tokens + request->n_prompt, ended->tokens,
               ended->n_tokens * sizeof *ended->tokens);
        ln_output_copy_logprobs(request, &output->logprobs, &ended->logprobs, ended->n_tokens);
        output->n_made = ended->n_tokens;
        output->score = ended->score;
    }
    for (size_t i = 0; i < beams->width; i++) {
        if (i >= beams->n_ended) { /* there are no more */
            request->outputs[i].score = -INFINITY;
            request->outputs[i].n_made = 0;
        }
        ln_request_end_output(
            request, i, i < beams->n_ended ? beams->ended[i].finish : LINNET_FINISH_LENGTH, NULL);
    }
}
