/* Recurrent layers against the plain recurrence in float64, over steps that cut sequences anywhere,
 * whose drafts are refused, and which begin from shared states; and gated norms. */
#include "ops/recurrence.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/recurrent_cases.h"

enum {
    MAX_STATES = FIRST / LN_STATE_CHUNK + 2, /* entries of a table */
    MAX_CUTS = FIRST + 1,
    MAX_STEP = N_ROWS + N_SEQS * N_DRAFTS,
    N_TAILS = 2 * N_SEQS,
    N_PLANS = 7
};

/* How a sequence is cut into steps: tokens of each, and drafts behind them that are refused. */
typedef struct cuts {
    size_t n, tokens[MAX_CUTS], drafts[MAX_CUTS];
    bool keeps[MAX_STATES]; /* states that are kept although they are not a step's last */
} cuts;

typedef struct plan {
    cuts of[N_SEQS];
} plan;

static void add_cut(cuts *c, size_t *at, size_t length, size_t tokens, size_t drafts) {
    c->tokens[c->n] = tokens < length - *at ? tokens : length - *at;
    c->drafts[c->n] = drafts;
    *at += c->tokens[c->n++];
}

/* Plan 0 takes all at once and keeps all states, 1 is token by token, 2 cuts at chosen places,
 * others at random ones. */
static plan make_plan(size_t number, bool has_drafts) {
    static const size_t chosen[] = {60, 4, 63, 1, 2, 62, 8}, sizes[] = {1, 2, 3, 7, 63, 64, 65, 97};
    plan p = {0};
    for (size_t seq = 0; seq < N_SEQS; seq++) {
        cuts *c = &p.of[seq];
        size_t length = seq == 0 ? FIRST : SECOND;
        for (size_t at = 0; at < length;) {
            if (number == 0)
                add_cut(c, &at, length, length, 0);
            else if (number == 1)
                add_cut(c, &at, length, 1, 0);
            else if (number == 2)
                add_cut(c, &at, length, chosen[c->n % 7], 0);
            else if (draw(4) > 0) /* decode */
                add_cut(c, &at, length, 1 + draw(2), has_drafts ? draw(N_DRAFTS) : 0);
            else
                add_cut(c, &at, length, sizes[draw(8)], 0);
        }
        for (size_t i = 0; i < MAX_STATES; i++)
            c->keeps[i] = number == 0 || draw(2) == 0;
    }
    return p;
}

/* ---- a layer on a side ---------------------------------------------------------------------- */

typedef struct layer {
    const recurrent_case *c;
    const recurrent_data *d;
    side *s;
    ln_kv_layer states, tails;
    ln_state_cache cache;
    ln_op_conv conv;
    ln_op_scan scan;
    int32_t tables[N_SEQS][MAX_STATES];
    int32_t tail[N_SEQS];
    size_t at[N_SEQS], cut[N_SEQS]; /* where each sequence is, and its next cut */
} layer;

/* A pool whose numbers are all NaN until they are written. */
static ln_kv_layer put_pool(side *s, size_t group, size_t n_blocks, size_t n_floats) {
    float *x = malloc((n_blocks * n_floats + 1) * sizeof *x);
    assert_non_null(x);
    memset(x, 0xff, n_blocks * n_floats * sizeof *x);
    ln_kv_layer pool = {.dtype = LN_KV_F32,
                        .group = group,
                        .block_tokens = 1,
                        .n_heads = 1,
                        .k_dim = n_floats,
                        .k = put(s, x, n_blocks * n_floats)};
    free(x);
    return pool;
}

