/* Compressed entries, an indexer's choice of them, and attention over a window, entries and a sink,
 * in steps that cut prompts. */
#include <stdlib.h>
#include <string.h>

#include "ops/prompts.h"

/* Two sequences of these many tokens. */
enum { N_FIRST = 340, N_TOKENS = 390, N_BLOCKS = 24 };
enum { HEADS = 3, INDEX_HEADS = 2, INDEX_DIM = 12, TURNING = 8 };

typedef struct entry_case {
    const char *name;
    ln_kv_dtype dtype;
    size_t dim, run, window;
    bool overlaps;
    size_t top_k;   /* entries that are chosen; 0: all are read */
    bool in_tokens; /* their tokens are read, and no entries */
} entry_case;

typedef struct entry_data {
    float *rows, *q, *k, *index_q, *index_keys, *weights, *bias, *norm, *inv_freq, *sinks;
    prompts prompts;
} entry_data;

typedef struct entry_results {
    float *attended;    /* [N_TOKENS][HEADS * dim] */
    int32_t *positions; /* [N_TOKENS][width_of] */
} entry_results;

static size_t row_width(const entry_case *c) {
    return (c->overlaps ? 4 : 2) * c->dim;
}

static size_t width_of(const entry_case *c) {
    return c->top_k == 0 ? 0 : ln_index_width(c->top_k, c->in_tokens ? c->run : 0);
}

static size_t block_entries(const entry_case *c) {
    return ln_kv_block_entries(c->run, BLOCK);
}

static entry_data make_data(const entry_case *c) {
    entry_data d = {.rows = noise_rows(N_TOKENS * row_width(c)),
                    .q = noise_rows(N_TOKENS * HEADS * c->dim),
                    .k = noise_rows(N_TOKENS * c->dim),
                    .index_q = small_integers((size_t)N_TOKENS * INDEX_HEADS * INDEX_DIM, 1),
                    .index_keys =
                        small_integers(N_SEQS * N_BLOCKS * block_entries(c) * INDEX_DIM, 1),
                    .weights = small_integers((size_t)N_TOKENS * INDEX_HEADS, 1),
                    .bias = noise_rows(c->run * row_width(c) / 2),
                    .norm = noise_rows(c->dim),
                    .inv_freq = noise_rows(TURNING / 2),
                    .sinks = noise_rows(HEADS),
                    .prompts = {N_FIRST, N_TOKENS, N_BLOCKS, 2, {{0}}}};
    fill_tables(&d.prompts, 0, 37, 0);
    fill_tables(&d.prompts, 1, 29, 5);
    return d;
}

static void free_data(entry_data *d) {
    free(d->rows), free(d->q), free(d->k), free(d->index_q), free(d->index_keys);
    free(d->weights), free(d->bias), free(d->norm), free(d->inv_freq), free(d->sinks);
}

/* Caches and what the operations point to. */
typedef struct placed {
    ln_kv_layer rows, entries, keys, index_keys;
    ln_norm norm;
    ln_rope rope;
    float *bias, *sinks;
} placed;

static ln_kv_layer place_cache(side *s, ln_kv_dtype dtype, size_t block_tokens, size_t dim) {
    ln_kv_layer kv = {.dtype = dtype,
                      .block_tokens = block_tokens,
                      .table_tokens = BLOCK,
                      .n_heads = 1,
                      .k_dim = dim,
                      .v_dim = dim,
                      .v_stride = dim};
    kv.k = kv.v = put_used(s, N_SEQS * N_BLOCKS * ln_kv_head_bytes(dtype, block_tokens, dim));
    return kv;
}

