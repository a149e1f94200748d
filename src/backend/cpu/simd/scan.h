/* The scan of recurrent layers. An item is a head of a sequence; a chunk's tokens go in blocks of
 * SCAN_TOKENS, each through three products:
 *
 *   x S0              for x = q_t, and k_t with the delta rule; S0 is read once a block
 *   k_s . x           of the chunk's keys so far
 *   sums over s       of updates u_s: those before the block for all its tokens at once, then
 *                     token by token, since u_t takes part in what follows
 *
 * Each sum has one order, that of i in x S0 and of s in the sums over s, however many tokens a
 * block has. Bytes moved by decode: S0 once, the chunk's keys, updates and decays so far. Heads
 * whose sizes are no whole vectors are left to the scalar kernel. */
#ifndef LN_BACKEND_CPU_SIMD_SCAN_H
#define LN_BACKEND_CPU_SIMD_SCAN_H

#include <string.h>

#include "backend/cpu/scalar/scalar.h"
#include "backend/cpu/scalar/scan_decay.h"
#include "backend/cpu/scalar/state_view.h"
#include "backend/cpu/simd/math.h"
#include "backend/cpu/simd/rows.h"
#include "backend/cpu/simd/selective.h"

enum { SCAN_TOKENS = 16, SCAN_STREAMED = 8, SCAN_AHEAD = 2, SCAN_FETCHED = 4 };

/* A head of a sequence at work on a chunk, which begins at position `chunk`. */
typedef struct scan_head {
    const ln_op_scan *p;
    const ln_state_view *view;
    const ln_state_shape *s;
    size_t head, k_head, chunk;
    size_t n_channels;             /* decays of a head: 1, or k_dim */
    const float *state;            /* [k_dim][v_dim] at the chunk's beginning; NULL: zero */
    double *c;                     /* [LN_STATE_CHUNK][n_channels] sums of the chunk's decays */
    float *high, *low;             /* the same, high + low, by channel */
    float *own_keys, *own_updates; /* [LN_STATE_CHUNK] rows of the step's tokens */
    const float *keys[LN_STATE_CHUNK], *updates[LN_STATE_CHUNK]; /* these, or the tail's */
    float *queries;                                              /* [SCAN_TOKENS][k_dim] */
    float *scaled; /* rows of k_dim, multiplied by their decays */
    float *seen;   /* [2 SCAN_TOKENS][v_dim] x S0, and what updates before the block add to it */
    float *key_weights, *query_weights; /* [SCAN_TOKENS][LN_STATE_CHUNK] of the updates */
} scan_head;

static size_t scan_scratch(size_t dim) {
    dim = (dim + LANES - 1) / LANES * LANES;
    return dim == 0 ? 0
                    : (7 * (size_t)LN_STATE_CHUNK + 3 * SCAN_TOKENS) * dim +
                          2 * (size_t)SCAN_TOKENS * LN_STATE_CHUNK;
}

static void place_scan(scan_head *h, float *scratch) {
    size_t k_dim = h->s->k_dim, v_dim = h->s->v_dim, n = LN_STATE_CHUNK;
    h->c = (double *)(void *)scratch;
    h->high = scratch + 2 * n * h->n_channels;
    h->low = h->high + n * h->n_channels;
    h->own_keys = h->low + n * h->n_channels;
    h->own_updates = h->own_keys + n * k_dim;
    h->queries = h->own_updates + n * v_dim;
    h->scaled = h->queries + SCAN_TOKENS * k_dim;
    h->seen = h->scaled + n * k_dim;
    h->key_weights = h->seen + 2 * SCAN_TOKENS * v_dim;
    h->query_weights = h->key_weights + SCAN_TOKENS * n;
}

/* ---- the tail ------------------------------------------------------------------------------- */

static float *tail_update(const scan_head *h, size_t position) {
    const ln_state_shape *s = h->s;
    return h->view->tail + ln_tail_updates(s) + ln_tail_row(s, h->head, position, s->v_dim);
}

static float *tail_key(const scan_head *h, size_t position) {
    const ln_state_shape *s = h->s;
    return h->view->tail + ln_tail_keys(s) + ln_tail_row(s, h->k_head, position, s->k_dim);
}

