/* The choice of tokens from rows of logits: ln_draw as it is defined, plainly. */
#include <math.h>

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

void ln_scalar_sample(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_sample *p = &op->sample;
    const ln_draw *draws = op->batch->draws;
    candidate chosen[LN_DRAW_MOST];
    for (size_t row = worker->index; row < p->n_rows; row += worker->count) {
        const float *logits = p->logits + row * p->n_vocab;
        size_t id = best_of(logits, p->n_vocab);
        p->best[row] = logits[id];
        if (draws != NULL && draws[row].temperature > 0 && logits[id] > -INFINITY)
            id = invert(chosen, choose(&draws[row], logits, p->n_vocab, chosen),
                        (double)draws[row].uniform);
        p->ids[row] = (int32_t)id;
    }
}