static void place_layer(layer *l, side *s, const recurrent_case *c, const recurrent_data *d) {
    *l = (layer){.c = c, .d = d, .s = s};
    l->cache.shape = (ln_state_shape){.n_heads = c->n_heads,
                                      .n_k_heads = c->n_k_heads,
                                      .k_dim = c->k_dim,
                                      .v_dim = c->v_dim,
                                      .n_decays = c->n_heads > 0 ? d->n_decays : 0,
                                      .conv_dim = c->conv_dim,
                                      .n_taps = c->n_taps,
                                      .n_rows = LN_STATE_CHUNK + N_DRAFTS,
                                      .selective = is_selective(c),
                                      .n_conv_rows = c->n_taps + N_DRAFTS};
    if (is_selective(c))
        l->cache.shape.n_rows = c->has_no_drafts ? 0 : 2 * N_DRAFTS;
    l->states = put_pool(s, 1, (size_t)N_SEQS * MAX_STATES, ln_state_block_floats(&l->cache.shape));
    l->tails = put_pool(s, 2, N_TAILS, ln_tail_block_floats(&l->cache.shape));
    l->cache.states = &l->states;
    l->cache.tails = &l->tails;
    l->conv = (ln_op_conv){.weight = put(s, d->taps, c->n_taps * c->conv_dim),
                           .bias = c->has_bias ? put(s, d->bias, c->conv_dim) : NULL,
                           .silu = c->has_silu,
                           .cache = &l->cache};
    l->scan = (ln_op_scan){.q_stride = d->width,
                           .k_stride = d->width,
                           .v_stride = d->width,
                           .decay = c->decay,
                           .rate = put(s, d->rate, d->n_rates),
                           .a_bias = put(s, d->a_bias, d->n_decays),
                           .skip = c->has_skip ? put(s, d->skip, d->n_skips) : NULL,
                           .dt_min = 0.05f,
                           .dt_max = 2.5f,
                           .bound = RECURRENT_BOUND,
                           .q_scale = c->q_scale,
                           .doubles_b = c->doubles_b,
                           .unit_qk = c->is_unit,
                           .scales_v = c->scales_v,
                           .tiled = c->is_tiled,
                           .cache = &l->cache};
    memset(l->tables, 0xff, sizeof l->tables);
    for (size_t seq = 0; seq < N_SEQS; seq++)
        l->tail[seq] = (int32_t)(N_TAILS - 1 - seq);
}

/* ---- a step --------------------------------------------------------------------------------- */

typedef struct step {
    ln_batch batch;
    int32_t positions[MAX_STEP], starts[N_SEQS + 1], lengths[N_SEQS];
    int32_t tables[N_SEQS][MAX_STATES], tails[N_SEQS], no_blocks[N_SEQS];
    size_t rows[MAX_STEP]; /* of the data */
    bool is_draft[MAX_STEP];
} step;

/* Gives the states that the tokens begin .. end - 1 pass blocks: the last one, and those that are
 * kept besides. */
static void extend_table(layer *l, const cuts *c, size_t seq, size_t begin, size_t end) {
    size_t last = end / LN_STATE_CHUNK;
    for (size_t j = begin / LN_STATE_CHUNK + 1; j <= last; j++)
        l->tables[seq][j] =
            j == last || c->keeps[j] ? (int32_t)(N_SEQS * (MAX_STATES - j) - 1 - seq) : -1;
}

/* The next tokens of a sequence and its drafts. At a chunk's beginning it goes on from the state
 * alone, as another one does that shares it: with a tail of which nothing is known. */
static void add_sequence(layer *l, step *st, const cuts *c, size_t seq) {
    ln_batch *batch = &st->batch;
    size_t begin = l->at[seq], n = c->tokens[l->cut[seq]];
    size_t end = begin + n + c->drafts[l->cut[seq]++];
    if (begin % LN_STATE_CHUNK == 0)
        l->tail[seq] = (l->tail[seq] + N_SEQS) % N_TAILS;
    extend_table(l, c, seq, begin, end);
    memcpy(st->tables[batch->n_seqs], l->tables[seq], sizeof l->tables[seq]);
    st->tails[batch->n_seqs] = l->tail[seq];
    st->lengths[batch->n_seqs++] = (int32_t)end;
    for (size_t position = begin; position < end; position++) {
        size_t token = batch->n_tokens++;
        st->positions[token] = (int32_t)position;
        st->is_draft[token] = position >= begin + n;
        st->rows[token] =
            st->is_draft[token] ? N_ROWS + (position - begin - n) : seq * FIRST + position;
    }
    st->starts[batch->n_seqs] = (int32_t)batch->n_tokens;
    l->at[seq] += n;
}