static double *tail_decay(const scan_head *h, size_t position) {
    double *c = (double *)(void *)h->view->tail;
    return c + ln_tail_row(h->s, h->head, position, h->n_channels);
}

static void split_decays(const scan_head *h, size_t at) {
    size_t n = h->n_channels;
    for (size_t i = at * n; i < (at + 1) * n; i++) {
        h->high[i] = (float)h->c[i];
        h->low[i] = (float)(h->c[i] - (double)h->high[i]);
    }
}

/* What earlier steps left of the chunk. */
static void load_tail(scan_head *h, size_t end) {
    for (size_t at = 0; h->chunk + at < end; at++) {
        size_t position = h->chunk + at;
        h->keys[at] = tail_key(h, position);
        h->updates[at] = tail_update(h, position);
        memcpy(h->c + at * h->n_channels, tail_decay(h, position), h->n_channels * sizeof *h->c);
        split_decays(h, at);
    }
}

/* ---- a token's key, query and decays -------------------------------------------------------- */

LN_INLINE float scan_dot(const float *x, const float *y, size_t n) {
    vf sum = vf_set(0.0f);
    for (size_t i = 0; i < n; i += LANES)
        sum = vf_fma(vf_load(x + i), vf_load(y + i), sum);
    return vf_sum(sum);
}

static void load_head_row(const scan_head *h, const float *x, float *out) {
    size_t n = h->s->k_dim;
    float scale = h->p->unit_qk ? 1.0f / sqrtf(scan_dot(x, x, n) + 1e-6f) : 1.0f;
    for (size_t i = 0; i < n; i += LANES)
        vf_store(out + i, vf_mul(vf_load(x + i), vf_set(scale)));
}

/* The decays of a head's channels: n_channels floats. */
static void channel_decays(const scan_head *h, size_t row, float *g) {
    const ln_op_scan *p = h->p;
    size_t first = h->head * h->n_channels;
    const float *a = p->a + row * h->s->n_decays + first;
    vf least = vf_set(p->dt_min), most = vf_set(p->dt_max), rate = vf_set(-p->rate[h->head]);
    vf one = vf_set(1.0f), bound = vf_set(-p->bound);
    bool is_bounded = p->decay == LN_DECAY_BOUNDED;
    for (size_t i = 0; i < h->n_channels; i += LANES) {
        vf x = vf_load(a + i);
        if (p->a_bias != NULL)
            x = vf_add(x, vf_load(p->a_bias + first + i));
        if (is_bounded)
            vf_store(g + i, vf_div(bound, vf_add(one, vf_exp(vf_mul(rate, x)))));
        else
            vf_store(g + i, vf_mul(rate, vf_min(most, vf_max(least, vf_softplus(x)))));
    }
}

/* The sums of decays with this token's, in the chunk's and in the tail. */
static void add_decays(scan_head *h, size_t row, size_t position) {
    size_t at = position - h->chunk, n = h->n_channels;
    double *c = h->c + at * n, *tail = tail_decay(h, position);
    float *g = h->scaled; /* not in use yet */
    if (n > 1)
        channel_decays(h, row, g);
    else
        g[0] = ln_scan_log_decay(h->p, row, h->s->n_decays, h->head, h->head);
    for (size_t i = 0; i < n; i++)
        c[i] = (at > 0 ? c[(ptrdiff_t)i - (ptrdiff_t)n] : 0.0) + (double)g[i];
    memcpy(tail, c, n * sizeof *c);
    split_decays(h, at);
}

/* ---- x S0 ----------------------------------------------------------------------------------- */

/* out[r] = x[r] M, M [n][width], of one or two rows x: M is read once, SCAN_STREAMED rows at a
 * time, while those after the next are fetched. */
LN_INLINE void product_stream(const size_t n_rows, const float *const *x, const float *m, size_t n,
                              size_t width, float *out) {
    memset(out, 0, n_rows * width * sizeof *out);
    for (size_t i = 0; i < n; i += SCAN_STREAMED)
        for (size_t j = 0; j < width; j += LANES) {
            vf sums[2];
            for (size_t r = 0; r < n_rows; r++)
                sums[r] = vf_load(out + r * width + j);
            for (size_t k = i; k < i + SCAN_STREAMED; k++) {
                const float *at = m + k * width + j;
                vf row = vf_load(at);
                __builtin_prefetch(at + SCAN_AHEAD * SCAN_STREAMED * width);
                for (size_t r = 0; r < n_rows; r++)
                    sums[r] = vf_fma(vf_set(x[r][k]), row, sums[r]);
            }
            for (size_t r = 0; r < n_rows; r++)
                vf_store(out + r * width + j, sums[r]);
        }
}