static placed place(side *s, const entry_case *c, const entry_data *d) {
    placed p = {.rows = place_cache(s, LN_KV_F32, BLOCK, row_width(c)),
                .entries = place_cache(s, c->dtype, block_entries(c), c->dim),
                .keys = place_cache(s, c->dtype, BLOCK, c->dim),
                .index_keys = place_cache(s, LN_KV_F32, block_entries(c), INDEX_DIM),
                .bias = put(s, d->bias, c->run * row_width(c) / 2),
                .sinks = put(s, d->sinks, HEADS)};
    p.entries.entry_tokens = p.index_keys.entry_tokens = c->run;
    p.entries.group = p.index_keys.group = 1;
    p.index_keys.k = p.index_keys.v =
        put(s, d->index_keys, N_SEQS * N_BLOCKS * block_entries(c) * INDEX_DIM);
    p.norm = (ln_norm){LN_NORM_RMS, 1e-5f, c->dim, put(s, d->norm, c->dim), NULL};
    p.rope =
        (ln_rope){LN_ROPE_INTERLEAVED, TURNING, put(s, d->inv_freq, TURNING / 2), 1.0f, 0, true};
    return p;
}

static size_t record(side *s, const entry_case *c, const entry_data *d, const placed *p,
                     const step *st, ln_op *ops) {
    const size_t n = st->batch.n_tokens;
    float *q = put_rows(s, st, d->q, HEADS * c->dim), *out = put(s, NULL, n * HEADS * c->dim);
    int32_t *positions = c->top_k > 0 ? put_ids(s, NULL, n * width_of(c)) : NULL;
    size_t n_ops = 0;
    ops[n_ops].kind = LN_OP_QKV;
    ops[n_ops++].qkv = (ln_op_qkv){.k = put_rows(s, st, d->rows, row_width(c)), .kv = &p->rows};
    ops[n_ops].kind = LN_OP_COMPRESS;
    ops[n_ops++].compress = (ln_op_compress){.rows = &p->rows,
                                             .entries = &p->entries,
                                             .overlaps = c->overlaps,
                                             .bias = p->bias,
                                             .norm = &p->norm,
                                             .rope = &p->rope};
    ops[n_ops].kind = LN_OP_QKV;
    ops[n_ops++].qkv = (ln_op_qkv){.q = q,
                                   .k = put_rows(s, st, d->k, c->dim),
                                   .n_heads = HEADS,
                                   .qk_norm = LN_QK_NORM_HEAD,
                                   .q_norm = &p->norm,
                                   .k_norm = &p->norm,
                                   .rope = &p->rope,
                                   .kv = &p->keys};
    if (c->top_k > 0) {
        ops[n_ops].kind = LN_OP_INDEX;
        ops[n_ops++].index =
            (ln_op_index){.q = put_rows(s, st, d->index_q, (size_t)INDEX_HEADS * INDEX_DIM),
                          .weights = put_rows(s, st, d->weights, INDEX_HEADS),
                          .kv = &p->index_keys,
                          .n_heads = INDEX_HEADS,
                          .top_k = c->top_k,
                          .in_tokens = c->in_tokens,
                          .positions = positions};
    }
    ops[n_ops].kind = LN_OP_ATTENTION;
    ops[n_ops++].attention = (ln_op_attention){.q = q,
                                               .kv = &p->keys,
                                               .n_heads = HEADS,
                                               .scale = 0.3f,
                                               .window = c->window,
                                               .sinks = p->sinks,
                                               .indices = positions,
                                               .top_k = width_of(c),
                                               .run_tokens = c->in_tokens ? c->run : 0,
                                               .entries = c->in_tokens ? NULL : &p->entries,
                                               .out = out};
    ops[n_ops].kind = LN_OP_QKV; /* back, of what was attended to alone */
    ops[n_ops++].qkv = (ln_op_qkv){.q = out, .n_heads = HEADS, .rope = &p->rope, .kv = &p->keys};
    for (size_t i = 0; i < n_ops; i++)
        ops[i].batch = &st->batch;
    return n_ops;
}

static void run_step(side *s, const entry_case *c, const entry_data *d, const placed *p,
                     const step *st, entry_results *r) {
    const size_t n_kept = s->n_placed, n = st->batch.n_tokens, width = HEADS * c->dim;
    ln_op ops[6] = {0};
    size_t n_ops = record(s, c, d, p, st, ops), n_chosen = width_of(c);
    run_ops(s, ops, n_ops);
    float *rows = get(s, ops[n_ops - 1].qkv.q, n * width), *chosen = NULL;
    if (c->top_k > 0)
        chosen = get(s, (float *)(void *)ops[n_ops - 3].index.positions, n * n_chosen);
    for (size_t i = 0; i < n; i++) {
        memcpy(r->attended + st->rows[i] * width, rows + i * width, width * sizeof *rows);
        if (chosen != NULL)
            memcpy(r->positions + st->rows[i] * n_chosen, chosen + i * n_chosen,
                   n_chosen * sizeof *chosen);
    }
    free(chosen), free(rows);
    free_placed_from(s, n_kept);
}

