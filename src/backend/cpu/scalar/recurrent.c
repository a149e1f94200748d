/* Recurrent layers: the convolution, a worker for a range of channels of all sequences; the scan,
 * an item for a head of a sequence; and the norm behind it, a worker for a range of rows. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"
#include "backend/cpu/scalar/scan_decay.h"
#include "backend/cpu/scalar/state_view.h"

/* ---- convolution --------------------------------------------------------------------------- */

/* What a channel's group adds to a tap. */
static float own_tap(const ln_op_conv *p, const float *own, size_t channel) {
    if (own == NULL)
        return 0.0f;
    return own[channel / (ln_conv_channels(p) / p->n_groups) * p->cache->shape.n_taps];
}

static void convolve(const ln_op_conv *p, const ln_state_view *view, size_t first, size_t end) {
    const ln_state_shape *s = view->shape;
    size_t dim = ln_conv_channels(p);
    for (size_t at = view->begin; at < view->end; at++) {
        float *out = p->out + (view->row + at - view->begin) * dim;
        for (size_t i = first; i < end; i++)
            out[i] = p->bias != NULL ? p->bias[i] : 0.0f;
        for (size_t j = 0; j < s->n_taps; j++) {
            const float *x =
                ln_state_conv_input(p, view, (int64_t)(at + j + 1) - (int64_t)s->n_taps);
            const float *weight = p->weight + j * dim, *own = NULL;
            if (p->dynamic != NULL)
                own = p->dynamic + (view->row + at - view->begin) * p->n_groups * s->n_taps +
                      s->n_taps - 1 - j;
            for (size_t i = first; i < end && x != NULL; i++)
                out[i] += (weight[i] + own_tap(p, own, i)) * x[i];
        }
        for (size_t i = first; i < end && p->silu; i++)
            out[i] /= 1.0f + expf(-out[i]);
    }
}

void ln_scalar_conv(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_conv *p = &op->conv;
    size_t first, end;
    ln_cpu_share(worker, ln_conv_channels(p), &first, &end);
    for (size_t seq = 0; seq < op->batch->n_seqs; seq++) {
        ln_state_view view = ln_state_view_of(op, p->cache, seq);
        convolve(p, &view, first, end);
        ln_state_keep_inputs(p, &view, first, end);
    }
}

/* ---- scan ---------------------------------------------------------------------------------- */

/* A head of a sequence at work on a chunk, which begins at position `chunk`. */
typedef struct head_scan {
    const ln_op_scan *p;
    const ln_state_view *view;
    const ln_state_shape *s;
    size_t head, k_head, chunk;
    const float *state; /* [k_dim][v_dim] at the chunk's beginning; NULL: zero */
    float *keys;        /* [LN_STATE_CHUNK][k_dim] of the chunk */
    float *q, *from_k;  /* [k_dim], [v_dim] */
    double *c;          /* [LN_STATE_CHUNK][n_channels]: sums of the chunk's decays */
    size_t n_channels;  /* 1, or k_dim */
} head_scan;

static float *update_row(const head_scan *h, size_t position) {
    const ln_state_shape *s = h->s;
    return h->view->tail + ln_tail_updates(s) + ln_tail_row(s, h->head, position, s->v_dim);
}

static float *key_row(const head_scan *h, size_t position) {
    const ln_state_shape *s = h->s;
    return h->view->tail + ln_tail_keys(s) + ln_tail_row(s, h->k_head, position, s->k_dim);
}

static double *decay_row(const head_scan *h, size_t position) {
    double *c = (double *)(void *)h->view->tail;
    return c + ln_tail_row(h->s, h->head, position, h->n_channels);
}

/* A row of a head, divided by its length when that is asked for. */
static void load_head(const head_scan *h, const float *x, float *out) {
    size_t n = h->s->k_dim;
    float scale = h->p->unit_qk ? 1.0f / sqrtf(ln_scalar_dot(x, x, n) + 1e-6f) : 1.0f;
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale;
}

/* The sums of decays with this token's, in the chunk's and in the tail. */
static void add_decay(head_scan *h, size_t row, size_t position) {
    size_t at = position - h->chunk;
    for (size_t i = 0; i < h->n_channels; i++) {
        float g =
            ln_scan_log_decay(h->p, row, h->s->n_decays, h->head, h->head * h->n_channels + i);
        double before = at > 0 ? h->c[(at - 1) * h->n_channels + i] : 0.0;
        h->c[at * h->n_channels + i] = before + (double)g;
    }
    memcpy(decay_row(h, position), h->c + at * h->n_channels, h->n_channels * sizeof *h->c);
}

