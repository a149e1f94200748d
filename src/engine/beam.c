#include "engine/beam.h"

#include <math.h>
#include <string.h>

#include "engine/request.h"
#include "engine/request_rules.h"
#include "sampling/logprobs.h"
#include "sampling/penalties.h"

/* ---- memory ----------------------------------------------------------------------------- */

typedef struct beams_layout {
    size_t self, top, steps, next, scores, slots, taken, ended, tokens, n_steps;
} beams_layout;

static beams_layout lay_out(ln_layout *layout, size_t width, size_t n_stop_ids, size_t n_vocab,
                            size_t max_output) {
    beams_layout b;
    size_t n_steps = (n_stop_ids > 0 ? 1 + n_stop_ids : 2) * width;
    b.n_steps = n_steps < n_vocab ? n_steps : n_vocab;
    b.self = ln_layout_add(layout, 1, sizeof(ln_beams));
    b.top = ln_layout_add(layout, width, b.n_steps * sizeof(linnet_logprob));
    b.steps = ln_layout_add(layout, b.n_steps, sizeof(ln_beam_step));
    b.next = ln_layout_add(layout, width, sizeof(ln_beam_step));
    b.scores = ln_layout_add(layout, width, sizeof(float));
    b.slots = ln_layout_add(layout, width, sizeof(size_t));
    b.taken = ln_layout_add(layout, width, sizeof(bool));
    b.ended = ln_layout_add(layout, width, sizeof(ln_hypothesis));
    b.tokens = ln_layout_add(layout, width, max_output * sizeof(int32_t));
    return b;
}

size_t ln_beams_plan(ln_layout *layout, size_t width, size_t n_stop_ids, size_t n_vocab,
                     size_t max_output) {
    return lay_out(layout, width, n_stop_ids, n_vocab, max_output).self;
}

ln_beams *ln_beams_init(size_t width, size_t n_stop_ids, size_t n_vocab, size_t max_output,
                        void *memory) {
    ln_layout layout = {0};
    beams_layout at = lay_out(&layout, width, n_stop_ids, n_vocab, max_output);
    char *base = memory;
    ln_beams *beams = memory;
    *beams = (ln_beams){
        .width = width,
        .n_steps = at.n_steps,
        .top = (linnet_logprob *)(void *)(base + at.top),
        .steps = (ln_beam_step *)(void *)(base + at.steps),
        .next = (ln_beam_step *)(void *)(base + at.next),
        .scores = (float *)(void *)(base + at.scores),
        .slots = (size_t *)(void *)(base + at.slots),
        .taken = (bool *)(base + at.taken),
        .ended = (ln_hypothesis *)(void *)(base + at.ended),
    };
    for (size_t i = 0; i < width; i++)
        beams->ended[i].tokens = (int32_t *)(void *)(base + at.tokens) + i * max_output;
    return beams;
}

/* ---- candidates ------------------------------------------------------------------------- */

/* The best n_steps ways to go on, of all beams: their lists, each best first, merge. */
static void choose_steps(ln_beams *beams, size_t n_rows) {
    size_t at[256] = {0}; /* in each list */
    LN_BUG_ON(n_rows > sizeof at / sizeof *at);
    for (size_t i = 0; i < beams->n_steps; i++) {
        ln_beam_step best = {.score = -INFINITY, .token = -1};
        for (size_t row = 0; row < n_rows; row++) {
            if (at[row] == beams->n_steps)
                continue;
            const linnet_logprob *top = &beams->top[row * beams->n_steps + at[row]];
            float score = beams->scores[row] + top->logprob;
            if (best.token < 0 || score > best.score)
                best = (ln_beam_step){row, top->id, score};
        }
        at[best.parent]++;
        beams->steps[i] = best;
    }
}

/* ---- hypotheses ------------------------------------------------------------------------- */

static double penalised(const linnet_request *request, float score, size_t length) {
    return (double)score / pow((double)length, (double)request->options.length_penalty);
}

