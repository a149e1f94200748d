/* The choice of tokens from rows of logits: ln_draw as it is defined, plainly. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"
#include "base/portable_math.h"

typedef struct candidate {
    size_t id;
    double weight;
} candidate;

static size_t best_of(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 0; i < n && !isnan(logits[best]); i++)
        if (logits[i] > logits[best] || isnan(logits[i]))
            best = i;
    return best;
}

/* The best that comes after `last`; n: there is none. */
static size_t next_best(const float *logits, size_t n, size_t last) {
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        bool is_after = logits[i] < logits[last] || (logits[i] == logits[last] && i > last);
        if (is_after && (best == n || logits[i] > logits[best]))
            best = i;
    }
    return best;
}

/* The best by their weights, in order; returns how many the draw leaves. */
static size_t choose(const ln_draw *draw, const float *logits, size_t n, candidate *chosen) {
    double total = 0, before = 0;
    size_t n_chosen = 0, n_front = 0, n_kept = 0;
    for (size_t id = best_of(logits, n); n_chosen < draw->top_k && id < n; n_chosen++) {
        double x = 0;
        chosen[n_chosen].id = id;
        if (logits[id] != logits[chosen[0].id])
            x = ((double)logits[id] - (double)logits[chosen[0].id]) / (double)draw->temperature;
        chosen[n_chosen].weight = ln_round_weight(ln_exp_nonpositive(x));
        total += chosen[n_chosen].weight;
        id = next_best(logits, n, id);
    }
    double mass = (double)draw->top_p * total;
    while (n_front < n_chosen && (draw->top_p >= 1 || n_front == 0 || before < mass))
        before += chosen[n_front++].weight;
    for (size_t i = 0; i < n_front; i++)
        if (chosen[i].weight >= (double)draw->min_p)
            chosen[n_kept++] = chosen[i];
    return n_kept;
}

/* The first by id up to which more than the share `uniform` lies. */
static size_t invert(const candidate *kept, size_t n_kept, double uniform) {
    double total = 0;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < n_kept; i++)
        total += kept[i].weight;
    for (size_t i = 0; i < n_kept; i++) {
        double up_to = 0;
        for (size_t j = 0; j < n_kept; j++)
            up_to += kept[j].id <= kept[i].id ? kept[j].weight : 0;
        if (kept[i].weight > 0 && up_to > uniform * total && kept[i].id < found)
            found = kept[i].id;
    }
    return found;
}

/* ---- edits ---------------------------------------------------------------------------------- */

static void add_bias(const int32_t *pair, float *logits) {
    float bias;
    memcpy(&bias, &pair[1], sizeof bias);
    logits[pair[0]] = isnan(bias) ? -INFINITY : logits[pair[0]] + bias;
}

/* All that came: said[n_said], then the row's own token. */
static void penalize(const ln_draw *d, const int32_t *said, int32_t own, float *logits) {
    for (size_t i = 0; i <= d->n_said; i++) {
        int32_t id = i < d->n_said ? said[i] : own;
        uint32_t count = 0;
        bool is_first = true;
        for (size_t j = 0; j <= d->n_said; j++) {
            bool is_same = (j < d->n_said ? said[j] : own) == id;
            count += is_same;
            is_first &= !is_same || j >= i;
        }
        if (!is_first)
            continue;
        float logit = logits[id];
        logit = logit > 0 ? logit / d->repeat : logit * d->repeat;
        logits[id] = logit - d->frequency * (float)count - d->presence;
    }
}

static void edit(const ln_draw *d, const ln_batch *batch, size_t row, float *logits) {
    const int32_t *words = batch->edits + (size_t)d->edits_at * LN_DRAW_WORDS;
    for (size_t i = 0; i < d->n_biases; i++)
        add_bias(words + 2 * i, logits);
    if (d->penalizes)
        penalize(d, words + 2 * (size_t)d->n_biases, batch->tokens[batch->logit_rows[row]], logits);
}

static void report(const ln_draw *d, const float *logits, size_t n, ln_draw_report *out) {
    size_t id = best_of(logits, n);
    *out = (ln_draw_report){.best = logits[id]};
    for (size_t i = 0; i < n && out->best > -INFINITY; i++) {
        double x = logits[i] == out->best ? 0 : (double)logits[i] - (double)out->best;
        out->total += (uint64_t)(ln_round_fine(ln_exp_nonpositive(x)) * 0x1p40);
    }
    for (size_t i = 0; i + 1 < d->reports && id < n; i++) {
        out->top[i] = (int32_t)id;
        out->logits[i] = logits[id];
        id = next_best(logits, n, id);
    }
}

/* An id's logit before the row was edited. */
typedef struct plain_logit {
    int32_t id;
    float logit;
} plain_logit;

/* Those of all ids that the edits of a row may change; returns how many, at most LN_DRAW_WORDS + 1.
 */
static size_t keep_plain(const ln_draw *d, const ln_batch *batch, size_t row, const float *logits,
                         plain_logit *plain) {
    const int32_t *words = batch->edits + (size_t)d->edits_at * LN_DRAW_WORDS;
    size_t n = 0;
    for (size_t i = 0; i < d->n_biases; i++)
        plain[n++].id = words[2 * i];
    for (size_t i = 0; i < d->n_said; i++)
        plain[n++].id = words[2 * d->n_biases + i];
    if (d->penalizes)
        plain[n++].id = batch->tokens[batch->logit_rows[row]];
    for (size_t i = 0; i < n; i++)
        plain[i].logit = logits[plain[i].id];
    return n;
}

void ln_scalar_sample(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_sample *p = &op->sample;
    const ln_draw *draws = op->batch->draws;
    candidate chosen[LN_DRAW_MOST];
    for (size_t row = worker->index; row < p->n_rows; row += worker->count) {
        float *logits = p->logits + row * p->n_vocab;
        plain_logit plain[LN_DRAW_WORDS + 1];
        size_t n_plain = 0;
        bool reports = draws != NULL && draws[row].reports > 0 && p->reports != NULL;
        if (reports)
            report(&draws[row], logits, p->n_vocab, &p->reports[row]);
        if (draws != NULL && (draws[row].n_biases > 0 || draws[row].penalizes)) {
            n_plain = keep_plain(&draws[row], op->batch, row, logits, plain);
            edit(&draws[row], op->batch, row, logits);
        }
        size_t id = best_of(logits, p->n_vocab);
        p->best[row] = logits[id];
        if (draws != NULL && draws[row].temperature > 0 && logits[id] > -INFINITY)
            id = invert(chosen, choose(&draws[row], logits, p->n_vocab, chosen),
                        (double)draws[row].uniform);
        p->ids[row] = (int32_t)id;
        if (!reports)
            continue;
        p->reports[row].chosen = logits[id];
        for (size_t i = 0; i < n_plain; i++)
            if (plain[i].id == (int32_t)id)
                p->reports[row].chosen = plain[i].logit;
    }
}
