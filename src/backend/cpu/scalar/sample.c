/* The choice of tokens from rows of logits. */
#include <math.h>

#include "backend/cpu/scalar/scalar.h"

static size_t best_of(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 0; i < n && !isnan(logits[best]); i++)
        if (logits[i] > logits[best] || isnan(logits[i]))
            best = i;
    return best;
}

void ln_scalar_sample(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_sample *p = &op->sample;
    for (size_t row = worker->index; row < p->n_rows; row += worker->count) {
        const float *logits = p->logits + row * p->n_vocab;
        size_t best = best_of(logits, p->n_vocab);
        p->ids[row] = (int32_t)best;
        p->best[row] = logits[best];
    }
}