static bool make_step(layer *l, const plan *p, step *st) {
    *st = (step){0};
    for (size_t seq = 0; seq < N_SEQS; seq++)
        if (l->cut[seq] < p->of[seq].n)
            add_sequence(l, st, &p->of[seq], seq);
    st->batch.n_groups = 3;
    st->batch.positions = st->positions;
    st->batch.seq_starts = st->starts;
    st->batch.groups[1] = (ln_batch_group){st->tables[0], MAX_STATES, st->lengths, NULL};
    st->batch.groups[2] = (ln_batch_group){st->tails, 1, st->lengths, NULL};
    return st->batch.n_tokens > 0;
}

static float *put_rows(side *s, const step *st, const float *x, size_t width) {
    return put_rows_of(s, x, st->rows, st->batch.n_tokens, width);
}

static void get_rows(side *s, const step *st, float *x, size_t width, float *out) {
    float *rows = get(s, x, st->batch.n_tokens * width);
    for (size_t i = 0; i < st->batch.n_tokens; i++)
        if (!st->is_draft[i])
            memcpy(out + st->rows[i] * width, rows + i * width, width * sizeof *out);
    free(rows);
}

/* Columns [begin, begin + n) of rows of a matrix; rows NULL: of all of them in order. */
static float *put_columns(side *s, const float *x, const size_t *rows, size_t n_rows, size_t width,
                          size_t begin, size_t n) {
    float *copy = malloc((n_rows * n + 1) * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < n_rows; i++)
        memcpy(copy + i * n, x + (rows != NULL ? rows[i] : i) * width + begin, n * sizeof *copy);
    float *placed = put(s, copy, n_rows * n);
    free(copy);
    return placed;
}

/* The convolution as two that share its cache. */
static void run_two_convolutions(layer *l, const step *st, float *convolved) {
    const recurrent_case *c = l->c;
    side *s = l->s;
    size_t n_kept = s->n_placed, n_tokens = st->batch.n_tokens, begin = 0, n = c->n_first;
    for (; begin < c->conv_dim; begin += n, n = c->conv_dim - begin) {
        ln_op op = {.kind = LN_OP_CONV, .batch = &st->batch, .conv = l->conv};
        ln_op_conv *conv = &op.conv;
        conv->begin = begin;
        conv->n = n;
        conv->x = put_columns(s, l->d->x, st->rows, n_tokens, c->conv_dim, begin, n);
        conv->weight = put_columns(s, l->d->taps, NULL, c->n_taps, c->conv_dim, begin, n);
        if (c->has_bias)
            conv->bias = put(s, l->d->bias + begin, n);
        conv->out = put(s, NULL, n_tokens * n);
        run_ops(s, &op, 1);
        float *rows = get(s, conv->out, n_tokens * n);
        for (size_t i = 0; i < n_tokens; i++)
            if (!st->is_draft[i])
                memcpy(convolved + st->rows[i] * c->conv_dim + begin, rows + i * n,
                       n * sizeof *rows);
        free(rows);
    }
    free_placed_from(s, n_kept);
}