/* Rows of a matrix, `stride` floats apart, or each on its own. */
typedef struct scan_rows {
    const float *first;
    size_t stride;
    const float *const *each; /* NULL: as above */
} scan_rows;

/* The same of a tile of rows x by vectors of M's columns, from `column` on; `adds`: to out. */
LN_INLINE void product_tile(const size_t n_rows, const size_t n_vectors, const float *const *x,
                            scan_rows m, size_t n, size_t column, bool adds, size_t width,
                            float *out) {
    vf sums[QUERIES_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t r = 0; r < n_rows; r++)
        for (size_t v = 0; v < n_vectors; v++)
            sums[r][v] = adds ? vf_load(out + r * width + column + v * LANES) : vf_set(0.0f);
    for (size_t k = 0; k < n; k++) {
        const float *from = (m.each != NULL ? m.each[k] : m.first + k * m.stride) + column;
        vf row[VECTORS_AT_ONCE];
        for (size_t v = 0; v < n_vectors; v++)
            row[v] = vf_load(from + v * LANES);
        for (size_t r = 0; r < n_rows; r++)
            for (size_t v = 0; v < n_vectors; v++)
                sums[r][v] = vf_fma(vf_set(x[r][k]), row[v], sums[r][v]);
    }
    for (size_t r = 0; r < n_rows; r++)
        for (size_t v = 0; v < n_vectors; v++)
            vf_store(out + r * width + column + v * LANES, sums[r][v]);
}

LN_INLINE void product_tiles(const size_t n_rows, const float *const *x, scan_rows m, size_t n,
                             bool adds, size_t width, float *out) {
    size_t j = 0;
    for (; j + VECTORS_AT_ONCE * LANES <= width; j += VECTORS_AT_ONCE * LANES)
        product_tile(n_rows, VECTORS_AT_ONCE, x, m, n, j, adds, width, out);
    for (; j < width; j += LANES)
        product_tile(n_rows, 1, x, m, n, j, adds, width, out);
}

static void multiply_state(const float *const *x, size_t n_rows, const float *m, size_t n,
                           size_t width, float *out) {
    size_t r = 0;
    for (; r + QUERIES_AT_ONCE <= n_rows && n_rows > 2; r += QUERIES_AT_ONCE)
        product_tiles(QUERIES_AT_ONCE, x + r, (scan_rows){m, width, NULL}, n, false, width,
                      out + r * width);
    for (; r + 2 <= n_rows; r += 2)
        product_stream(2, x + r, m, n, width, out + r * width);
    if (r < n_rows)
        product_stream(1, x + r, m, n, width, out + r * width);
}

/* x times e^c of the chunk's token number `at`, by channel. */
static const float *scale_row(const scan_head *h, const float *x, size_t at, float *out) {
    for (size_t i = 0; i < h->s->k_dim; i += LANES) {
        vf kept = vf_exp(vf_load(h->high + at * h->n_channels + i));
        vf_store(out + i, vf_mul(vf_load(x + i), kept));
    }
    return out;
}

/* seen [n][1 or 2][v_dim] = e^c (q S0), and of k with the delta rule, of n tokens from `at` on */
static void see_state(const scan_head *h, size_t at, size_t n) {
    size_t per_token = h->p->b != NULL ? 2 : 1, k_dim = h->s->k_dim, v_dim = h->s->v_dim;
    const float *x[2 * SCAN_TOKENS] = {NULL};
    if (h->state == NULL) {
        memset(h->seen, 0, n * per_token * v_dim * sizeof *h->seen);
        return;
    }
    for (size_t r = 0; r < n * per_token; r++) {
        size_t t = r / per_token;
        x[r] = r % per_token == 0 ? h->queries + t * k_dim : h->keys[at + t];
        if (h->n_channels > 1)
            x[r] = scale_row(h, x[r], at + t, h->scaled + r * k_dim);
    }
    multiply_state(x, n * per_token, h->state, k_dim, v_dim, h->seen);
    for (size_t r = 0; r < n * per_token && h->n_channels == 1; r++) {
        vf kept = vf_exp(vf_set(h->high[at + r / per_token]));
        for (size_t j = r * v_dim; j < (r + 1) * v_dim; j += LANES)
            vf_store(h->seen + j, vf_mul(vf_load(h->seen + j), kept));
    }
}

