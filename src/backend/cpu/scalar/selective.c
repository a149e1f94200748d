#include "backend/cpu/scalar/selective.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"
#include "backend/cpu/scalar/scan_decay.h"

/* ---- running states -------------------------------------------------------------------------- */

static size_t chunk_of(size_t position) {
    return position - position % LN_STATE_CHUNK;
}

/* Of two running states that of the chunk at a position. */
static size_t slot_of(const ln_state_shape *s, size_t position) {
    return s->n_rows > 0 ? position / LN_STATE_CHUNK % 2 : 0;
}

/* Tokens from here on may be drafts that the next steps refuse. */
static size_t sure_end(const ln_state_view *view) {
    size_t n_drafts = view->shape->n_rows / 2;
    return view->end > n_drafts ? view->end - n_drafts : 0;
}

/* How a sequence's step goes: from a state that has seen `start` tokens, over those that the tail
 * has behind it, to the step's own. */
typedef struct run {
    size_t start;
    const float *from; /* [k_dim][v_dim] that state; NULL: zero */
    size_t kept;       /* where a running state is kept that later steps begin with; 0: nowhere */
    float *running;    /* its place, if so */
} run;

static run run_of(const ln_state_view *view) {
    const ln_state_shape *s = view->shape;
    size_t chunk = chunk_of(view->begin), slot = slot_of(s, chunk), sure = sure_end(view);
    size_t n_seen = 0; /* where a chunk begins the tail may be anything */
    if (view->begin % LN_STATE_CHUNK > 0)
        n_seen = (size_t)view->tail[slot];
    run r = {.start = chunk + n_seen};
    if (n_seen > 0)
        r.from = view->tail + ln_tail_running(s, slot);
    else if (chunk > 0 && view->begin < view->end)
        r.from = ln_state_target(view, chunk);
    if (sure > r.start && sure % LN_STATE_CHUNK > 0) {
        r.kept = sure;
        r.running = view->tail + ln_tail_running(s, slot_of(s, sure));
    }
    return r;
}

/* The chunk of the last token that is sure has a running state, or begins with its state; the next
 * one begins with its. */
static void keep_counts(const ln_state_view *view) {
    const ln_state_shape *s = view->shape;
    run r = run_of(view);
    size_t sure = sure_end(view), kept = sure > r.start ? sure : r.start;
    float n_seen = (float)(kept % LN_STATE_CHUNK);
    view->tail[slot_of(s, kept)] = n_seen;
    if (chunk_of(kept) < chunk_of(view->end))
        view->tail[slot_of(s, view->end)] = 0.0f;
}

/* Where the tail has a token's row of a part that is `width` wide. */
static float *tail_row(const ln_state_view *view, size_t part, size_t position, size_t width) {
    return view->tail + part + position % view->shape->n_rows * width;
}

/* Whether the tail keeps the row of one of the step's tokens. */
static bool is_kept(const ln_state_view *view, size_t position) {
    return position + view->shape->n_rows >= view->end;
}