/* out = e^{c_t} S0 x + sum over s < n of e^{c_t - c_s} (k_s . x) u_s, t being the chunk's token
 * number `at` */
static void apply_memory(const head_scan *h, const float *x, size_t at, size_t n, float *out) {
    size_t k_dim = h->s->k_dim, v_dim = h->s->v_dim, nc = h->n_channels;
    const double *c = h->c + at * nc;
    memset(out, 0, v_dim * sizeof *out);
    for (size_t i = 0; i < k_dim && h->state != NULL; i++) {
        float weight = x[i] * expf((float)c[i % nc]);
        for (size_t j = 0; j < v_dim; j++)
            out[j] += weight * h->state[i * v_dim + j];
    }
    for (size_t s = 0; s < n; s++) {
        const float *key = h->keys + s * k_dim, *u = update_row(h, h->chunk + s);
        const double *before = h->c + s * nc;
        float weight = 0.0f;
        if (nc == 1)
            weight = ln_scalar_dot(key, x, k_dim) * expf((float)(c[0] - before[0]));
        for (size_t i = 0; i < k_dim && nc > 1; i++)
            weight += key[i] * x[i] * expf((float)(c[i] - before[i]));
        for (size_t j = 0; j < v_dim; j++)
            out[j] += weight * u[j];
    }
}

static void scan_token(head_scan *h, size_t position) {
    const ln_op_scan *p = h->p;
    const ln_state_shape *s = h->s;
    size_t row = h->view->row + position - h->view->begin, at = position - h->chunk;
    const float *v = p->v + row * p->v_stride + h->head * s->v_dim;
    float *key = h->keys + at * s->k_dim, *u = update_row(h, position);
    float *out = p->out + (row * s->n_heads + h->head) * s->v_dim;
    load_head(h, p->k + row * p->k_stride + h->k_head * s->k_dim, key);
    load_head(h, p->q + row * p->q_stride + h->k_head * s->k_dim, h->q);
    add_decay(h, row, position);
    float scale = 1.0f;
    if (p->b != NULL) {
        apply_memory(h, key, at, at, h->from_k);
        scale = (p->doubles_b ? 2.0f : 1.0f) / (1.0f + expf(-p->b[row * s->n_heads + h->head]));
    } else if (p->scales_v) {
        scale = ln_scan_step_size(p, row, s->n_decays, h->head);
    }
    for (size_t j = 0; j < s->v_dim; j++)
        u[j] = scale * (p->b != NULL ? v[j] - h->from_k[j] : v[j]);
    apply_memory(h, h->q, at, at + 1, out);
    float skip = p->skip != NULL ? p->skip[h->head] : 0.0f;
    for (size_t j = 0; j < s->v_dim; j++)
        out[j] = p->q_scale * out[j] + skip * v[j];
}

/* The state behind the chunk; `state` may be the one at its beginning. */
static void end_chunk(const head_scan *h, float *state) {
    size_t k_dim = h->s->k_dim, v_dim = h->s->v_dim, nc = h->n_channels;
    const double *last = h->c + (LN_STATE_CHUNK - 1) * nc;
    for (size_t i = 0; i < k_dim; i++) {
        float *row = state + i * v_dim, kept = expf((float)last[i % nc]);
        for (size_t j = 0; j < v_dim; j++)
            row[j] = h->state != NULL ? kept * h->state[i * v_dim + j] : 0.0f;
        for (size_t s = 0; s < LN_STATE_CHUNK; s++) {
            const float *u = update_row(h, h->chunk + s);
            float weight = h->keys[s * k_dim + i];
            weight *= expf((float)(last[i % nc] - h->c[s * nc + i % nc]));
            for (size_t j = 0; j < v_dim; j++)
                row[j] += weight * u[j];
        }
    }
}

/* What earlier steps left of the chunk. */
static void load_chunk(head_scan *h, size_t end) {
    for (size_t position = h->chunk; position < end; position++) {
        size_t at = position - h->chunk;
        memcpy(h->keys + at * h->s->k_dim, key_row(h, position), h->s->k_dim * sizeof *h->keys);
        memcpy(h->c + at * h->n_channels, decay_row(h, position), h->n_channels * sizeof *h->c);
    }
}