static void run_step(layer *l, const step *st, float *convolved, float *scanned) {
    const recurrent_case *c = l->c;
    const recurrent_data *d = l->d;
    side *s = l->s;
    size_t n_kept = s->n_placed, n_ops = 0, keys = c->n_k_heads * c->k_dim,
           width = c->n_heads * c->v_dim;
    ln_op ops[2] = {0};
    if (c->n_first > 0) {
        run_two_convolutions(l, st, convolved);
        return;
    }
    ln_op_conv conv = l->conv;
    conv.x = put_rows(s, st, d->x, c->conv_dim);
    conv.out = put(s, NULL, st->batch.n_tokens * c->conv_dim);
    conv.n_groups = c->n_groups;
    if (c->n_groups > 0)
        conv.dynamic = put_rows(s, st, d->dynamic, c->n_groups * c->n_taps);
    if (c->n_taps > 0)
        ops[n_ops++] = (ln_op){.kind = LN_OP_CONV, .batch = &st->batch, .conv = conv};
    ln_op_scan scan = l->scan;
    scan.q = put_rows(s, st, d->qkv, d->width);
    scan.k = scan.q + keys;
    scan.v = scan.k + keys;
    if (c->decay == LN_DECAY_LRU)
        scan.q = scan.k = NULL;
    scan.a = c->decay == LN_DECAY_FIXED ? NULL : put_rows(s, st, d->a, d->n_decays);
    scan.b = c->is_delta ? put_rows(s, st, d->b, c->n_heads) : NULL;
    scan.out = put(s, NULL, st->batch.n_tokens * width);
    if (c->n_heads > 0)
        ops[n_ops++] = (ln_op){.kind = LN_OP_SCAN, .batch = &st->batch, .scan = scan};
    run_ops(s, ops, n_ops);
    if (c->n_taps > 0)
        get_rows(s, st, conv.out, c->conv_dim, convolved);
    if (c->n_heads > 0)
        get_rows(s, st, scan.out, width, scanned);
    assert_true(s->n_placed > n_kept);
    free_placed_from(s, n_kept);
}

/* The same as models record it: the scan reads what the convolution gives, and a gated norm
 * follows; all at once, or each operation by itself. */
static void run_whole_step(layer *l, const step *st, bool apart, float *normed) {
    const recurrent_case *c = l->c;
    const recurrent_data *d = l->d;
    side *s = l->s;
    size_t n_kept = s->n_placed, n = st->batch.n_tokens, keys = c->n_k_heads * c->k_dim,
           width = c->n_heads * c->v_dim;
    ln_norm norm = {.kind = LN_NORM_RMS, .eps = 1e-6f, .dim = c->v_dim};
    norm.weight = put(s, d->x, c->v_dim);
    ln_op ops[] = {{.kind = LN_OP_CONV, .batch = &st->batch, .conv = l->conv},
                   {.kind = LN_OP_SCAN, .batch = &st->batch, .scan = l->scan},
                   {.kind = LN_OP_GATED_NORM, .batch = &st->batch}};
    ln_op_conv *conv = &ops[0].conv;
    ln_op_scan *scan = &ops[1].scan;
    conv->x = put_rows(s, st, d->x, c->conv_dim);
    conv->out = put(s, NULL, n * c->conv_dim);
    scan->q = conv->out;
    scan->k = scan->q + keys;
    scan->v = scan->k + keys;
    scan->q_stride = scan->k_stride = scan->v_stride = c->conv_dim;
    scan->a = put_rows(s, st, d->a, d->n_decays);
    scan->b = put_rows(s, st, d->b, c->n_heads);
    scan->out = put(s, NULL, n * width);
    ops[2].gated_norm = (ln_op_gated_norm){.norm = &norm,
                                           .n_rows = n,
                                           .dim = width,
                                           .n_groups = c->n_heads,
                                           .x = scan->out,
                                           .gate = put_rows(s, st, d->qkv, width),
                                           .out = scan->out};
    for (size_t i = 0; i < 3; i += apart ? 1 : 3)
        run_ops(s, ops + i, apart ? 1 : 3);
    get_rows(s, st, scan->out, width, normed);
    free_placed_from(s, n_kept);
}

/* ---- what a plan gives ---------------------------------------------------------------------- */

typedef struct results {
    float *convolved, *scanned; /* [N_ROWS] rows */
    float *states;              /* the pool */
    int32_t tables[N_SEQS][MAX_STATES];
} results;