/* Keeps keys, and how far the running states are: once all workers are done with the tail. */
static void keep_shared(const ln_op_scan *p, const ln_state_view *view) {
    const ln_state_shape *s = view->shape;
    if (view->begin == view->end)
        return;
    for (size_t position = view->begin; position < view->end; position++)
        if (s->n_rows > 0 && p->k != NULL && is_kept(view, position))
            memcpy(tail_row(view, ln_tail_keys(s), position, ln_selective_keys(s)),
                   p->k + (view->row + position - view->begin) * p->k_stride,
                   ln_selective_keys(s) * sizeof(float));
    keep_counts(view);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Keys and queries that nobody stores. */
static const float one[] = {1.0f};

/* The key, or the query, of the columns in a row of all heads'; NULL: nobody stores it. */
static const float *own_key(const ln_selective_columns *c, const float *row) {
    return row != NULL ? row + c->k_head * c->s->k_dim : one;
}

static void take_tail(const ln_selective_columns *c, const ln_selective_kernel *kernel,
                      size_t position) {
    const ln_state_view *view = c->view;
    const ln_state_shape *s = c->s;
    ln_selective_token t = {
        .k = own_key(c, c->p->k != NULL
                            ? tail_row(view, ln_tail_keys(s), position, ln_selective_keys(s))
                            : NULL),
        .dt = tail_row(view, ln_tail_steps(s), position, s->v_dim) + c->first,
        .u = tail_row(view, ln_tail_updates(s), position, s->v_dim) + c->first,
    };
    kernel->take(c, &t);
}

static void take_token(const ln_selective_columns *c, const ln_selective_kernel *kernel,
                       size_t position) {
    const ln_op_scan *p = c->p;
    const ln_state_view *view = c->view;
    const ln_state_shape *s = c->s;
    size_t row = view->row + position - view->begin, v_dim = s->v_dim;
    float dt[LN_SELECTIVE_COLUMNS], u[LN_SELECTIVE_COLUMNS];
    ln_selective_token t = {
        .k = own_key(c, p->k != NULL ? p->k + row * p->k_stride : NULL),
        .dt = dt,
        .u = u,
        .q = own_key(c, p->q != NULL ? p->q + row * p->q_stride : NULL),
        .v = p->v + row * p->v_stride + c->first,
        .out = p->out + row * v_dim + c->first,
    };
    kernel->update(c, row, t.v, dt, u);
    kernel->take(c, &t);
    if (s->n_rows == 0 || !is_kept(view, position))
        return;
    memcpy(tail_row(view, ln_tail_steps(s), position, v_dim) + c->first, dt, c->n * sizeof *dt);
    memcpy(tail_row(view, ln_tail_updates(s), position, v_dim) + c->first, u, c->n * sizeof *u);
}

/* Columns of a whole state, which NULL says is zero, to the scratch; and back. */
static void load_state(const ln_selective_columns *c, const float *whole) {
    for (size_t i = 0; i < c->s->k_dim; i++) {
        float *state = c->state + i * LN_SELECTIVE_COLUMNS;
        if (whole != NULL)
            memcpy(state, whole + i * c->s->v_dim + c->first, c->n * sizeof *state);
        else
            memset(state, 0, c->n * sizeof *state);
    }
}

static void store_state(const ln_selective_columns *c, float *whole) {
    for (size_t i = 0; i < c->s->k_dim; i++)
        memcpy(whole + i * c->s->v_dim + c->first, c->state + i * LN_SELECTIVE_COLUMNS,
               c->n * sizeof *whole);
}

static void scan_columns(const ln_selective_columns *c, const ln_selective_kernel *kernel) {
    const ln_state_view *view = c->view;
    run r = run_of(view);
    load_state(c, r.from);
    for (size_t position = r.start; position < view->end; position++) {
        if (position == r.kept && position > r.start)
            store_state(c, r.running);
        if (position < view->begin) {
            take_tail(c, kernel, position);
            continue;
        }
        take_token(c, kernel, position);
        if ((position + 1) % LN_STATE_CHUNK == 0)
            store_state(c, ln_state_target(view, position + 1));
    }
    if (r.kept == view->end)
        store_state(c, r.running);
}

void ln_selective_scan(const ln_op *op, const ln_cpu_worker *worker,
                       const ln_selective_kernel *kernel) {
    const ln_op_scan *p = &op->scan;
    const ln_state_shape *s = &p->cache->shape;
    size_t n_seqs = op->batch->n_seqs, width = ln_selective_width(s), item;
    size_t per_head = (width + LN_SELECTIVE_COLUMNS - 1) / LN_SELECTIVE_COLUMNS;
    size_t n_blocks = s->n_k_heads * per_head;
    ln_selective_columns c = {.p = p, .s = s, .state = worker->scratch};
    while (ln_cpu_take(worker, n_seqs * n_blocks, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item / n_blocks);
        size_t at = item % per_head * LN_SELECTIVE_COLUMNS;
        c.view = &view;
        c.k_head = item % n_blocks / per_head;
        c.first = c.k_head * width + at;
        c.n = width - at < LN_SELECTIVE_COLUMNS ? width - at : LN_SELECTIVE_COLUMNS;
        if (view.begin < view.end)
            scan_columns(&c, kernel);
    }
    ln_cpu_barrier(worker); /* all read the tail's keys and counts */
    while (ln_cpu_take(worker, n_seqs, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item);
        keep_shared(p, &view);
    }
}

void ln_lru_update(const ln_selective_columns *c, size_t row, const float *v, float *dt, float *u) {
    const ln_op_scan *p = c->p;
    bool is_first = c->view->begin == 0 && row == c->view->row;
    for (size_t j = 0; j < c->n; j++) {
        size_t i = c->first + j;
        float a = p->a[row * c->s->v_dim + i] + (p->a_bias != NULL ? p->a_bias[i] : 0.0f);
        dt[j] = 1.0f / (1.0f + expf(-a));
        u[j] = is_first ? v[j] : sqrtf(-expm1f(-2.0f * (p->rate[i] * dt[j]))) * v[j];
    }
}

/* ---- the scalar kernel ----------------------------------------------------------------------- */

static void update(const ln_selective_columns *c, size_t row, const float *v, float *dt, float *u) {
    for (size_t j = 0; j < c->n; j++) {
        dt[j] = ln_scan_step_size(c->p, row, c->s->v_dim, c->first + j);
        u[j] = dt[j] * v[j];
    }
}

static void take(const ln_selective_columns *c, const ln_selective_token *t) {
    const float *skip = c->p->skip;
    float sums[LN_SELECTIVE_COLUMNS] = {0};
    for (size_t i = 0; i < c->s->k_dim; i++) {
        const float *rate = c->p->rate + i * c->s->v_dim + c->first;
        float *state = c->state + i * LN_SELECTIVE_COLUMNS, query = t->q != NULL ? t->q[i] : 0.0f;
        for (size_t j = 0; j < c->n; j++) {
            state[j] = expf(-(rate[j] * t->dt[j])) * state[j] + t->k[i] * t->u[j];
            sums[j] += query * state[j];
        }
    }
    for (size_t j = 0; j < c->n && t->q != NULL; j++)
        t->out[j] = c->p->q_scale * sums[j] + (skip != NULL ? skip[c->first + j] * t->v[j] : 0.0f);
}

void ln_scalar_selective(const ln_op *op, const ln_cpu_worker *worker) {
    static const ln_selective_kernel kernel = {.update = update, .take = take};
    static const ln_selective_kernel lru = {.update = ln_lru_update, .take = take};
    ln_selective_scan(op, worker, op->scan.decay == LN_DECAY_LRU ? &lru : &kernel);
}