/* Keeps a hypothesis when it is among the best so far. */
static void add_ended(ln_beams *beams, const linnet_request *request, const ln_beam_step *step,
                      bool stops) {
    const ln_output *parent = &request->outputs[step->parent];
    size_t n_tokens = parent->n_made;
    double score = penalised(request, step->score, n_tokens + 1);
    bool is_full = beams->n_ended == beams->width;
    if (is_full && !(score > beams->ended[beams->width - 1].score))
        return;
    size_t at = is_full ? beams->width - 1 : beams->n_ended++;
    ln_hypothesis own = beams->ended[at];
    for (; at > 0 && score > beams->ended[at - 1].score; at--)
        beams->ended[at] = beams->ended[at - 1];
    memcpy(own.tokens, parent->tokens + request->n_prompt, n_tokens * sizeof *own.tokens);
    if (!stops)
        own.tokens[n_tokens++] = step->token;
    own.n_tokens = n_tokens;
    own.score = score;
    own.finish = stops ? LINNET_FINISH_STOP : LINNET_FINISH_LENGTH;
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

static void move_beams(ln_beams *beams, ln_sequence_group *group, ln_kv_cache *kv, bool begins) {
    linnet_request *request = group->request;
    find_slots(beams, begins);
    for (size_t i = 0; i < beams->width && !begins; i++) {
        size_t slot = beams->slots[i], parent = beams->next[i].parent;
        if (slot == parent)
            continue;
        ln_output *to = &request->outputs[slot];
        const ln_output *from = &request->outputs[parent];
        memcpy(to->tokens + request->n_prompt, from->tokens + request->n_prompt,
               from->n_made * sizeof *to->tokens);
        ln_kv_cache_clear(kv, group->sequences[slot].kv_row);
        ln_kv_cache_fork(kv, group->sequences[parent].kv_row, group->sequences[slot].kv_row);
    }
    for (size_t i = 0; i < beams->width; i++) {
        ln_output *output = &request->outputs[beams->slots[i]];
        output->tokens[request->n_prompt + output->n_made++] = beams->next[i].token;
        output->score = (double)beams->next[i].score;
        beams->scores[beams->slots[i]] = beams->next[i].score;
        group->sequences[beams->slots[i]].n_tokens++;
    }
}

/* ---- a step ----------------------------------------------------------------------------- */

static void look_at_rows(ln_beams *beams, const ln_sequence_group *group, ln_sampler *sampler,
                         float *logits, size_t n_rows) {
    for (size_t row = 0; row < n_rows; row++) {
        const ln_sequence *sequence = &group->sequences[row];
        ln_sample_place place = {.tokens = sequence->tokens,
                                 .n_tokens = sequence->n_tokens,
                                 .rules = &group->request->rules};
        float *own = logits + row * sampler->n_vocab;
        ln_rules_apply(&place, own);
        ln_logprobs_take(sampler, own, beams->top + row * beams->n_steps, beams->n_steps);
    }
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

bool ln_beams_step(ln_beams *beams, ln_sequence_group *group, ln_kv_cache *kv, ln_sampler *sampler,
                   float *logits, bool begins) {
    const linnet_request *request = group->request;
    size_t n_rows = begins ? 1 : beams->width, n_next = 0;
    size_t length = request->outputs[0].n_made + 1;
    look_at_rows(beams, group, sampler, logits, n_rows);
    choose_steps(beams, n_rows);
    for (size_t i = 0; i < beams->n_steps; i++) {
        const ln_beam_step *step = &beams->steps[i];
        bool stops = ln_request_rules_stop(&request->rules, step->token);
        bool ends = stops || length == request->max_output;
        if (ends && i < beams->width)
            add_ended(beams, request, step, stops);
        else if (!ends && n_next < beams->width)
            beams->next[n_next++] = *step;
    }
    if (n_next < beams->width || is_decided(beams, request, length))
        return true;
    move_beams(beams, group, kv, begins);
    return false;
}
