#include <math.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "ops/recurrence.h"

static float *noise_around(size_t n, float middle, float reach) {
    float *x = noise_rows(n);
    for (size_t i = 0; i < n; i++)
        x[i] = middle + reach * x[i];
    return x;
}

recurrent_data make_recurrent_data(const recurrent_case *c) {
    size_t n_rows = N_ROWS + N_DRAFTS;
    recurrent_data d = {.width = 2 * c->n_k_heads * c->k_dim + c->n_heads * c->v_dim + 3};
    d.n_decays = has_channels(c) ? c->n_heads * c->k_dim : is_selective(c) ? c->v_dim : c->n_heads;
    d.n_rates = is_selective(c) ? c->k_dim * c->v_dim : c->n_heads;
    d.n_skips = is_selective(c) ? c->v_dim : c->n_heads;
    d.x = noise_rows(n_rows * c->conv_dim);
    d.qkv = noise_rows(n_rows * d.width);
    d.a = noise_around(n_rows * d.n_decays, 0.0f, 3.0f);
    d.b = noise_around(n_rows * c->n_heads, 0.0f, 3.0f);
    d.rate = noise_around(d.n_rates, c->rate, 0.5f * c->rate);
    d.a_bias = noise_rows(d.n_decays);
    d.skip = noise_rows(d.n_skips);
    d.taps = noise_rows(c->n_taps * c->conv_dim);
    d.bias = noise_rows(c->conv_dim);
    d.dynamic = noise_rows(n_rows * c->n_groups * c->n_taps);
    return d;
}

void free_recurrent_data(recurrent_data *d) {
    free(d->x), free(d->qkv), free(d->a), free(d->b), free(d->rate);
    free(d->a_bias), free(d->skip), free(d->taps), free(d->bias), free(d->dynamic);
}

/* One head of the recurrence, in one precision: a result of +, -, *, / or sqrt of two float32 that
 * is computed in double and then rounded is that of float32. */
typedef struct head_state {
    const recurrent_case *c;
    const recurrent_data *d;
    bool is_single;
    size_t head, k_head;
    /* [k_dim][v_dim], [n][k_dim], [n][k_dim], [v_dim]; n 1, or of a selective scan n_k_heads */
    double *s, *q, *k, *u;
} head_state;

static double keep(const head_state *h, double x) {
    return h->is_single ? (double)(float)x : x;
}

static double add(const head_state *h, double sum, double a, double b) {
    return keep(h, sum + keep(h, a * b));
}

static void read_head(const head_state *h, const float *x, double *out) {
    size_t n = h->c->k_dim;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares = add(h, squares, (double)x[i], (double)x[i]);
    double length = keep(h, sqrt(keep(h, squares + keep(h, 1e-6))));
    for (size_t i = 0; i < n; i++)
        out[i] = h->c->is_unit ? keep(h, (double)x[i] / length) : (double)x[i];
}

/* Queries and keys: of the head, or of all heads of a selective scan's columns. */
static void read_keys(const head_state *h, const float *q) {
    const recurrent_case *c = h->c;
    size_t first = is_selective(c) ? 0 : h->k_head, n = is_selective(c) ? c->n_k_heads : 1;
    const float *k = q + c->n_k_heads * c->k_dim;
    for (size_t i = 0; i < n; i++) {
        read_head(h, q + (first + i) * c->k_dim, h->q + i * c->k_dim);
        read_head(h, k + (first + i) * c->k_dim, h->k + i * c->k_dim);
    }
    if (c->decay == LN_DECAY_LRU)
        h->q[0] = h->k[0] = 1;
}

/* Column j's, of those. */
static const double *key_of(const head_state *h, const double *keys, size_t j) {
    const recurrent_case *c = h->c;
    return keys + (is_selective(c) ? j / (c->v_dim / c->n_k_heads) * c->k_dim : 0);
}

static double step_of(const head_state *h, size_t row, size_t decay) {
    const recurrent_data *d = h->d;
    double a = keep(h, (double)d->a[row * d->n_decays + decay] + (double)d->a_bias[decay]);
    if (h->c->decay == LN_DECAY_LRU)
        return keep(h, 1 / keep(h, 1 + keep(h, exp(-a))));
    double dt = keep(h, log1p(keep(h, exp(a))));
    return fmin(fmax(dt, (double)0.05f), 2.5); /* as run_step says */
}

static double log_decay(const head_state *h, size_t row, size_t decay) {
    const recurrent_data *d = h->d;
    double rate = (double)d->rate[h->head];
    if (h->c->decay == LN_DECAY_FIXED)
        return rate;
    if (h->c->decay != LN_DECAY_BOUNDED)
        return rate * step_of(h, row, decay);
    double a = keep(h, (double)d->a[row * d->n_decays + decay] + (double)d->a_bias[decay]);
    return (double)RECURRENT_BOUND / keep(h, 1 + keep(h, exp(-keep(h, rate * a))));
}

