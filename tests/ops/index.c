/* An indexer's choice of positions, and attention over such, in steps that cut prompts. */
#include <stdlib.h>
#include <string.h>

#include "ops/prompts.h"

/* Two sequences of these many tokens. */
enum { N_FIRST = 540, N_TOKENS = 600, N_BLOCKS = 40 };
/* Of the attention that reads what was chosen. */
enum { HEADS = 3, LATENT = 40, ROPE = 8, ROW = LATENT + ROPE };

typedef struct index_case {
    const char *name;
    ln_kv_dtype dtype;
    size_t n_heads, k_dim, top_k;
} index_case;

/* Queries, keys and weights are small integers, so that scores have no rounding and many are equal.
 */
typedef struct index_data {
    float *q, *k, *weights, *latent, *query, *inv_freq, *norm;
    prompts prompts;
} index_data;

/* What is chosen, [N_TOKENS][top_k] with -1 where there is nothing, and the attention's result. */
typedef struct index_results {
    int32_t *positions;
    float *attended; /* [N_TOKENS][HEADS * LATENT] */
} index_results;

static index_data make_data(const index_case *c) {
    index_data d = {.q = small_integers(N_TOKENS * c->n_heads * c->k_dim, 1),
                    .k = small_integers(N_TOKENS * c->k_dim, 1),
                    .weights = small_integers(N_TOKENS * c->n_heads, 2),
                    .latent = noise_rows(N_TOKENS * ROW),
                    .query = noise_rows(N_TOKENS * HEADS * ROW),
                    .inv_freq = noise_rows(ROPE),
                    .norm = noise_rows(LATENT),
                    .prompts = {N_FIRST, N_TOKENS, N_BLOCKS, 1, {{0}}}};
    fill_tables(&d.prompts, 0, 37, 0);
    return d;
}

static void free_data(index_data *d) {
    free(d->q), free(d->k), free(d->weights), free(d->latent), free(d->query);
    free(d->inv_freq), free(d->norm);
}

/* Both caches and what the operations point to. */
typedef struct placed {
    ln_kv_layer keys, latents;
    ln_norm norm;
    ln_rope rope;
} placed;

static placed place(side *s, const index_case *c, const index_data *d) {
    size_t n_slots = (size_t)N_SEQS * N_BLOCKS * BLOCK;
    ln_kv_layer kv = {.dtype = c->dtype, .block_tokens = BLOCK, .n_heads = 1};
    placed p = {.keys = kv, .latents = kv};
    p.keys.k_dim = p.keys.v_dim = p.keys.v_stride = c->k_dim;
    p.keys.k = p.keys.v = put_used(s, n_slots * c->k_dim * sizeof(float));
    p.latents.k_dim = p.latents.v_stride = ROW;
    p.latents.v_dim = LATENT;
    p.latents.k = p.latents.v = put_used(s, n_slots * ROW * sizeof(float));
    p.norm = (ln_norm){LN_NORM_RMS, 1e-5f, LATENT, put(s, d->norm, LATENT), NULL};
    p.rope = (ln_rope){LN_ROPE_INTERLEAVED, ROPE, put(s, d->inv_freq, ROPE), 1.0f, 0, false};
    return p;
}

static void run_step(side *s, const index_case *c, const index_data *d, const placed *p,
                     const step *st, index_results *r) {
    size_t n_kept = s->n_placed, n = st->batch.n_tokens, width = HEADS * LATENT;
    float *q = put_rows(s, st, d->q, c->n_heads * c->k_dim), *attended = put(s, NULL, n * width);
    float *query = put_rows(s, st, d->query, HEADS * ROW);
    int32_t *positions = put_ids(s, NULL, n * c->top_k);
    ln_op ops[4] = {{.kind = LN_OP_QKV, .batch = &st->batch},
                    {.kind = LN_OP_INDEX, .batch = &st->batch},
                    {.kind = LN_OP_LATENT, .batch = &st->batch},
                    {.kind = LN_OP_ATTENTION, .batch = &st->batch}};
    ops[0].qkv = (ln_op_qkv){
        .q = q, .k = put_rows(s, st, d->k, c->k_dim), .n_heads = c->n_heads, .kv = &p->keys};
    ops[1].index = (ln_op_index){.q = q,
                                 .weights = put_rows(s, st, d->weights, c->n_heads),
                                 .kv = &p->keys,
                                 .n_heads = c->n_heads,
                                 .top_k = c->top_k,
                                 .positions = positions};
    ops[2].latent = (ln_op_latent){.q = put_rows(s, st, d->query, HEADS * ROW),
                                   .latent = put_rows(s, st, d->latent, ROW),
                                   .norm = &p->norm,
                                   .rope = &p->rope,
                                   .n_heads = HEADS,
                                   .n_plain = LATENT,
                                   .kv = &p->latents,
                                   .out = query};
    ops[3].attention = (ln_op_attention){.q = query,
                                         .kv = &p->latents,
                                         .n_heads = HEADS,
                                         .scale = 0.3f,
                                         .indices = positions,
                                         .top_k = c->top_k,
                                         .out = attended};
    run_ops(s, ops, 4);
    float *chosen = get(s, (float *)(void *)positions, n * c->top_k);
    float *rows = get(s, attended, n * width);
    for (size_t i = 0; i < n; i++) {
        size_t n_seen = (size_t)st->positions[i] + 1, row = st->rows[i];
        n_seen = n_seen < c->top_k ? n_seen : c->top_k;
        memcpy(r->positions + row * c->top_k, chosen + i * c->top_k, n_seen * sizeof *chosen);
        memcpy(r->attended + row * width, rows + i * width, width * sizeof *rows);
    }
    free(chosen), free(rows);
    free_placed_from(s, n_kept);
}