/* ---- updates -------------------------------------------------------------------------------- */

/* e^{c_t - c_s} of a vector of channels */
LN_INLINE vf decay_between(const scan_head *h, size_t t, size_t s, size_t i) {
    size_t n = h->n_channels;
    vf high = vf_sub(vf_load(h->high + t * n + i), vf_load(h->high + s * n + i));
    vf low = vf_sub(vf_load(h->low + t * n + i), vf_load(h->low + s * n + i));
    return vf_exp(vf_add(high, low));
}

/* The products of n tokens' rows x, from the chunk's token number `at` on, with all keys up to
 * theirs: weights [n][LN_STATE_CHUNK]. */
static void multiply_keys(const scan_head *h, const float *const *x, size_t at, size_t n,
                          float *weights) {
    for (size_t t = 0, n_x; t < n; t += n_x) {
        n_x = n - t < TILE_DOT ? 1 : TILE_DOT;
        for (size_t s = 0; s < at + t + n_x; s += TILE_DOT) {
            const float *keys[TILE_DOT];
            for (size_t j = 0; j < TILE_DOT; j++)
                keys[j] = h->keys[s + j < at + t + n_x ? s + j : s];
            float *out = weights + t * LN_STATE_CHUNK + s;
            if (n_x == TILE_DOT)
                rows_tile(TILE_DOT, x + t, keys, h->s->k_dim, out, LN_STATE_CHUNK);
            else
                rows_tile(1, x + t, keys, h->s->k_dim, out, LN_STATE_CHUNK);
        }
    }
}

/* Weights of the chunk's token number `at`, times e^{c_t - c_s}. */
static void decay_weights(const scan_head *h, size_t at, float *weights) {
    float between[LN_STATE_CHUNK] = {0};
    for (size_t s = 0; s <= at; s++)
        between[s] = (float)(h->c[at] - h->c[s]);
    for (size_t s = 0; s <= at; s += LANES)
        vf_store(weights + s, vf_mul(vf_load(weights + s), vf_exp(vf_load(between + s))));
}

/* The weights of updates s <= at for token number t of a block, the chunk's number `at`, with
 * decays by channel, which are within the products. */
static void weigh_by_channel(const scan_head *h, size_t t, size_t at) {
    size_t k_dim = h->s->k_dim;
    const float *k = h->keys[at], *q = h->queries + t * k_dim;
    bool is_delta = h->p->b != NULL;
    for (size_t s = 0; s <= at; s++) {
        vf of_k = vf_set(0.0f), of_q = of_k;
        for (size_t i = 0; i < k_dim; i += LANES) {
            vf key = vf_mul(vf_load(h->keys[s] + i), decay_between(h, at, s, i));
            of_k = is_delta ? vf_fma(key, vf_load(k + i), of_k) : of_k;
            of_q = vf_fma(key, vf_load(q + i), of_q);
        }
        h->key_weights[t * LN_STATE_CHUNK + s] = is_delta ? vf_sum(of_k) : 0.0f;
        h->query_weights[t * LN_STATE_CHUNK + s] = vf_sum(of_q);
    }
}

/* The weights of updates for a block of n tokens that begins at the chunk's token number `at`:
 * e^{c_t - c_s} (k_s . k_t), and of q_t. Those of k_t are not used for s = t. */
static void weigh_updates(const scan_head *h, size_t at, size_t n) {
    const float *queries[SCAN_TOKENS] = {NULL};
    bool is_delta = h->p->b != NULL;
    for (size_t t = 0; t < n && h->n_channels > 1; t++)
        weigh_by_channel(h, t, at + t);
    if (h->n_channels > 1)
        return;
    for (size_t t = 0; t < n; t++)
        queries[t] = h->queries + t * h->s->k_dim;
    multiply_keys(h, queries, at, n, h->query_weights);
    if (is_delta)
        multiply_keys(h, h->keys + at, at, n, h->key_weights);
    for (size_t t = 0; t < n; t++) {
        decay_weights(h, at + t, h->query_weights + t * LN_STATE_CHUNK);
        if (is_delta)
            decay_weights(h, at + t, h->key_weights + t * LN_STATE_CHUNK);
    }
}