static void decay_state(const head_state *h, size_t row) {
    const recurrent_case *c = h->c;
    for (size_t i = 0; i < c->k_dim * c->v_dim && is_selective(c); i++) {
        double kept = exp(-keep(h, (double)h->d->rate[i] * step_of(h, row, i % c->v_dim)));
        h->s[i] = keep(h, h->s[i] * keep(h, kept));
    }
    for (size_t i = 0; i < c->k_dim && !is_selective(c); i++) {
        size_t decay = has_channels(c) ? h->head * c->k_dim + i : h->head;
        double kept = keep(h, exp(-keep(h, log_decay(h, row, decay))));
        for (size_t j = 0; j < c->v_dim; j++)
            h->s[i * c->v_dim + j] = keep(h, h->s[i * c->v_dim + j] * kept);
    }
}

/* What an update of column j is multiplied with, before a delta rule's. */
static double weight_of(const head_state *h, size_t row, size_t j) {
    if (!is_selective(h->c))
        return h->c->scales_v ? step_of(h, row, h->head) : 1.0;
    double dt = step_of(h, row, j);
    if (h->c->decay != LN_DECAY_LRU)
        return dt;
    bool is_first = row == 0 || row == FIRST;
    return is_first ? 1.0 : keep(h, sqrt(-expm1(-2 * keep(h, (double)h->d->rate[j] * dt))));
}

/* (x S)[j] */
static double product(const head_state *h, const double *x, size_t j) {
    double sum = 0;
    for (size_t i = 0; i < h->c->k_dim; i++)
        sum = add(h, sum, h->s[i * h->c->v_dim + j], x[i]);
    return sum;
}

static void step_head(const head_state *h, size_t row, double *out) {
    const recurrent_case *c = h->c;
    const recurrent_data *d = h->d;
    const float *q = d->qkv + row * d->width, *k = q + c->n_k_heads * c->k_dim;
    const float *v = k + c->n_k_heads * c->k_dim + h->head * c->v_dim;
    double beta =
        keep(h, (c->doubles_b ? 2 : 1) / (1 + exp(-(double)d->b[row * c->n_heads + h->head])));
    read_keys(h, q);
    decay_state(h, row);
    for (size_t j = 0; j < c->v_dim; j++) {
        double seen = c->is_delta ? product(h, h->k, j) : 0;
        double left = keep(h, (double)v[j] - seen);
        h->u[j] = keep(h, left * (c->is_delta ? beta : weight_of(h, row, j)));
    }
    for (size_t i = 0; i < c->k_dim; i++)
        for (size_t j = 0; j < c->v_dim; j++)
            h->s[i * c->v_dim + j] = add(h, h->s[i * c->v_dim + j], key_of(h, h->k, j)[i], h->u[j]);
    for (size_t j = 0; j < c->v_dim; j++) {
        double skipped =
            c->has_skip ? keep(h, (double)d->skip[is_selective(c) ? j : h->head] * (double)v[j])
                        : 0;
        out[j] = add(h, skipped, (double)c->q_scale, product(h, key_of(h, h->q, j), j));
    }
}

static double *zeros(size_t n) {
    double *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

void run_recurrence(const recurrent_case *c, const recurrent_data *d, bool is_single, double *out,
                    double *states) {
    size_t state_floats = c->k_dim * c->v_dim;
    size_t per_key = is_selective(c) ? 1 : c->n_heads / c->n_k_heads;
    head_state h = {.c = c, .d = d, .is_single = is_single};
    h.q = zeros(c->n_k_heads * c->k_dim), h.k = zeros(c->n_k_heads * c->k_dim),
    h.u = zeros(c->v_dim);
    for (size_t seq = 0; seq < N_SEQS; seq++)
        for (h.head = 0; h.head < c->n_heads; h.head++) {
            h.k_head = c->is_tiled ? h.head % c->n_k_heads : h.head / per_key;
            h.s = zeros(state_floats);
            for (size_t at = 0; at < (seq == 0 ? FIRST : SECOND); at++) {
                size_t row = seq * FIRST + at, chunk = seq * (FIRST / 64) + at / 64;
                step_head(&h, row, out + (row * c->n_heads + h.head) * c->v_dim);
                double *state = states + (chunk * c->n_heads + h.head) * state_floats;
                for (size_t i = 0; i < state_floats && at % 64 == 63; i++)
                    state[i] = h.s[i];
            }
            free(h.s);
        }
    free(h.q), free(h.k), free(h.u);
}

/* A channel's tap for a token. */
static double tap_of(const recurrent_case *c, const recurrent_data *d, size_t row, size_t tap,
                     size_t channel) {
    double weight = (double)d->taps[tap * c->conv_dim + channel];
    if (c->n_groups == 0)
        return weight;
    size_t group = channel / (c->conv_dim / c->n_groups);
    return weight +
           (double)d->dynamic[(row * c->n_groups + group) * c->n_taps + c->n_taps - 1 - tap];
}

void run_convolution(const recurrent_case *c, const recurrent_data *d, double *out) {
    for (size_t row = 0; row < N_ROWS; row++) {
        size_t first = row < FIRST ? 0 : FIRST; /* of the sequence */
        for (size_t i = 0; i < c->conv_dim; i++) {
            double sum = c->has_bias ? (double)d->bias[i] : 0;
            for (size_t j = 0; j < c->n_taps; j++)
                if (row + j + 1 >= first + c->n_taps)
                    sum += tap_of(c, d, row, j, i) *
                           (double)d->x[(row + j + 1 - c->n_taps) * c->conv_dim + i];
            out[row * c->conv_dim + i] = c->has_silu ? sum / (1 + exp(-sum)) : sum;
        }
    }
}