static index_results run_chunks(side *s, const index_case *c, const index_data *d, size_t chunk) {
    size_t n = N_TOKENS * c->top_k;
    index_results r = {malloc(n * sizeof *r.positions), noise_rows(N_TOKENS * HEADS * LATENT)};
    assert_non_null(r.positions);
    memset(r.positions, 0xff, n * sizeof *r.positions);
    placed p = place(s, c, d);
    step st;
    for (size_t begin = 0; begin < N_FIRST; begin += chunk) {
        make_step(&st, &d->prompts, begin, begin + chunk);
        run_step(s, c, d, &p, &st, &r);
    }
    free_placed(s);
    return r;
}

static void free_results(index_results *r) {
    free(r->positions), free(r->attended);
}

static void check_case(const index_case *c) {
    if (!ops_takes_case())
        return;
    index_data d = make_data(c);
    size_t n = N_TOKENS * c->top_k, n_out = N_TOKENS * HEADS * LATENT;
    index_results want = run_chunks(&oracle, c, &d, N_TOKENS);
    index_results whole = run_chunks(&subject, c, &d, N_TOKENS);
    for (size_t i = 0; i < n; i++)
        if (whole.positions[i] != want.positions[i])
            fail_msg("%s: token %zu reads position %d, not %d", c->name, i / c->top_k,
                     (int)whole.positions[i], (int)want.positions[i]);
    assert_near(c->name, whole.attended, want.attended, n_out, c->dtype == LN_KV_F32 ? 5e-6 : 4e-4);
    static const size_t chunks[] = {61, 1};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && !ops_is_brief; i++) {
        index_results parts = run_chunks(&subject, c, &d, chunks[i]);
        assert_memory_equal(parts.positions, whole.positions, n * sizeof *parts.positions);
        assert_memory_equal(parts.attended, whole.attended, n_out * sizeof *parts.attended);
        free_results(&parts);
    }
    free_data(&d);
    free_results(&want), free_results(&whole);
}