static results run_plan(side *s, const recurrent_case *c, const recurrent_data *d, const plan *p) {
    layer l;
    step *st = malloc(sizeof *st);
    results r = {.convolved = calloc(N_ROWS * c->conv_dim + 1, sizeof(float)),
                 .scanned = calloc(N_ROWS * c->n_heads * c->v_dim + 1, sizeof(float))};
    assert_true(st != NULL && r.convolved != NULL && r.scanned != NULL);
    place_layer(&l, s, c, d);
    while (make_step(&l, p, st))
        run_step(&l, st, r.convolved, r.scanned);
    r.states = get(s, l.states.k, (size_t)N_SEQS * MAX_STATES * l.states.k_dim);
    memcpy(r.tables, l.tables, sizeof r.tables);
    free_placed(s);
    free(st);
    return r;
}

static void free_results(results *r) {
    free(r->convolved), free(r->scanned), free(r->states);
}

/* ---- the comparison ------------------------------------------------------------------------- */

static double distance(const float *got, const double *single, const double *want, size_t n) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += pow((got != NULL ? (double)got[i] : single[i]) - want[i], 2);
        norm += pow(want[i], 2);
    }
    return sqrt(difference / norm);
}

/* Fails where the error is more than three quarters as large again as that of the recurrence in
 * float32, which may be less than what rounding the result alone makes. */
static void assert_precise(const char *name, const float *got, const double *single,
                           const double *want, size_t n) {
    double error = distance(got, NULL, want, n), plain = distance(NULL, single, want, n);
    if (!(error <= 1.75 * fmax(plain, FLT_EPSILON)))
        fail_msg("%s: error %g, that of the recurrence %g", name, error, plain);
}

static void check_scan(const recurrent_case *c, const recurrent_data *d, const results *r,
                       size_t block_floats) {
    size_t width = c->n_heads * c->v_dim, state_floats = width * c->k_dim, n = N_ROWS * width;
    size_t n_states = (size_t)N_SEQS * (FIRST / 64);
    double *want = calloc(2 * (n + n_states * state_floats) + 1, sizeof *want);
    assert_non_null(want);
    double *single = want + n, *states = single + n,
           *single_states = states + n_states * state_floats;
    run_recurrence(c, d, false, want, states);
    run_recurrence(c, d, true, single, single_states);
    assert_precise(c->name, r->scanned, single, want, n);
    for (size_t seq = 0; seq < N_SEQS; seq++)
        for (size_t j = 1; j <= (seq == 0 ? FIRST : SECOND) / 64; j++) {
            const float *state = r->states + (size_t)r->tables[seq][j] * block_floats;
            size_t at = (seq * (FIRST / 64) + j - 1) * state_floats;
            assert_precise(c->name, state, single_states + at, states + at, state_floats);
        }
    free(want);
}

static void check_convolution(const recurrent_case *c, const recurrent_data *d, const results *r,
                              size_t block_floats) {
    size_t n = N_ROWS * c->conv_dim, state_floats = c->n_heads * c->k_dim * c->v_dim;
    double *want = calloc(n + 1, sizeof *want);
    assert_non_null(want);
    run_convolution(c, d, want);
    if (!(distance(r->convolved, NULL, want, n) < 5e-7))
        fail_msg("%s: error %g", c->name, distance(r->convolved, NULL, want, n));
    for (size_t seq = 0; seq < N_SEQS; seq++)
        for (size_t j = 1; j <= (seq == 0 ? FIRST : SECOND) / 64; j++) {
            size_t row = seq * FIRST + 64 * j - (c->n_taps - 1);
            assert_memory_equal(r->states + (size_t)r->tables[seq][j] * block_floats + state_floats,
                                d->x + row * c->conv_dim,
                                (c->n_taps - 1) * c->conv_dim * sizeof(float));
        }
    free(want);
}