/* Adds what the updates before the block, `at` of them, are to its n tokens. */
static void add_updates(const scan_head *h, size_t at, size_t n) {
    size_t per_token = h->p->b != NULL ? 2 : 1, n_rows = n * per_token, width = h->s->v_dim, r = 0;
    const float *x[2 * SCAN_TOKENS] = {NULL};
    scan_rows updates = {.each = h->updates};
    for (size_t i = 0; i < n_rows; i++)
        x[i] = (i % per_token == 0 ? h->query_weights : h->key_weights) +
               i / per_token * LN_STATE_CHUNK;
    for (; r + QUERIES_AT_ONCE <= n_rows; r += QUERIES_AT_ONCE)
        product_tiles(QUERIES_AT_ONCE, x + r, updates, at, true, width, h->seen + r * width);
    for (; r + 2 <= n_rows; r += 2)
        product_tiles(2, x + r, updates, at, true, width, h->seen + r * width);
    if (r < n_rows)
        product_tiles(1, x + r, updates, at, true, width, h->seen + r * width);
}

/* What a token's update and result take besides vectors. */
typedef struct token_scales {
    float update, query, skip;
} token_scales;

/* Vectors of the update u_t and of the result of the chunk's token number `at`, t of a block. */
LN_INLINE void apply_updates(const scan_head *h, const size_t n_vectors, token_scales scales,
                             size_t at, size_t t, const float *v, size_t j, float *out) {
    vf of_k[VECTORS_AT_ONCE], of_q[VECTORS_AT_ONCE];
    bool is_delta = h->p->b != NULL;
    const float *seen = h->seen + t * (is_delta ? 2 : 1) * h->s->v_dim + j;
    const float *key_weights = h->key_weights + t * LN_STATE_CHUNK;
    const float *query_weights = h->query_weights + t * LN_STATE_CHUNK;
    for (size_t i = 0; i < n_vectors; i++) {
        of_q[i] = vf_load(seen + i * LANES);
        of_k[i] = is_delta ? vf_load(seen + h->s->v_dim + i * LANES) : vf_set(0.0f);
    }
    for (size_t s = at - t; s < at; s++) {
        vf k_weight = vf_set(key_weights[s]), q_weight = vf_set(query_weights[s]);
        for (size_t i = 0; i < n_vectors; i++) {
            vf u = vf_load(h->updates[s] + j + i * LANES);
            of_k[i] = is_delta ? vf_fma(k_weight, u, of_k[i]) : of_k[i];
            of_q[i] = vf_fma(q_weight, u, of_q[i]);
        }
    }
    for (size_t i = 0; i < n_vectors; i++) {
        size_t where = j + i * LANES;
        vf x = vf_load(v + where), u = vf_mul(vf_set(scales.update), vf_sub(x, of_k[i]));
        vf_store(h->own_updates + at * h->s->v_dim + where, u);
        of_q[i] = vf_fma(vf_set(query_weights[at]), u, of_q[i]);
        vf y = vf_mul(vf_set(scales.query), of_q[i]);
        vf_store(out + where, h->p->skip != NULL ? vf_fma(vf_set(scales.skip), x, y) : y);
    }
}

/* Token number t of a block. */
static void finish_token(scan_head *h, size_t row, size_t position, size_t t) {
    const ln_op_scan *p = h->p;
    const ln_state_shape *s = h->s;
    size_t v_dim = s->v_dim, at = position - h->chunk, j = 0;
    const float *v = p->v + row * p->v_stride + h->head * v_dim;
    float *out = p->out + (row * s->n_heads + h->head) * v_dim;
    token_scales scales = {1.0f, p->q_scale, p->skip != NULL ? p->skip[h->head] : 0.0f};
    if (p->b != NULL)
        scales.update =
            (p->doubles_b ? 2.0f : 1.0f) / (1.0f + expf(-p->b[row * s->n_heads + h->head]));
    else if (p->scales_v)
        scales.update = ln_scan_step_size(p, row, s->n_decays, h->head);
    for (; j + VECTORS_AT_ONCE * LANES <= v_dim; j += VECTORS_AT_ONCE * LANES)
        apply_updates(h, VECTORS_AT_ONCE, scales, at, t, v, j, out);
    for (; j < v_dim; j += LANES)
        apply_updates(h, 1, scales, at, t, v, j, out);
    h->updates[at] = h->own_updates + at * v_dim;
    if (position + s->n_rows >= h->view->end)
        memcpy(tail_update(h, position), h->updates[at], v_dim * sizeof *out);
}

