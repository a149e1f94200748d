/* What a mixture's experts gave, summed. A worker takes a range of tokens; a sum runs over the
 * choices in order, a lane for each column. Bytes moved: each row read once, one written. */
#ifndef LN_BACKEND_CPU_SIMD_MOE_H
#define LN_BACKEND_CPU_SIMD_MOE_H

#include "backend/cpu/simd/norm.h"

enum { COMBINE_AHEAD = 128 }; /* floats of a choice's row that are fetched in front of its sums */

static void combine_token(const ln_op_combine *p, size_t token) {
    const float *x = p->x + token * p->n_used * p->dim;
    const float *weights = p->weights != NULL ? p->weights + token * p->n_used : NULL;
    float gate = p->shared_gate != NULL ? 1.0f / (1.0f + expf(-p->shared_gate[token])) : 1.0f;
    for (size_t i = 0; i < p->dim; i += LANES) {
        size_t left = p->dim - i, at = token * p->dim + i;
        vf sum = vf_set(0.0f);
        for (size_t choice = 0; choice < p->n_used; choice++)
            if (ln_combine_takes(p, token, choice)) {
                __builtin_prefetch(x + choice * p->dim + i + COMBINE_AHEAD);
                sum = vf_fma(vf_set(weights != NULL ? weights[choice] : 1.0f),
                             load_part(x + choice * p->dim + i, left), sum);
            }
        if (p->shared != NULL)
            sum = vf_fma(vf_set(gate), load_part(p->shared + at, left), sum);
        sum = vf_mul(sum, vf_set(p->scale));
        if (p->residual != NULL)
            sum = vf_add(load_part(p->residual + at, left), sum);
        store_part(p->out + at, sum, left);
    }
}

static void combine(const ln_op *op, const ln_cpu_worker *worker) {
    size_t begin, end;
    ln_cpu_share(worker, op->batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++)
        combine_token(&op->combine, token);
}

#endif