/* Rows and kept states have the same bits however the sequences are cut. */
static void assert_same_bits(const recurrent_case *c, size_t number, const results *r,
                             const results *whole, size_t block_floats) {
    size_t n = N_ROWS * c->conv_dim * sizeof(float);
    if (memcmp(r->convolved, whole->convolved, n) != 0)
        fail_msg("%s: other bits of the convolution by plan %zu", c->name, number);
    n = N_ROWS * c->n_heads * c->v_dim * sizeof(float);
    if (memcmp(r->scanned, whole->scanned, n) != 0)
        fail_msg("%s: other bits of the scan by plan %zu", c->name, number);
    for (size_t seq = 0; seq < N_SEQS; seq++)
        for (size_t j = 1; j <= (seq == 0 ? FIRST : SECOND) / 64; j++)
            if (r->tables[seq][j] >= 0 &&
                memcmp(r->states + (size_t)r->tables[seq][j] * block_floats,
                       whole->states + (size_t)whole->tables[seq][j] * block_floats,
                       block_floats * sizeof(float)) != 0)
                fail_msg("%s: other bits of state %zu by plan %zu", c->name, j, number);
}

static void check_case(const recurrent_case *c) {
    recurrent_data d = make_recurrent_data(c);
    plan *p = malloc(sizeof *p);
    assert_non_null(p);
    *p = make_plan(0, !c->has_no_drafts);
    results whole = run_plan(&subject, c, &d, p);
    size_t block_floats = ln_state_block_floats(&(ln_state_shape){.n_heads = c->n_heads,
                                                                  .k_dim = c->k_dim,
                                                                  .v_dim = c->v_dim,
                                                                  .conv_dim = c->conv_dim,
                                                                  .n_taps = c->n_taps});
    if (c->n_heads > 0)
        check_scan(c, &d, &whole, block_floats);
    if (c->n_taps > 0)
        check_convolution(c, &d, &whole, block_floats);
    for (size_t number = 1; number < (ops_is_brief ? 3 : N_PLANS); number++) {
        *p = make_plan(number, !c->has_no_drafts);
        results r = run_plan(&subject, c, &d, p);
        assert_same_bits(c, number, &r, &whole, block_floats);
        free_results(&r);
    }
    free_results(&whole);
    free_recurrent_data(&d);
    free(p);
}

static void recurrent_layers_are_the_recurrence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof recurrent_cases / sizeof *recurrent_cases; i++)
        if (ops_takes_case())
            check_case(&recurrent_cases[i]);
}

static void selective_scans_are_the_recurrence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof selective_cases / sizeof *selective_cases; i++)
        if (ops_takes_case())
            check_case(&selective_cases[i]);
}

static void selective_scans_have_keys_by_head(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof keyed_cases / sizeof *keyed_cases; i++)
        if (ops_takes_case())
            check_case(&keyed_cases[i]);
}

static void linear_units_are_the_recurrence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lru_cases / sizeof *lru_cases; i++)
        if (ops_takes_case())
            check_case(&lru_cases[i]);
}

static void large_heads_are_the_recurrence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof large_cases / sizeof *large_cases; i++)
        if (ops_takes_case())
            check_case(&large_cases[i]);
}