/* A row of n floats of the token that comes SCAN_FETCHED after this one, if there is one: tokens
 * lie too far apart for the processor to fetch them by itself. */
LN_INLINE void fetch_row(const scan_head *h, size_t row, const float *x, size_t stride, size_t n) {
    if (row + SCAN_FETCHED >= h->view->row + h->view->end - h->view->begin)
        return;
    for (size_t i = 0; i < n; i += LANES)
        __builtin_prefetch(x + (row + SCAN_FETCHED) * stride + i, 0, 3);
}

/* n tokens from `position` on, of one chunk. */
static void scan_block(scan_head *h, size_t position, size_t n) {
    const ln_op_scan *p = h->p;
    size_t k_dim = h->s->k_dim, at = position - h->chunk;
    size_t row = h->view->row + position - h->view->begin;
    for (size_t t = 0; t < n; t++) {
        float *key = h->own_keys + (at + t) * k_dim;
        fetch_row(h, row + t, p->k + h->k_head * k_dim, p->k_stride, k_dim);
        fetch_row(h, row + t, p->q + h->k_head * k_dim, p->q_stride, k_dim);
        load_head_row(h, p->k + (row + t) * p->k_stride + h->k_head * k_dim, key);
        load_head_row(h, p->q + (row + t) * p->q_stride + h->k_head * k_dim,
                      h->queries + t * k_dim);
        h->keys[at + t] = key;
        add_decays(h, row + t, position + t);
    }
    see_state(h, at, n);
    weigh_updates(h, at, n);
    add_updates(h, at, n);
    for (size_t t = 0; t < n; t++) {
        fetch_row(h, row + t, p->v + h->head * h->s->v_dim, p->v_stride, h->s->v_dim);
        fetch_row(h, row + t, p->out + h->head * h->s->v_dim, h->s->n_heads * h->s->v_dim,
                  h->s->v_dim);
        finish_token(h, row + t, position + t, t);
    }
}

/* ---- the state behind a chunk --------------------------------------------------------------- */

/* Rows k .. of the state, columns j ..: e^c S0 + sum over s of scaled[s][k] updates[s]. */
LN_INLINE void state_tile(const scan_head *h, const size_t n_rows, const size_t n_vectors,
                          const float *kept, size_t k, size_t j, float *state) {
    size_t k_dim = h->s->k_dim, v_dim = h->s->v_dim;
    vf sums[QUERIES_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t r = 0; r < n_rows; r++)
        for (size_t v = 0; v < n_vectors; v++) {
            sums[r][v] = vf_set(0.0f);
            if (h->state != NULL)
                sums[r][v] = vf_mul(vf_set(kept[k + r]),
                                    vf_load(h->state + (k + r) * v_dim + j + v * LANES));
        }
    for (size_t s = 0; s < LN_STATE_CHUNK; s++) {
        vf update[VECTORS_AT_ONCE];
        for (size_t v = 0; v < n_vectors; v++)
            update[v] = vf_load(h->own_updates + s * v_dim + j + v * LANES);
        for (size_t r = 0; r < n_rows; r++) {
            vf weight = vf_set(h->scaled[s * k_dim + k + r]);
            for (size_t v = 0; v < n_vectors; v++)
                sums[r][v] = vf_fma(weight, update[v], sums[r][v]);
        }
    }
    for (size_t r = 0; r < n_rows; r++)
        for (size_t v = 0; v < n_vectors; v++)
            vf_store(state + (k + r) * v_dim + j + v * LANES, sums[r][v]);
}

