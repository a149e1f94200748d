/* The selective scans of Mamba 1 and of RG-LRU by vectors of columns. A token costs one exponential
 * for each element of the state. Bytes moved by decode: the state, or a running state of the tail,
 * once each way, and the rates once. Columns of a head of keys that are no whole vectors are
 * left to the scalar kernel.
 */
#ifndef LN_BACKEND_CPU_SIMD_SELECTIVE_H
#define LN_BACKEND_CPU_SIMD_SELECTIVE_H

#include "backend/cpu/scalar/scalar.h"
#include "backend/cpu/scalar/selective.h"
#include "backend/cpu/simd/math.h"

enum { SELECTIVE_VECTORS = 4 }; /* of columns at once */

static void selective_update(const ln_selective_columns *c, size_t row, const float *v, float *dt,
                             float *u) {
    const ln_op_scan *p = c->p;
    const float *a = p->a + row * c->s->v_dim + c->first;
    vf least = vf_set(p->dt_min), most = vf_set(p->dt_max);
    for (size_t j = 0; j < c->n; j += LANES) {
        vf x = vf_load(a + j);
        if (p->a_bias != NULL)
            x = vf_add(x, vf_load(p->a_bias + c->first + j));
        x = vf_min(most, vf_max(least, vf_softplus(x)));
        vf_store(dt + j, x);
        vf_store(u + j, vf_mul(x, vf_load(v + j)));
    }
}

/* Vectors of columns from j on. */
LN_INLINE void selective_tile(const ln_selective_columns *c, const size_t n_vectors,
                              const ln_selective_token *t, size_t j) {
    vf sums[SELECTIVE_VECTORS], steps[SELECTIVE_VECTORS], updates[SELECTIVE_VECTORS];
    const float *rate = c->p->rate + c->first + j;
    for (size_t v = 0; v < n_vectors; v++) {
        sums[v] = vf_set(0.0f);
        steps[v] = vf_sub(vf_set(0.0f), vf_load(t->dt + j + v * LANES));
        updates[v] = vf_load(t->u + j + v * LANES);
    }
    for (size_t i = 0; i < c->s->k_dim; i++) {
        vf key = vf_set(t->k[i]), query = vf_set(t->q != NULL ? t->q[i] : 0.0f);
        float *state = c->state + i * LN_SELECTIVE_COLUMNS + j;
        for (size_t v = 0; v < n_vectors; v++) {
            vf kept = vf_exp(vf_mul(vf_load(rate + i * c->s->v_dim + v * LANES), steps[v]));
            vf x = vf_fma(kept, vf_load(state + v * LANES), vf_mul(key, updates[v]));
            vf_store(state + v * LANES, x);
            sums[v] = vf_fma(query, x, sums[v]);
        }
    }
    for (size_t v = 0; v < n_vectors && t->q != NULL; v++) {
        size_t where = j + v * LANES;
        vf y = vf_mul(vf_set(c->p->q_scale), sums[v]);
        if (c->p->skip != NULL)
            y = vf_fma(vf_load(c->p->skip + c->first + where), vf_load(t->v + where), y);
        vf_store(t->out + where, y);
    }
}

static void selective_take(const ln_selective_columns *c, const ln_selective_token *t) {
    size_t j = 0;
    for (; j + SELECTIVE_VECTORS * LANES <= c->n; j += SELECTIVE_VECTORS * LANES)
        selective_tile(c, SELECTIVE_VECTORS, t, j);
    for (; j < c->n; j += LANES)
        selective_tile(c, 1, t, j);
}

static void selective(const ln_op *op, const ln_cpu_worker *worker) {
    static const ln_selective_kernel kernel = {.update = selective_update, .take = selective_take};
    static const ln_selective_kernel lru = {.update = ln_lru_update, .take = selective_take};
    if (ln_selective_width(&op->scan.cache->shape) % LANES == 0)
        ln_selective_scan(op, worker, op->scan.decay == LN_DECAY_LRU ? &lru : &kernel);
    else
        ln_scalar_selective(op, worker);
}

#endif