static void convolutions_share_a_cache(void **state) {
    static const recurrent_case cases[] = {
        {.name = "two convolutions", .conv_dim = 700, .n_taps = 4, .n_first = 530},
        {.name = "two odd convolutions",
         .conv_dim = 41,
         .n_taps = 3,
         .n_first = 7,
         .has_bias = true,
         .has_silu = true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ops_takes_case())
            check_case(&cases[i]);
}

static void tokens_add_to_taps(void **state) {
    static const recurrent_case cases[] = {
        {.name = "taps of tokens", .conv_dim = 512, .n_taps = 4, .n_groups = 4},
        {.name = "taps of tokens, odd", .conv_dim = 39, .n_taps = 3, .n_groups = 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ops_takes_case())
            check_case(&cases[i]);
}

static void doubled_updates_are_the_recurrence(void **state) {
    static const recurrent_case doubled = {.name = "gated delta rule with doubled updates",
                                           .n_heads = 4,
                                           .n_k_heads = 2,
                                           .k_dim = 32,
                                           .v_dim = 48,
                                           .is_delta = true,
                                           .doubles_b = true,
                                           .is_unit = true,
                                           .q_scale = 0.177f,
                                           .rate = 0.05f};
    (void)state;
    if (ops_takes_case())
        check_case(&doubled);
}

/* ---- whole layers --------------------------------------------------------------------------- */

/* Rows and states of a whole layer, whose operations are run at once or not. */
static results run_whole_plan(const recurrent_case *c, const recurrent_data *d, const plan *p,
                              bool apart) {
    layer l;
    step *st = malloc(sizeof *st);
    results r = {.scanned = calloc(N_ROWS * c->n_heads * c->v_dim + 1, sizeof(float))};
    assert_true(st != NULL && r.scanned != NULL);
    place_layer(&l, &subject, c, d);
    while (make_step(&l, p, st))
        run_whole_step(&l, st, apart, r.scanned);
    r.states = get(&subject, l.states.k, (size_t)N_SEQS * MAX_STATES * l.states.k_dim);
    free_placed(&subject);
    free(st);
    return r;
}

static void check_whole(const recurrent_case *c) {
    recurrent_data d = make_recurrent_data(c);
    plan *p = malloc(sizeof *p);
    assert_non_null(p);
    size_t n_states = (size_t)N_SEQS * MAX_STATES *
                      ln_state_block_floats(&(ln_state_shape){.n_heads = c->n_heads,
                                                              .k_dim = c->k_dim,
                                                              .v_dim = c->v_dim,
                                                              .conv_dim = c->conv_dim,
                                                              .n_taps = c->n_taps});
    for (size_t number = 1; number < 4; number++) {
        *p = make_plan(number, true);
        results apart = run_whole_plan(c, &d, p, true), whole = run_whole_plan(c, &d, p, false);
        size_t n = N_ROWS * c->n_heads * c->v_dim;
        assert_memory_equal(whole.scanned, apart.scanned, n * sizeof(float));
        assert_memory_equal(whole.states, apart.states, n_states * sizeof(float));
        free_results(&apart), free_results(&whole);
    }
    free_recurrent_data(&d);
    free(p);
}

static void whole_layers_are_their_operations(void **state) {
    static const recurrent_case cases[] = {{.name = "gated delta net",
                                            .n_heads = 4,
                                            .n_k_heads = 2,
                                            .k_dim = 32,
                                            .v_dim = 48,
                                            .conv_dim = 2 * 64 + 192,
                                            .n_taps = 4,
                                            .is_delta = true,
                                            .is_unit = true,
                                            .has_silu = true,
                                            .q_scale = 0.177f,
                                            .rate = 0.05f},
                                           {.name = "gated delta net, tiled",
                                            .n_heads = 6,
                                            .n_k_heads = 3,
                                            .k_dim = 128,
                                            .v_dim = 128,
                                            .conv_dim = 2 * 384 + 768,
                                            .n_taps = 4,
                                            .is_delta = true,
                                            .is_unit = true,
                                            .is_tiled = true,
                                            .has_silu = true,
                                            .q_scale = 0.088f,
                                            .rate = 0.3f}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ops_takes_case())
            check_whole(&cases[i]);
}

/* ---- gated norm ----------------------------------------------------------------------------- */

enum { GATED_ROWS = 7 };

static double gate_by(const ln_op_gated_norm *p, double x) {
    double sigmoid = 1 / (1 + exp(-x));
    return p->sigmoid ? sigmoid : x * sigmoid;
}

/* A row's group; `at` is where it begins in the row. */
static void gate_group(const ln_op_gated_norm *p, const float *weight, size_t at, const float *x,
                       const float *gate, double *out) {
    size_t n = p->dim / p->n_groups;
    const float *w = weight + (p->norm->dim == p->dim ? at : 0);
    double squares = 0, offset = p->norm->kind == LN_NORM_RMS_PLUS_ONE ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = (double)x[i] * (p->gate_first ? gate_by(p, (double)gate[i]) : 1);
        squares += out[i] * out[i];
    }
    double scale = 1 / sqrt(squares / (double)n + (double)p->norm->eps);
    for (size_t i = 0; i < n; i++) {
        if (p->norm->kind != LN_NORM_NONE)
            out[i] *= scale * ((double)w[i] + offset);
        out[i] *= p->gate_first ? 1 : gate_by(p, (double)gate[i]);
    }
}

static void check_gated_norm(ln_op_gated_norm p, bool in_place) {
    size_t n = GATED_ROWS * p.dim, width = p.dim / p.n_groups;
    float *x = noise_rows(n), *gate = noise_rows(n), *weight = noise_rows(p.dim);
    double *want = calloc(n, sizeof *want);
    assert_non_null(want);
    for (size_t i = 0; i < n; i++)
        gate[i] *= 4;
    for (size_t at = 0; at < n; at += width)
        gate_group(&p, weight, at % p.dim, x + at, gate + at, want + at);
    ln_norm norm = *p.norm;
    norm.weight = put(&subject, weight, norm.dim);
    ln_batch batch = {.n_tokens = GATED_ROWS};
    p.norm = &norm;
    p.n_rows = GATED_ROWS;
    p.x = put(&subject, x, n);
    p.gate = put(&subject, gate, n);
    p.out = in_place ? (float *)p.x : put(&subject, NULL, n);
    ln_op op = {.kind = LN_OP_GATED_NORM, .batch = &batch, .gated_norm = p};
    run_ops(&subject, &op, 1);
    float *got = get(&subject, p.out, n);
    free_placed(&subject);
    if (!(distance(got, NULL, want, n) < 5e-7))
        fail_msg("gated norm: error %g", distance(got, NULL, want, n));
    free(x), free(gate), free(weight), free(want), free(got);
}

static void gated_norm_is_precise(void **state) {
    (void)state;
    static const ln_norm whole = {.kind = LN_NORM_RMS, .eps = 1e-5f, .dim = 96},
                         each = {.kind = LN_NORM_RMS, .eps = 1e-5f, .dim = 32},
                         odd = {.kind = LN_NORM_RMS_PLUS_ONE, .eps = 1e-6f, .dim = 77},
                         none = {.kind = LN_NORM_NONE, .dim = 77};
    static const ln_op_gated_norm cases[] = {
        {.norm = &whole, .dim = 96, .n_groups = 1, .gate_first = true},
        {.norm = &whole, .dim = 96, .n_groups = 4, .gate_first = true},
        {.norm = &each, .dim = 96, .n_groups = 3},
        {.norm = &each, .dim = 96, .n_groups = 3, .sigmoid = true},
        {.norm = &odd, .dim = 77, .n_groups = 7},
        {.norm = &odd, .dim = 77, .n_groups = 1, .sigmoid = true, .gate_first = true},
        {.norm = &none, .dim = 77, .n_groups = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ops_takes_case())
            check_gated_norm(cases[i], i % 2 == 1);
}

const struct CMUnitTest recurrent_tests[] = {
    cmocka_unit_test(recurrent_layers_are_the_recurrence),
    cmocka_unit_test(gated_norm_is_precise),
    cmocka_unit_test(selective_scans_are_the_recurrence),
    cmocka_unit_test(linear_units_are_the_recurrence),
    cmocka_unit_test(large_heads_are_the_recurrence),
    cmocka_unit_test(doubled_updates_are_the_recurrence),
    cmocka_unit_test(convolutions_share_a_cache),
    cmocka_unit_test(tokens_add_to_taps),
    cmocka_unit_test(whole_layers_are_their_operations),
    cmocka_unit_test(selective_scans_have_keys_by_head),
};
const size_t n_recurrent_tests = sizeof recurrent_tests / sizeof *recurrent_tests;