static entry_results run_chunks(side *s, const entry_case *c, const entry_data *d, size_t chunk) {
    entry_results r = {noise_rows(N_TOKENS * HEADS * c->dim),
                       calloc(N_TOKENS * width_of(c) + 1, sizeof *r.positions)};
    assert_non_null(r.positions);
    placed p = place(s, c, d);
    step st;
    for (size_t begin = 0; begin < N_FIRST; begin += chunk) {
        make_step(&st, &d->prompts, begin, begin + chunk);
        run_step(s, c, d, &p, &st, &r);
    }
    free_placed(s);
    return r;
}

static void free_results(entry_results *r) {
    free(r->attended), free(r->positions);
}

static void check_case(const entry_case *c) {
    static const double most[] = {
        [LN_KV_F32] = 5e-6, [LN_KV_F16] = 5e-4, [LN_KV_BF16] = 4e-3, [LN_KV_Q8_0] = 5e-3};
    if (!ops_takes_case())
        return;
    entry_data d = make_data(c);
    size_t n = N_TOKENS * HEADS * c->dim, n_ids = N_TOKENS * width_of(c);
    entry_results want = run_chunks(&oracle, c, &d, N_TOKENS);
    entry_results whole = run_chunks(&subject, c, &d, N_TOKENS);
    for (size_t i = 0; i < n_ids; i++)
        if (whole.positions[i] != want.positions[i])
            fail_msg("%s: token %zu reads %d, not %d", c->name, i / width_of(c),
                     (int)whole.positions[i], (int)want.positions[i]);
    assert_near(c->name, whole.attended, want.attended, n, most[c->dtype]);
    static const size_t chunks[] = {61, 1};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && !ops_is_brief; i++) {
        entry_results parts = run_chunks(&subject, c, &d, chunks[i]);
        assert_memory_equal(parts.positions, whole.positions, n_ids * sizeof *parts.positions);
        assert_memory_equal(parts.attended, whole.attended, n * sizeof *parts.attended);
        free_results(&parts);
    }
    free_data(&d);
    free_results(&want), free_results(&whole);
}

static void entries_are_those_of_scalar(void **state) {
    (void)state;
    static const entry_case cases[] = {
        {"runs of blocks' parts", LN_KV_F32, 16, 4, 30, .overlaps = true},
        {"runs across blocks", LN_KV_F32, 21, 5, 9, .overlaps = false},
        {"runs of many blocks", LN_KV_F32, 64, 50, 40, .overlaps = true},
        {"the largest heads", LN_KV_F32, 512, 128, 128, .overlaps = false},
        {"a run to a token", LN_KV_F16, 32, 1, 1, .overlaps = true},
        {"chosen entries", LN_KV_F32, 16, 4, 30, .overlaps = true, .top_k = 7},
        {"chosen of an f16 cache", LN_KV_F16, 512, 4, 128, .overlaps = true, .top_k = 33},
        {"chosen of a bf16 cache", LN_KV_BF16, 128, 3, 20, .top_k = 100},
        {"chosen of a q8 cache", LN_KV_Q8_0, 32, 3, 20, .top_k = 1},
        {"tokens of chosen entries", LN_KV_F32, 16, 4, .window = 0, .top_k = 7, .in_tokens = true},
        {"tokens of odd runs", LN_KV_F16, 24, 7, .window = 0, .top_k = 3, .in_tokens = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

const struct CMUnitTest entry_tests[] = {
    cmocka_unit_test(entries_are_those_of_scalar),
};
const size_t n_entry_tests = sizeof entry_tests / sizeof *entry_tests;