static void the_best_positions_are_those_of_scalar(void **state) {
    (void)state;
    static const index_case cases[] = {
        {"one position", LN_KV_F32, 2, 16, 1},
        {"odd sizes", LN_KV_F32, 3, 21, 7},
        {"more than a slice", LN_KV_F32, 4, 64, 300},
        {"all but a few", LN_KV_F16, 1, 128, 530},
        {"all", LN_KV_F32, 2, 32, 560},
        {"an f16 cache", LN_KV_F16, 8, 128, 64},
        {"a bf16 cache", LN_KV_BF16, 64, 128, 33},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

/* ---- attention that is not latent over chosen positions -------------------------------------- */

typedef struct chosen_case {
    const char *name;
    ln_kv_dtype dtype;
    size_t n_heads, kv_heads, k_dim, v_dim, top_k;
} chosen_case;

typedef struct chosen_data {
    float *q, *k, *v;
    int32_t *positions; /* [N_TOKENS][top_k] */
    prompts prompts;
} chosen_data;

/* Tokens that see more than top_k have some of all that they see. */
static chosen_data choose(const chosen_case *c) {
    chosen_data d = {.q = noise_rows(N_TOKENS * c->n_heads * c->k_dim),
                     .k = noise_rows(N_TOKENS * c->kv_heads * c->k_dim),
                     .v = noise_rows(N_TOKENS * c->kv_heads * c->v_dim),
                     .positions = calloc(N_TOKENS * c->top_k, sizeof *d.positions),
                     .prompts = {N_FIRST, N_TOKENS, N_BLOCKS, 1, {{0}}}};
    assert_non_null(d.positions);
    for (size_t row = 0; row < N_TOKENS; row++) {
        size_t n = (row < N_FIRST ? row : row - N_FIRST) + 1;
        for (size_t i = 0; i < c->top_k; i++)
            d.positions[row * c->top_k + i] = (int32_t)(n > c->top_k ? i * n / c->top_k : i);
    }
    fill_tables(&d.prompts, 0, 37, 0);
    return d;
}

/* Adds the rows of a step to out [N_TOKENS][n_heads * v_dim]. */
static void attend_step(side *s, const chosen_case *c, const chosen_data *d, const ln_kv_layer *kv,
                        const step *st, float *out) {
    size_t n_kept = s->n_placed, n = st->batch.n_tokens, width = c->n_heads * c->v_dim;
    int32_t *chosen = malloc(n * c->top_k * sizeof *chosen);
    assert_non_null(chosen);
    for (size_t i = 0; i < n; i++)
        memcpy(chosen + i * c->top_k, d->positions + st->rows[i] * c->top_k,
               c->top_k * sizeof *chosen);
    float *q = put_rows(s, st, d->q, c->n_heads * c->k_dim), *attended = put(s, NULL, n * width);
    ln_op ops[2] = {{.kind = LN_OP_QKV, .batch = &st->batch},
                    {.kind = LN_OP_ATTENTION, .batch = &st->batch}};
    ops[0].qkv = (ln_op_qkv){.q = q,
                             .k = put_rows(s, st, d->k, c->kv_heads * c->k_dim),
                             .v = put_rows(s, st, d->v, c->kv_heads * c->v_dim),
                             .n_heads = c->n_heads,
                             .kv = kv};
    ops[1].attention = (ln_op_attention){.q = q,
                                         .kv = kv,
                                         .n_heads = c->n_heads,
                                         .scale = 0.3f,
                                         .indices = put_ids(s, chosen, n * c->top_k),
                                         .top_k = c->top_k,
                                         .out = attended};
    run_ops(s, ops, 2);
    float *rows = get(s, attended, n * width);
    for (size_t i = 0; i < n; i++)
        memcpy(out + st->rows[i] * width, rows + i * width, width * sizeof *rows);
    free(rows), free(chosen);
    free_placed_from(s, n_kept);
}

static float *attend_chunks(side *s, const chosen_case *c, const chosen_data *d, size_t chunk) {
    size_t n_slots = (size_t)N_SEQS * N_BLOCKS * BLOCK;
    ln_kv_layer kv = {.dtype = c->dtype,
                      .block_tokens = BLOCK,
                      .n_heads = c->kv_heads,
                      .k_dim = c->k_dim,
                      .v_dim = c->v_dim,
                      .v_stride = c->v_dim};
    kv.k = put_used(s, n_slots * c->kv_heads * (c->k_dim + 1) * sizeof(float));
    kv.v = put_used(s, n_slots * c->kv_heads * (c->v_dim + 1) * sizeof(float));
    float *out = noise_rows(N_TOKENS * c->n_heads * c->v_dim);
    step st;
    for (size_t begin = 0; begin < N_FIRST; begin += chunk) {
        make_step(&st, &d->prompts, begin, begin + chunk);
        attend_step(s, c, d, &kv, &st, out);
    }
    free_placed(s);
    return out;
}

static void check_chosen(const chosen_case *c) {
    if (!ops_takes_case())
        return;
    static const size_t chunks[] = {61, 1};
    size_t n = N_TOKENS * c->n_heads * c->v_dim;
    chosen_data d = choose(c);
    float *want = attend_chunks(&oracle, c, &d, N_TOKENS);
    float *whole = attend_chunks(&subject, c, &d, N_TOKENS);
    assert_near(c->name, whole, want, n, c->dtype == LN_KV_F32 ? 5e-6 : 4e-4);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && !ops_is_brief; i++) {
        float *parts = attend_chunks(&subject, c, &d, chunks[i]);
        assert_memory_equal(parts, whole, n * sizeof *parts);
        free(parts);
    }
    free(want), free(whole), free(d.q), free(d.k), free(d.v), free(d.positions);
}

static void heads_of_keys_are_read_where_they_are_chosen(void **state) {
    (void)state;
    static const chosen_case cases[] = {
        {"a head of keys", LN_KV_F32, 3, 1, 16, 16, 7},
        {"odd sizes", LN_KV_F32, 6, 2, 21, 13, 300},
        {"one of f16", LN_KV_F16, 4, 2, 64, 64, 33},
        {"one of bf16", LN_KV_BF16, 16, 2, 128, 128, 64},
        {"one of int8", LN_KV_Q8_0, 4, 4, 40, 24, 100},
        {"one of E4M3", LN_KV_FP8, 2, 1, 21, 32, 530},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_chosen(&cases[i]);
}

const struct CMUnitTest index_tests[] = {
    cmocka_unit_test(the_best_positions_are_those_of_scalar),
    cmocka_unit_test(heads_of_keys_are_read_where_they_are_chosen),
};
const size_t n_index_tests = sizeof index_tests / sizeof *index_tests;