static void scan_head(head_scan *h) {
    const ln_state_view *view = h->view;
    size_t matrix = h->head * h->s->k_dim * h->s->v_dim;
    h->chunk = view->begin - view->begin % LN_STATE_CHUNK;
    h->state =
        h->chunk > 0 && view->begin < view->end ? ln_state_at(view, h->chunk) + matrix : NULL;
    load_chunk(h, view->begin);
    for (size_t position = view->begin; position < view->end; position++) {
        scan_token(h, position);
        if ((position + 1) % LN_STATE_CHUNK > 0)
            continue;
        float *state = ln_state_target(view, position + 1) + matrix;
        end_chunk(h, state);
        h->chunk = position + 1;
        h->state = state;
    }
}

/* Keys of the step's tokens that a later step may need: those of the chunk of the first token that
 * is not sure to be a draft. */
static void keep_keys(const head_scan *h) {
    const ln_state_view *view = h->view;
    const ln_op_scan *p = h->p;
    size_t n_drafts = h->s->n_rows - LN_STATE_CHUNK, position = view->begin;
    if (view->end > position + n_drafts)
        position = view->end - n_drafts;
    position -= position % LN_STATE_CHUNK;
    for (position = position > view->begin ? position : view->begin; position < view->end;
         position++) {
        size_t row = view->row + position - view->begin;
        load_head(h, p->k + row * p->k_stride + h->k_head * h->s->k_dim, key_row(h, position));
    }
}

size_t ln_state_scratch(size_t dim) {
    return dim > 0 ? LN_STATE_CHUNK * dim + 2 * dim + 2 * LN_STATE_CHUNK * dim : 0;
}

void ln_scalar_scan(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_scan *p = &op->scan;
    const ln_state_shape *s = &p->cache->shape;
    size_t per_key = s->n_heads / s->n_k_heads, item;
    if (s->selective) {
        ln_scalar_selective(op, worker);
        return;
    }
    head_scan h = {.p = p, .s = s, .n_channels = s->n_decays / s->n_heads};
    h.c = (double *)(void *)worker->scratch;
    h.keys = worker->scratch + 2 * LN_STATE_CHUNK * h.n_channels;
    h.q = h.keys + LN_STATE_CHUNK * s->k_dim;
    h.from_k = h.q + s->k_dim;
    while (ln_cpu_take(worker, op->batch->n_seqs * s->n_heads, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item / s->n_heads);
        h.view = &view;
        h.head = item % s->n_heads;
        h.k_head = p->tiled ? h.head % s->n_k_heads : h.head / per_key;
        scan_head(&h);
    }
    ln_cpu_barrier(worker); /* heads share the tail's keys, which may lie over each other */
    while (ln_cpu_take(worker, op->batch->n_seqs * s->n_k_heads, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item / s->n_k_heads);
        h.view = &view;
        h.k_head = item % s->n_k_heads;
        keep_keys(&h);
    }
}

/* ---- gated norm ---------------------------------------------------------------------------- */

static float gate_of(const ln_op_gated_norm *p, float x) {
    float sigmoid = 1.0f / (1.0f + expf(-x));
    return p->sigmoid ? sigmoid : x * sigmoid;
}

void ln_scalar_gated_norm(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_gated_norm *p = &op->gated_norm;
    size_t n = p->dim / p->n_groups, begin, end;
    ln_cpu_share(worker, p->n_rows * p->n_groups, &begin, &end);
    for (size_t item = begin; item < end; item++) {
        const float *x = p->x + item * n, *gate = p->gate + item * n;
        float *out = p->out + item * n;
        ln_norm norm = *p->norm;
        if (norm.weight != NULL && norm.dim == p->dim)
            norm.weight += item % p->n_groups * n;
        norm.dim = n;
        for (size_t i = 0; i < n; i++)
            out[i] = p->gate_first ? x[i] * gate_of(p, gate[i]) : x[i];
        ln_scalar_norm_row(&norm, out, out);
        for (size_t i = 0; i < n && !p->gate_first; i++)
            out[i] *= gate_of(p, gate[i]);
    }
}