/* `state` may be the one at the chunk's beginning. */
static void write_state(scan_head *h, float *state) {
    size_t k_dim = h->s->k_dim, v_dim = h->s->v_dim, last = LN_STATE_CHUNK - 1, n = h->n_channels;
    float *kept = h->seen; /* [k_dim], which is at most twice a block's rows */
    for (size_t s = 0; s < LN_STATE_CHUNK; s++) {
        vf between = vf_exp(vf_set((float)(h->c[last * n] - h->c[s * n])));
        for (size_t i = 0; i < k_dim; i += LANES) {
            vf decay = n > 1 ? decay_between(h, last, s, i) : between;
            vf_store(h->scaled + s * k_dim + i, vf_mul(vf_load(h->keys[s] + i), decay));
        }
        if (h->updates[s] != h->own_updates + s * v_dim)
            memcpy(h->own_updates + s * v_dim, h->updates[s], v_dim * sizeof *state);
    }
    for (size_t i = 0; i < k_dim; i += LANES)
        vf_store(kept + i, vf_exp(n > 1 ? vf_load(h->high + last * n + i) : vf_set(h->high[last])));
    for (size_t k = 0; k < k_dim; k += QUERIES_AT_ONCE) {
        size_t j = 0;
        for (; j + VECTORS_AT_ONCE * LANES <= v_dim; j += VECTORS_AT_ONCE * LANES)
            state_tile(h, QUERIES_AT_ONCE, VECTORS_AT_ONCE, kept, k, j, state);
        for (; j < v_dim; j += LANES)
            state_tile(h, QUERIES_AT_ONCE, 1, kept, k, j, state);
    }
}

static void scan_tokens(scan_head *h) {
    const ln_state_view *view = h->view;
    size_t first = h->head * h->s->k_dim * h->s->v_dim, n;
    h->chunk = view->begin - view->begin % LN_STATE_CHUNK;
    h->state =
        h->chunk > 0 && view->begin < view->end ? ln_state_target(view, h->chunk) + first : NULL;
    load_tail(h, view->begin);
    for (size_t position = view->begin; position < view->end; position += n) {
        n = h->chunk + LN_STATE_CHUNK - position;
        n = n < SCAN_TOKENS ? n : SCAN_TOKENS;
        n = n < view->end - position ? n : view->end - position;
        scan_block(h, position, n);
        if (position + n < h->chunk + LN_STATE_CHUNK)
            continue;
        float *state = ln_state_target(view, position + n) + first;
        write_state(h, state);
        h->chunk += LN_STATE_CHUNK;
        h->state = state;
    }
}

/* Keys that later steps may need: of the last tokens, as many as the tail has rows. */
static void keep_tail_keys(const scan_head *h) {
    const ln_state_view *view = h->view;
    const ln_op_scan *p = h->p;
    size_t position = view->begin;
    if (view->end > position + h->s->n_rows)
        position = view->end - h->s->n_rows;
    for (; position < view->end; position++) {
        size_t row = view->row + position - view->begin;
        load_head_row(h, p->k + row * p->k_stride + h->k_head * h->s->k_dim, tail_key(h, position));
    }
}

static void scan(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_scan *p = &op->scan;
    const ln_state_shape *s = &p->cache->shape;
    size_t n_seqs = op->batch->n_seqs, per_key = s->n_heads / s->n_k_heads, item;
    if (s->selective) {
        selective(op, worker);
        return;
    }
    if (s->k_dim % LANES != 0 || s->v_dim % LANES != 0) {
        ln_scalar_scan(op, worker);
        return;
    }
    scan_head h = {.p = p, .s = s, .n_channels = s->n_decays / s->n_heads};
    place_scan(&h, worker->scratch);
    while (ln_cpu_take(worker, n_seqs * s->n_heads, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item / s->n_heads);
        h.view = &view;
        h.head = item % s->n_heads;
        h.k_head = p->tiled ? h.head % s->n_k_heads : h.head / per_key;
        scan_tokens(&h);
    }
    ln_cpu_barrier(worker); /* heads share the tail's keys, which may lie over each other */
    while (ln_cpu_take(worker, n_seqs * s->n_k_heads, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item / s->n_k_heads);
        h.view = &view;
        h.k_head = item % s->n_k_heads;
        keep_tail_keys(&h);
    }
}

#endif
