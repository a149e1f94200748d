/* What works on rows: embeddings, norms, what chooses experts and sums what they gave, samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/quants.h"
#include "ops/ops.h"

/* ---- norm ------------------------------------------------------------------------------------ */

typedef struct norm_case {
    ln_norm_kind kind;
    size_t dim, n_rows;
    bool has_rows, has_residual, in_place;
} norm_case;

enum { MAX_ROWS = 9 };
static const int32_t picked[MAX_ROWS] = {8, 0, 3, 3, 5, 1, 7, 2, 6};

static float *run_norm(side *s, const norm_case *c, const float *x, const float *residual,
                       const float *weight, const float *bias) {
    ln_norm norm = {.kind = c->kind, .eps = 1e-5f, .dim = c->dim};
    if (c->kind != LN_NORM_NONE)
        norm.weight = put(s, weight, c->dim);
    if (c->kind == LN_NORM_LAYER)
        norm.bias = put(s, bias, c->dim);
    ln_batch batch = {.n_logits = c->n_rows, .n_tokens = MAX_ROWS, .logit_rows = picked};
    float *x_memory = put(s, x, MAX_ROWS * c->dim);
    float *out = c->in_place ? x_memory : put(s, NULL, MAX_ROWS * c->dim);
    ln_op op = {.kind = LN_OP_NORM,
                .batch = &batch,
                .norm = {.norm = &norm,
                         .n_rows = c->n_rows,
                         .rows = c->has_rows ? batch.logit_rows : NULL,
                         .x = x_memory,
                         .residual = c->has_residual ? put(s, residual, MAX_ROWS * c->dim) : NULL,
                         .scale = 0.7f,
                         .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, c->n_rows * c->dim);
    free_placed(s);
    return result;
}

static void norm_is_that_of_scalar(void **state) {
    (void)state;
    static const size_t dims[] = {1, 83, 1024, 5001};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int kind = LN_NORM_RMS; kind <= LN_NORM_NONE; kind++)
            for (int variant = 0; variant < 4; variant++) {
                if (!ops_takes_case())
                    continue;
                norm_case c = {.kind = (ln_norm_kind)kind, .dim = dims[i], .n_rows = MAX_ROWS};
                c.has_rows = variant == 1;
                c.has_residual = variant >= 2;
                c.in_place = variant == 3;
                size_t n = MAX_ROWS * c.dim;
                float *x = noise_rows(n), *residual = noise_rows(n);
                float *weight = noise_rows(c.dim), *bias = noise_rows(c.dim);
                float *want = run_norm(&oracle, &c, x, residual, weight, bias);
                float *got = run_norm(&subject, &c, x, residual, weight, bias);
                assert_near("norm", got, want, n, 2e-6);
                c.n_rows = 2;
                float *some = run_norm(&subject, &c, x, residual, weight, bias);
                assert_memory_equal(some, got, c.n_rows * c.dim * sizeof *some);
                free(x), free(residual), free(weight), free(bias);
                free(want), free(got), free(some);
            }
}

/* Rows of a norm; n_rows of them. malloc'd. */
static float *norm_rows(side *s, const ln_norm *norm, size_t n_rows, const float *x,
                        const float *residual) {
    ln_norm placed = *norm;
    placed.weight = put(s, norm->weight, norm->dim);
    placed.bias = norm->bias != NULL ? put(s, norm->bias, norm->dim) : NULL;
    ln_batch batch = {.n_tokens = n_rows};
    float *out = put(s, NULL, n_rows * norm->dim);
    ln_op op = {.kind = LN_OP_NORM,
                .batch = &batch,
                .norm = {.norm = &placed,
                         .n_rows = n_rows,
                         .x = put(s, x, n_rows * norm->dim),
                         .residual = residual != NULL ? put(s, residual, n_rows * norm->dim) : NULL,
                         .scale = 0.7f,
                         .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, n_rows * norm->dim);
    free_placed(s);
    return result;
}

/* As prompts have them, for which backends may have other kernels than for few: the same bits. */
static void norms_of_many_rows_are_those_of_few(void **state) {
    (void)state;
    enum { N_MANY = 1001, N_FEW = 3 };
    static const size_t dims[] = {512, 516, 772, 1024, 1028, 2560, 5120};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int kind = LN_NORM_RMS; kind < LN_NORM_NONE; kind++) {
            if (!ops_takes_case())
                continue;
            size_t dim = dims[i], n = N_MANY * dim, first = (N_MANY - N_FEW) * dim;
            float *x = noise_rows(n), *residual = noise_rows(n);
            float *weight = noise_rows(dim), *bias = noise_rows(dim);
            ln_norm norm = {.kind = (ln_norm_kind)kind,
                            .eps = 1e-5f,
                            .dim = dim,
                            .weight = weight,
                            .bias = kind == LN_NORM_LAYER ? bias : NULL};
            const float *added = i % 2 == 0 ? NULL : residual;
            float *want = norm_rows(&oracle, &norm, N_MANY, x, added);
            float *many = norm_rows(&subject, &norm, N_MANY, x, added);
            float *few =
                norm_rows(&subject, &norm, N_FEW, x + first, added != NULL ? added + first : NULL);
            assert_near("norm of many rows", many, want, n, 2e-6);
            assert_memory_equal(many + first, few, N_FEW * dim * sizeof *few);
            free(x), free(residual), free(weight), free(bias);
            free(want), free(many), free(few);
        }
}

/* Two norms whose results lie side by side, as a head that drafts reads them; the first one gathers
 * rows of hidden states. */
static float *run_pair(side *s, size_t dim, const float *x, const float *weight) {
    ln_norm norm = {.kind = LN_NORM_RMS, .eps = 1e-5f, .dim = dim, .weight = put(s, weight, dim)};
    ln_batch batch = {.n_tokens = MAX_ROWS, .n_hidden = MAX_ROWS, .hidden_rows = picked};
    float *out = put(s, NULL, 2 * MAX_ROWS * dim);
    ln_op ops[2];
    for (size_t i = 0; i < 2; i++)
        ops[i] = (ln_op){.kind = LN_OP_NORM,
                         .batch = &batch,
                         .norm = {.norm = &norm,
                                  .n_rows = MAX_ROWS,
                                  .rows = i == 0 ? batch.hidden_rows : NULL,
                                  .x = put(s, x, MAX_ROWS * dim),
                                  .out = out,
                                  .out_stride = 2 * dim,
                                  .out_begin = (1 - i) * dim}};
    run_ops(s, ops, 2);
    float *result = get(s, out, 2 * MAX_ROWS * dim);
    free_placed(s);
    return result;
}

static void norms_lie_side_by_side(void **state) {
    (void)state;
    static const size_t dims[] = {5, 64, 1024};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        if (!ops_takes_case())
            continue;
        float *x = noise_rows(MAX_ROWS * dims[i]), *weight = noise_rows(dims[i]);
        float *want = run_pair(&oracle, dims[i], x, weight);
        float *got = run_pair(&subject, dims[i], x, weight);
        assert_near("norms side by side", got, want, 2 * MAX_ROWS * dims[i], 2e-6);
        free(x), free(weight), free(want), free(got);
    }
}

/* ---- experts --------------------------------------------------------------------------------- */

enum { TOKENS = 33, DIM = 301, MAX_USED = 8 };

typedef struct route_case {
    ln_router router;
    size_t n_experts, n_used, n_groups, n_groups_used;
    bool group_by_two, normalize, has_bias;
    size_t first, n_sorted; /* experts that are here; 0: all */
    bool zero_other_groups;
    size_t n_shared;
} route_case;

typedef struct route_result {
    int32_t *experts, *order, *starts;
    float *weights, *shared, *sums;
} route_result;

static route_result run_route(side *s, const route_case *c, size_t n_tokens, const float *logits,
                              const float *bias, const float *x) {
    size_t n_rows = n_tokens * c->n_used, n_here = c->n_sorted > 0 ? c->n_sorted : c->n_experts;
    ln_batch batch = {.n_tokens = n_tokens};
    ln_op ops[3] = {{.kind = LN_OP_ROUTE, .batch = &batch},
                    {.kind = LN_OP_GROUP, .batch = &batch},
                    {.kind = LN_OP_COMBINE, .batch = &batch}};
    size_t n_scores = c->n_experts + c->n_shared, n_shared = n_tokens * c->n_shared;
    ops[0].route = (ln_op_route){.logits = put(s, logits, n_tokens * n_scores),
                                 .n_shared = c->n_shared,
                                 .shared_weights = n_shared > 0 ? put(s, NULL, n_shared) : NULL,
                                 .bias = c->has_bias ? put(s, bias, c->n_experts) : NULL,
                                 .router = c->router,
                                 .n_experts = c->n_experts,
                                 .n_used = c->n_used,
                                 .n_groups = c->n_groups,
                                 .n_groups_used = c->n_groups_used,
                                 .group_by_two = c->group_by_two,
                                 .zero_other_groups = c->zero_other_groups,
                                 .normalize = c->normalize,
                                 .scale = 1.3f,
                                 .experts = put_ids(s, NULL, n_rows),
                                 .weights = put(s, NULL, n_rows)};
    ops[1].group = (ln_op_group){.experts = ops[0].route.experts,
                                 .n_rows = n_rows,
                                 .first_expert = c->first,
                                 .n_experts = n_here,
                                 .order = put_ids(s, NULL, n_rows),
                                 .starts = put_ids(s, NULL, n_here + 1)};
    ops[2].combine = (ln_op_combine){.x = put(s, x, n_rows * DIM),
                                     .weights = ops[0].route.weights,
                                     .n_used = c->n_used,
                                     .dim = DIM,
                                     .scale = 0.9f,
                                     .out = put(s, NULL, n_tokens * DIM)};
    if (c->normalize) {
        ops[2].combine.shared = put(s, x, n_tokens * DIM);
        ops[2].combine.residual = put(s, x, n_tokens * DIM);
    }
    if (c->has_bias && c->normalize)
        ops[2].combine.shared_gate = put(s, x, n_tokens);
    run_ops(s, ops, 3);
    route_result r = {.weights = get(s, ops[0].route.weights, n_rows),
                      .sums = get(s, ops[2].combine.out, n_tokens * DIM)};
    if (n_shared > 0)
        r.shared = get(s, ops[0].route.shared_weights, n_shared);
    r.experts = (int32_t *)(void *)get(s, (float *)(void *)ops[0].route.experts, n_rows);
    r.order = (int32_t *)(void *)get(s, (float *)(void *)ops[1].group.order, n_rows);
    r.starts = (int32_t *)(void *)get(s, (float *)(void *)ops[1].group.starts, n_here + 1);
    free_placed(s);
    return r;
}

static void free_route(route_result *r) {
    free(r->experts), free(r->order), free(r->starts), free(r->weights), free(r->sums);
    free(r->shared);
}

static void experts_are_those_of_scalar(void **state) {
    (void)state;
    static const route_case cases[] = {
        {LN_ROUTER_SOFTMAX, 8, 2, 0, 0, false, true, false, 0, 0, false, 0},
        {LN_ROUTER_SOFTMAX, 60, 4, 0, 0, false, false, false, 0, 0, false, 0},
        {LN_ROUTER_SOFTMAX_CHOSEN, 32, 4, 0, 0, false, false, false, 0, 0, false, 0},
        {LN_ROUTER_SIGMOID, 256, 8, 8, 4, true, true, true, 0, 0, false, 0},
        {LN_ROUTER_SOFTMAX, 64, 6, 8, 3, false, false, true, 0, 0, false, 0},
        {LN_ROUTER_SOFTMAX, 5, 5, 0, 0, false, true, true, 0, 0, false, 0},
        {LN_ROUTER_SIGMOID, 256, 6, 0, 0, false, true, true, 0, 0, false, 2},
        {LN_ROUTER_SIGMOID, 600, 8, 0, 0, false, true, true, 0, 0, false, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!ops_takes_case())
            continue;
        const route_case *c = &cases[i];
        float *logits = noise_rows(TOKENS * (c->n_experts + c->n_shared));
        float *bias = noise_rows(c->n_experts);
        float *x = noise_rows((size_t)TOKENS * MAX_USED * DIM);
        logits[1] = logits[0]; /* a tie */
        size_t n = TOKENS * c->n_used;
        route_result want = run_route(&oracle, c, TOKENS, logits, bias, x);
        route_result got = run_route(&subject, c, TOKENS, logits, bias, x);
        assert_memory_equal(got.experts, want.experts, n * sizeof *got.experts);
        assert_memory_equal(got.order, want.order, n * sizeof *got.order);
        assert_memory_equal(got.starts, want.starts, (c->n_experts + 1) * sizeof *got.starts);
        assert_near("weights of experts", got.weights, want.weights, n, 2e-6);
        if (c->n_shared > 0)
            assert_near("weights of shared experts", got.shared, want.shared, TOKENS * c->n_shared,
                        2e-6);
        assert_near("sums of experts", got.sums, want.sums, (size_t)TOKENS * DIM, 2e-6);
        route_result one = run_route(&subject, c, 1, logits, bias, x);
        assert_memory_equal(one.weights, got.weights, c->n_used * sizeof *one.weights);
        free_route(&want), free_route(&got), free_route(&one);
        free(logits), free(bias), free(x);
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { SAMPLED = 7 };

/* ids [SAMPLED], then the logits of these */
static int32_t *run_sample(side *s, const float *logits, size_t n_rows, size_t n_vocab) {
    ln_batch batch = {.n_logits = n_rows};
    int32_t *ids = put_ids(s, NULL, 2 * SAMPLED);
    ln_op op = {.kind = LN_OP_SAMPLE,
                .batch = &batch,
                .sample = {.logits = put(s, logits, n_rows * n_vocab),
                           .n_rows = n_rows,
                           .n_vocab = n_vocab,
                           .ids = ids,
                           .best = (float *)(void *)(ids + SAMPLED)}};
    run_ops(s, &op, 1);
    int32_t *got = (int32_t *)(void *)get(s, (float *)(void *)ids, 2 * SAMPLED);
    free_placed(s);
    return got;
}

static void samples_are_those_of_scalar(void **state) {
    (void)state;
    static const size_t vocabularies[] = {1, 5, 31, 1000, 1023, 32000, 50257};
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        if (!ops_takes_case())
            continue;
        size_t n = vocabularies[i], last = n - 1;
        float *logits = noise_rows(SAMPLED * n);
        int32_t wanted[SAMPLED] = {-1, -1, (int32_t)last, 0, -1, 0, (int32_t)(last / 2)};
        logits[n + draw(n)] = 3; /* two of the best: the lower id */
        logits[n + draw(n)] = 3;
        logits[2 * n + last] = INFINITY;
        for (size_t id = 0; id < n; id++)
            logits[3 * n + id] = -INFINITY;
        logits[4 * n + draw(n)] = NAN; /* the first one */
        logits[4 * n + draw(n)] = -NAN;
        logits[4 * n + draw(n)] = INFINITY;
        for (size_t id = 0; id < n; id++) /* zeros of both signs are equal */
            logits[5 * n + id] = id == 0 ? -0.0f : 0.0f;
        for (size_t id = 0; id < n; id++)
            logits[6 * n + id] = id == last / 2 ? -1 : -2;
        int32_t *want = run_sample(&oracle, logits, SAMPLED, n);
        int32_t *got = run_sample(&subject, logits, SAMPLED, n);
        int32_t *one = run_sample(&subject, logits + n, 1, n);
        for (size_t row = 0; row < SAMPLED; row++) {
            float best, logit = logits[row * n + (size_t)want[row]];
            assert_int_equal(got[row], want[row]);
            assert_true(wanted[row] < 0 || want[row] == wanted[row]);
            memcpy(&best, &got[SAMPLED + row], sizeof best);
            assert_memory_equal(&best, &logit, sizeof best);
        }
        assert_int_equal(one[0], got[1]);
        free(logits), free(want), free(got), free(one);
    }
}

/* ---- embed ---------------------------------------------------------------------------------- */

enum { VOCAB = 35, N_TOKENS = 6 };

static float *run_embed(side *s, const matrix *table, const matrix *learned, size_t dim) {
    static const int32_t tokens[N_TOKENS] = {0, 15, 16, 34, 31, 0},
                         positions[N_TOKENS] = {3, 4, 5, 0, 1, 2};
    ln_batch batch = {.n_tokens = N_TOKENS, .tokens = tokens, .positions = positions};
    ln_weight weights[2] = {put_weight(s, table, NULL), {0}};
    if (learned != NULL)
        weights[1] = put_weight(s, learned, NULL);
    float *out = put(s, NULL, N_TOKENS * dim);
    ln_op op = {.kind = LN_OP_EMBED,
                .batch = &batch,
                .embed = {.table = &weights[0],
                          .learned = learned != NULL ? &weights[1] : NULL,
                          .learned_offset = 2,
                          .scale = 1.5f,
                          .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, N_TOKENS * dim);
    free_placed(s);
    return result;
}

static void embed_looks_rows_up(void **state) {
    (void)state;
    for (int dtype = 0; dtype < LN_DTYPE_COUNT; dtype++) {
        if (!ln_can_dequantize((ln_dtype)dtype) || !ops_takes_case())
            continue;
        size_t dim = columns_of((ln_dtype)dtype, 77);
        matrix table = make_matrix((ln_dtype)dtype, VOCAB, dim);
        matrix learned = make_matrix(LN_DTYPE_F16, 8, dim);
        float *want = run_embed(&oracle, &table, dtype % 2 ? &learned : NULL, dim);
        float *got = run_embed(&subject, &table, dtype % 2 ? &learned : NULL, dim);
        assert_near(ln_dtype_name((ln_dtype)dtype), got, want, N_TOKENS * dim, 1e-7);
        free_matrix(&table), free_matrix(&learned);
        free(want), free(got);
    }
}

/* Rows of the table and of positions that lie one behind the other, whatever their width. */
static float *run_narrow(side *s, const float *x, size_t dim) {
    static const int32_t tokens[N_TOKENS] = {0, 15, 16, 34, 31, 0},
                         positions[N_TOKENS] = {3, 4, 5, 0, 1, 34};
    ln_batch batch = {.n_tokens = N_TOKENS, .tokens = tokens, .positions = positions};
    ln_weight weights[2];
    for (size_t i = 0; i < 2; i++)
        weights[i] = (ln_weight){.dtype = LN_DTYPE_F32,
                                 .n_rows = VOCAB,
                                 .n_cols = dim,
                                 .row_bytes = dim * sizeof *x,
                                 .data = put(s, x + i * VOCAB * dim, VOCAB * dim)};
    float *out = put(s, NULL, N_TOKENS * dim);
    ln_op op = {.kind = LN_OP_EMBED,
                .batch = &batch,
                .embed = {.table = &weights[0], .learned = &weights[1], .scale = 1.5f, .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, N_TOKENS * dim);
    free_placed(s);
    return result;
}

static void embed_looks_narrow_rows_up(void **state) {
    (void)state;
    static const size_t dims[] = {1, 2, 3, 6, 8, 12, 21};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        if (!ops_takes_case())
            continue;
        float *x = noise_rows(2 * VOCAB * dims[i]);
        float *want = run_narrow(&oracle, x, dims[i]), *got = run_narrow(&subject, x, dims[i]);
        assert_near("narrow rows", got, want, N_TOKENS * dims[i], 1e-7);
        free(x), free(want), free(got);
    }
}

/* Rows of hashed n-grams, of heads of six columns; malloc'd. */
enum { NGRAM_TOKENS = 3, NGRAM_HEADS = 2, NGRAM_DIM = 6, NGRAM_PART = 37, NGRAM_LAST = 20 };
static float *run_ngrams(side *s, const matrix *parts, const int32_t *tokens, const float *before) {
    enum { N_HEADS = (NGRAM_TOKENS - 1) * NGRAM_HEADS, N = N_TOKENS * N_HEADS * NGRAM_DIM };
    ln_batch batch = {.n_tokens = N_TOKENS, .tokens = tokens};
    ln_weight weights[2] = {put_weight(s, &parts[0], NULL), put_weight(s, &parts[1], NULL)};
    ln_ngrams ngrams = {.n_tokens = NGRAM_TOKENS,
                        .heads_per_length = NGRAM_HEADS,
                        .part_rows = NGRAM_PART,
                        .n_parts = 2,
                        .parts = weights,
                        .end = 7,
                        .factors = {12345678901, 98765432109, 55555555555},
                        .sizes = {11, 13, 14, 17},
                        .begins = {0, 11, 24, 38}};
    ngrams.device_parts = (const ln_weight *)(const void *)put(
        s, (const float *)(const void *)weights, 2 * (sizeof *weights / sizeof(float)));
    float *out = put(s, NULL, N);
    ln_op op = {.kind = LN_OP_EMBED,
                .batch = &batch,
                .embed = {.ngrams = &ngrams,
                          .before = put(s, before, N_TOKENS * (NGRAM_TOKENS - 1)),
                          .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, N);
    free_placed(s);
    return result;
}

static void embed_hashes_ngrams(void **state) {
    (void)state;
    enum { N = N_TOKENS * (NGRAM_TOKENS - 1) * NGRAM_HEADS * NGRAM_DIM };
    static const int32_t tokens[N_TOKENS] = {3, 9, 7, 4, 31, 0};
    static const float before[N_TOKENS * 2] = {0, 0, 4, 0, 10, 4, 8, 10, 5, 8, 32, 5};
    static const ln_dtype dtypes[] = {LN_DTYPE_F32, LN_DTYPE_BF16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!ops_takes_case())
            continue;
        matrix parts[] = {make_matrix(dtypes[i], NGRAM_PART, NGRAM_DIM),
                          make_matrix(dtypes[i], NGRAM_LAST, NGRAM_DIM)};
        float *want = run_ngrams(&oracle, parts, tokens, before);
        float *got = run_ngrams(&subject, parts, tokens, before);
        assert_near("n-grams", got, want, N, 1e-7);
        free(want), free(got), free_matrix(&parts[0]), free_matrix(&parts[1]);
    }
}

/* Rows of types are added to those of tokens: the first without `types`. */
static float *run_typed(side *s, const matrix *table, const matrix *of_types, const int32_t *types,
                        size_t dim) {
    static const int32_t tokens[N_TOKENS] = {0, 15, 16, 34, 31, 0};
    ln_batch batch = {.n_tokens = N_TOKENS, .tokens = tokens, .types = types};
    ln_weight weights[2] = {put_weight(s, table, NULL), put_weight(s, of_types, NULL)};
    float *out = put(s, NULL, N_TOKENS * dim);
    ln_op op = {.kind = LN_OP_EMBED,
                .batch = &batch,
                .embed = {.table = &weights[0], .types = &weights[1], .scale = 0.5f, .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, N_TOKENS * dim);
    free_placed(s);
    return result;
}

static void embed_adds_types(void **state) {
    (void)state;
    static const int32_t types[N_TOKENS] = {0, 0, 1, 1, 1, 0};
    enum { TYPED_DIM = 83 };
    if (!ops_takes_case())
        return;
    matrix table = make_matrix(LN_DTYPE_BF16, VOCAB, TYPED_DIM);
    matrix of_types = make_matrix(LN_DTYPE_F32, 2, TYPED_DIM);
    for (int i = 0; i < 2; i++) {
        const int32_t *own = i == 0 ? types : NULL;
        float *want = run_typed(&oracle, &table, &of_types, own, TYPED_DIM);
        float *got = run_typed(&subject, &table, &of_types, own, TYPED_DIM);
        assert_near("embed with types", got, want, N_TOKENS * TYPED_DIM, 1e-7);
        free(want), free(got);
    }
    free_matrix(&table), free_matrix(&of_types);
}

/* ---- pointwise ------------------------------------------------------------------------------ */

static float *run_pointwise(side *s, ln_op_pointwise p, const float *x, const float *gate) {
    static const int32_t positions[N_TOKENS] = {0, 7, 8, 31, 32, 4000};
    ln_batch batch = {.n_tokens = N_TOKENS, .positions = positions};
    size_t rows_per_x = p.rows_per_x > 0 ? p.rows_per_x : 1;
    p.n_rows = N_TOKENS;
    p.x = put(s, x, N_TOKENS / rows_per_x * p.dim);
    size_t gate_stride = p.gate_stride > 0 ? p.gate_stride : p.n_gates;
    p.gate = p.n_gates > 0 ? put(s, gate, N_TOKENS * gate_stride) : NULL;
    p.out = rows_per_x > 1 ? put(s, NULL, N_TOKENS * p.dim) : (float *)p.x;
    ln_op op = {.kind = LN_OP_POINTWISE, .batch = &batch, .pointwise = p};
    run_ops(s, &op, 1);
    float *result = get(s, p.out, N_TOKENS * p.dim);
    free_placed(s);
    return result;
}

static void pointwise_is_that_of_scalar(void **state) {
    (void)state;
    static const ln_op_pointwise cases[] = {
        {.function = LN_POINTWISE_GATE, .dim = 96, .n_gates = 96},
        {.function = LN_POINTWISE_GATE, .dim = 96, .n_gates = 3},
        {.function = LN_POINTWISE_ACTIVATED_GATE,
         .dim = 83,
         .n_gates = 83,
         .activation = LN_ACT_GELU},
        {.function = LN_POINTWISE_ACTIVATED_GATE,
         .dim = 96,
         .n_gates = 96,
         .activation = LN_ACT_RELU_SQUARED},
        {.function = LN_POINTWISE_SCALE, .dim = 83, .n_gates = 1, .rows_per_x = 3},
        {.function = LN_POINTWISE_SCALE, .dim = 83, .n_gates = 1, .one_gate = true},
        {.function = LN_POINTWISE_SCALE,
         .dim = 24,
         .n_gates = 24,
         .gate_begin = 7,
         .gate_stride = 60},
        {.function = LN_POINTWISE_ADD, .dim = 96, .n_gates = 96, .scale = 0.7f},
        {.function = LN_POINTWISE_XIELU, .dim = 301, .xielu = {0.8f, 0.7f, 0.5f, -1e-6f}},
        {.function = LN_POINTWISE_EXP_SOFTPLUS, .dim = 5, .n_gates = 5, .one_gate = true},
        {.function = LN_POINTWISE_LIMITED_SILU, .dim = 83, .n_gates = 83, .limit = 0.25f},
        {.function = LN_POINTWISE_CLAMP, .dim = 83, .limit = 0.25f},
        {.function = LN_POINTWISE_CAPPED_SWIGLU,
         .dim = 83,
         .n_gates = 83,
         .limit = 0.5f,
         .scale = 0.75f},
        {.function = LN_POINTWISE_QUERY_SCALE, .dim = 301, .q_scale = {0.1f, 8.0f, 0.0f}},
        {.function = LN_POINTWISE_QUERY_SCALE, .dim = 24, .q_scale = {1.0f, 32.0f, 1.0f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!ops_takes_case())
            continue;
        size_t n = N_TOKENS * cases[i].dim, stride = cases[i].gate_stride;
        float *x = noise_rows(n), *gate = noise_rows(N_TOKENS * stride > n ? N_TOKENS * stride : n);
        float *want = run_pointwise(&oracle, cases[i], x, gate);
        float *got = run_pointwise(&subject, cases[i], x, gate);
        assert_near("pointwise", got, want, n, 1e-6);
        free(x), free(gate), free(want), free(got);
    }
}

static void pointwise_gates_are_those_of_scalar(void **state) {
    (void)state;
    static const ln_op_pointwise cases[] = {
        {.function = LN_POINTWISE_SOFTPLUS_GATE, .dim = 96, .n_gates = 96},
        {.function = LN_POINTWISE_SOFTPLUS_GATE, .dim = 96, .n_gates = 3},
        {.function = LN_POINTWISE_CLAMPED_SWIGLU,
         .dim = 83,
         .n_gates = 83,
         .limit = 0.25f,
         .scale = 1.5f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!ops_takes_case())
            continue;
        size_t n = N_TOKENS * cases[i].dim;
        float *x = noise_rows(n), *gate = noise_rows(n);
        gate[0] = 30.0f;
        float *want = run_pointwise(&oracle, cases[i], x, gate);
        float *got = run_pointwise(&subject, cases[i], x, gate);
        float limit = cases[i].limit, g = fminf(gate[5], limit);
        float up = fmaxf(fminf(x[5], limit), -limit);
        float expected = limit > 0 ? (up + 1.0f) * g / (1.0f + expf(-cases[i].scale * g))
                                   : x[5] * log1pf(expf(gate[cases[i].n_gates == 96 ? 5 : 0]));
        if (cases[i].n_gates == 3) /* of the first 32 elements */
            expected = x[5] * 30.0f;
        assert_true(fabsf(want[5] - expected) <= 1e-5f * (1.0f + fabsf(expected)));
        assert_near("pointwise", got, want, n, 1e-6);
        free(x), free(gate), free(want), free(got);
    }
}

/* ---- functions of whole rows ----------------------------------------------------------------- */

enum { N_STREAMS = 3, ROWWISE_DIM = 301 };

/* What was written: N_TOKENS rows, and those of the streams. */
static float *run_rowwise(side *s, ln_rowwise function, const float *x, const float *y,
                          const float *coefs, const float *streams) {
    const size_t dim = ROWWISE_DIM, n_all = N_STREAMS + 1;
    bool has_streams = function == LN_ROWWISE_PREDICT || function == LN_ROWWISE_CORRECT;
    ln_op_rowwise p = {.function = function,
                       .n_rows = N_TOKENS,
                       .dim = dim,
                       .n_streams = N_STREAMS,
                       .activation = LN_ACT_GELU_TANH,
                       .deviations = 0.5f,
                       .x = put(s, x, N_TOKENS * dim),
                       .out = put(s, NULL, N_TOKENS * dim)};
    p.y = function != LN_ROWWISE_PREDICT ? put(s, y, N_TOKENS * dim) : NULL;
    p.coefs = has_streams ? put(s, coefs, N_TOKENS * n_all * n_all) : NULL;
    p.streams = has_streams ? put(s, streams, N_TOKENS * N_STREAMS * dim) : NULL;
    ln_batch batch = {.n_tokens = N_TOKENS};
    ln_op op = {.kind = LN_OP_ROWWISE, .batch = &batch, .rowwise = p};
    run_ops(s, &op, 1);
    float *result = calloc(N_TOKENS * n_all * dim, sizeof *result);
    float *out = get(s, p.out, N_TOKENS * dim);
    memcpy(result, out, N_TOKENS * dim * sizeof *out);
    free(out);
    if (has_streams) {
        float *rows = get(s, p.streams, N_TOKENS * N_STREAMS * dim);
        memcpy(result + N_TOKENS * dim, rows, N_TOKENS * N_STREAMS * dim * sizeof *rows);
        free(rows);
    }
    free_placed(s);
    return result;
}

static void rowwise_is_that_of_scalar(void **state) {
    (void)state;
    for (int function = LN_ROWWISE_SPARSE_GATE; function <= LN_ROWWISE_CORRECT; function++) {
        if (!ops_takes_case())
            continue;
        size_t n = N_TOKENS * (N_STREAMS + 1) * (size_t)ROWWISE_DIM;
        float *x = noise_rows(n), *y = noise_rows(n), *coefs = noise_rows(n);
        float *streams = noise_rows(n);
        float *want = run_rowwise(&oracle, (ln_rowwise)function, x, y, coefs, streams);
        float *got = run_rowwise(&subject, (ln_rowwise)function, x, y, coefs, streams);
        assert_near("rowwise", got, want, n, 1e-5);
        free(x), free(y), free(coefs), free(streams), free(want), free(got);
    }
}

/* Rows at a length of at most `limit`, and what attends to n_used of N_STREAMS streams. */
static float *run_block_rows(side *s, bool attends, bool raw_values, size_t n_rows, size_t n_used,
                             const float *x, const float *streams) {
    const size_t n = n_rows * ROWWISE_DIM;
    ln_batch batch = {.n_tokens = n_rows};
    ln_op op = {
        .kind = LN_OP_ROWWISE,
        .batch = &batch,
        .rowwise = {.function = attends ? LN_ROWWISE_STREAM_ATTENTION : LN_ROWWISE_CLIP_NORM,
                    .n_rows = n_rows,
                    .dim = ROWWISE_DIM,
                    .n_streams = N_STREAMS,
                    .n_used = n_used,
                    .eps = 1e-6f,
                    .limit = 4.0f,
                    .raw_values = raw_values,
                    .query = put(s, streams, ROWWISE_DIM),
                    .x = put(s, x, n),
                    .out = put(s, NULL, n)}};
    op.rowwise.streams = attends ? put(s, streams, n * N_STREAMS) : NULL;
    run_ops(s, &op, 1);
    float *result = get(s, op.rowwise.out, n);
    free_placed(s);
    return result;
}

/* The same where streams are summed as they are. */
static void check_raw_blocks(size_t n_used, const float *x, const float *streams) {
    size_t n = (size_t)N_TOKENS * ROWWISE_DIM;
    float *want = run_block_rows(&oracle, true, true, N_TOKENS, n_used, x, streams);
    float *got = run_block_rows(&subject, true, true, N_TOKENS, n_used, x, streams);
    float *one = run_block_rows(&subject, true, true, 1, n_used, x, streams);
    if (n_used == 0)
        assert_true(fabsf(want[5] - x[5]) < 1e-6f);
    assert_near("rows and raw blocks", got, want, n, 1e-5);
    assert_memory_equal(one, got, ROWWISE_DIM * sizeof *one);
    free(want), free(got), free(one);
}

static void rows_attend_to_blocks(void **state) {
    (void)state;
    for (size_t n_used = 0; n_used <= N_STREAMS + 1; n_used++) {
        bool attends = n_used <= N_STREAMS;
        if (!ops_takes_case())
            continue;
        size_t n = (size_t)N_TOKENS * ROWWISE_DIM;
        float *x = noise_rows(n), *streams = noise_rows(n * N_STREAMS);
        float *want = run_block_rows(&oracle, attends, false, N_TOKENS, n_used, x, streams);
        float *got = run_block_rows(&subject, attends, false, N_TOKENS, n_used, x, streams);
        float *one = run_block_rows(&subject, attends, false, 1, n_used, x, streams);
        double length = 0, mean = 0;
        for (size_t i = 0; i < ROWWISE_DIM; i++) {
            length += (double)want[i] * (double)want[i];
            mean += (double)x[i] * (double)x[i] / ROWWISE_DIM;
        }
        if (!attends) /* rows of noise are longer */
            assert_true(fabs(sqrt(length) - 4) < 1e-4);
        if (n_used == 0) /* nothing but x, normalised */
            assert_true(fabs((double)want[5] - (double)x[5] / sqrt(mean + 1e-6)) < 1e-5);
        assert_near("rows and blocks", got, want, n, 1e-5);
        assert_memory_equal(one, got, ROWWISE_DIM * sizeof *one);
        if (attends)
            check_raw_blocks(n_used, x, streams);
        free(x), free(streams), free(want), free(got), free(one);
    }
}

/* Roots of products of rows; malloc'd. */
static float *run_roots_of_rows(side *s, const float *x, const float *y) {
    ln_batch batch = {.n_tokens = N_TOKENS};
    ln_op op = {.kind = LN_OP_ROWWISE,
                .batch = &batch,
                .rowwise = {.function = LN_ROWWISE_SIGNED_ROOT,
                            .n_rows = N_TOKENS,
                            .dim = ROWWISE_DIM,
                            .x = put(s, x, N_TOKENS * ROWWISE_DIM),
                            .y = put(s, y, N_TOKENS * ROWWISE_DIM),
                            .out = put(s, NULL, N_TOKENS)}};
    run_ops(s, &op, 1);
    float *result = get(s, op.rowwise.out, N_TOKENS);
    free_placed(s);
    return result;
}

static void rows_give_signed_roots(void **state) {
    (void)state;
    if (!ops_takes_case())
        return;
    float *x = noise_rows(N_TOKENS * ROWWISE_DIM), *y = noise_rows(N_TOKENS * ROWWISE_DIM);
    memset(x, 0, ROWWISE_DIM * sizeof *x); /* no sign, and one that is too small for its root */
    for (size_t i = 0; i < ROWWISE_DIM; i++)
        x[ROWWISE_DIM + i] = i == 0 ? copysignf(1e-12f, -y[ROWWISE_DIM]) : 0.0f;
    float *want = run_roots_of_rows(&oracle, x, y), *got = run_roots_of_rows(&subject, x, y);
    assert_true(want[0] == 0.0f && want[1] < -0.9e-3f && want[1] > -1.1e-3f);
    assert_near("signed roots", got, want, N_TOKENS, 1e-5);
    free(x), free(y), free(want), free(got);
}

/* ---- streams that mix ------------------------------------------------------------------------ */

/* Streams of n_rows rows after they have mixed by a matrix of x; malloc'd. */
static float *run_mix(side *s, size_t n_rows, size_t n, const float *mixes, const float *x,
                      const float *streams) {
    const size_t dim = ROWWISE_DIM, width = (2 + n) * n;
    ln_batch batch = {.n_tokens = n_rows};
    ln_op ops[2] = {{.kind = LN_OP_ROWWISE, .batch = &batch},
                    {.kind = LN_OP_ROWWISE, .batch = &batch}};
    ops[0].rowwise = (ln_op_rowwise){.function = LN_ROWWISE_SINKHORN,
                                     .n_rows = n_rows,
                                     .dim = width,
                                     .n_streams = n,
                                     .eps = 1e-6f,
                                     .n_rounds = 20,
                                     .x = put(s, mixes, n_rows * width),
                                     .out = put(s, NULL, n_rows * n * n)};
    ops[1].rowwise = (ln_op_rowwise){.function = LN_ROWWISE_MIX,
                                     .n_rows = n_rows,
                                     .dim = dim,
                                     .n_streams = n,
                                     .x = put(s, x, n_rows * dim),
                                     .y = put(s, mixes, n_rows * n),
                                     .coefs = ops[0].rowwise.out,
                                     .streams = put(s, streams, n_rows * n * dim)};
    run_ops(s, ops, 2);
    float *result = get(s, ops[1].rowwise.streams, n_rows * n * dim);
    free_placed(s);
    return result;
}

static void streams_mix_as_those_of_scalar(void **state) {
    (void)state;
    static const size_t counts[] = {2, 3, 4, LN_MAX_MIXED};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!ops_takes_case())
            continue;
        size_t n = counts[i], of_row = n * ROWWISE_DIM;
        float *mixes = noise_rows(N_TOKENS * (2 + n) * n), *x = noise_rows(N_TOKENS * ROWWISE_DIM);
        float *streams = noise_rows(N_TOKENS * of_row);
        float *want = run_mix(&oracle, N_TOKENS, n, mixes, x, streams);
        float *got = run_mix(&subject, N_TOKENS, n, mixes, x, streams);
        float *one = run_mix(&subject, 1, n, mixes, x, streams);
        assert_near("streams", got, want, N_TOKENS * of_row, 1e-5);
        assert_memory_equal(one, got, of_row * sizeof *one);
        free(mixes), free(x), free(streams), free(want), free(got), free(one);
    }
}

/* ---- experts of a table ---------------------------------------------------------------------- */

enum { TABLE_USED = 6 };

/* Experts and their weights by roots of softplus: those of a table, or the best; malloc'd. */
static route_result run_roots(side *s, size_t n_tokens, size_t n_experts, const float *logits,
                              const int32_t *table, const int32_t *tokens) {
    size_t n_rows = n_tokens * TABLE_USED;
    ln_batch batch = {.n_tokens = n_tokens, .tokens = tokens};
    ln_op ops[2] = {{.kind = LN_OP_ROUTE, .batch = &batch}, {.kind = LN_OP_GROUP, .batch = &batch}};
    ops[0].route =
        (ln_op_route){.logits = put(s, logits, n_tokens * n_experts),
                      .by_token = table != NULL ? put_ids(s, table, VOCAB * TABLE_USED) : NULL,
                      .router = LN_ROUTER_ROOT_SOFTPLUS,
                      .n_experts = n_experts,
                      .n_used = TABLE_USED,
                      .normalize = true,
                      .scale = 1.5f,
                      .experts = put_ids(s, NULL, n_rows),
                      .weights = put(s, NULL, n_rows)};
    ops[1].group = (ln_op_group){.experts = ops[0].route.experts,
                                 .n_rows = n_rows,
                                 .n_experts = n_experts,
                                 .order = put_ids(s, NULL, n_rows),
                                 .starts = put_ids(s, NULL, n_experts + 1)};
    run_ops(s, ops, 2);
    route_result r = {.weights = get(s, ops[0].route.weights, n_rows)};
    r.experts = (int32_t *)(void *)get(s, (float *)(void *)ops[0].route.experts, n_rows);
    r.order = (int32_t *)(void *)get(s, (float *)(void *)ops[1].group.order, n_rows);
    free_placed(s);
    return r;
}

/* More experts than a warp's lanes hold choose by another path. */
static void roots_of_softplus_and_tables_choose_experts(void **state) {
    (void)state;
    static const size_t n_experts[] = {8, 256, 600};
    for (size_t i = 0; i < 2 * sizeof n_experts / sizeof *n_experts; i++) {
        if (!ops_takes_case())
            continue;
        size_t n = n_experts[i / 2], n_rows = (size_t)TOKENS * TABLE_USED;
        float *logits = noise_rows(TOKENS * n);
        int32_t table[VOCAB * TABLE_USED], tokens[TOKENS];
        for (size_t id = 0; id < VOCAB; id++)
            for (size_t j = 0, first = draw(n); j < TABLE_USED; j++)
                table[id * TABLE_USED + j] = (int32_t)((first + j) % n);
        for (size_t token = 0; token < TOKENS; token++)
            tokens[token] = (int32_t)draw(VOCAB);
        for (size_t j = 0; j < n; j++)
            logits[j] *= 90.0f; /* of a token: softplus of what is far from 0 */
        const int32_t *rows = i % 2 == 1 ? table : NULL;
        route_result want = run_roots(&oracle, TOKENS, n, logits, rows, tokens);
        route_result got = run_roots(&subject, TOKENS, n, logits, rows, tokens);
        route_result one = run_roots(&subject, 1, n, logits, rows, tokens);
        assert_memory_equal(got.experts, want.experts, n_rows * sizeof *got.experts);
        assert_memory_equal(got.order, want.order, n_rows * sizeof *got.order);
        assert_near("weights of experts", got.weights, want.weights, n_rows, 2e-6);
        assert_memory_equal(one.experts, got.experts, TABLE_USED * sizeof *one.experts);
        assert_memory_equal(one.weights, got.weights, TABLE_USED * sizeof *one.weights);
        free_route(&want), free_route(&got), free_route(&one);
        free(logits);
    }
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* Experts of up to four tokens, which a block chooses or sorts at once. */
static void few_tokens_find_their_experts(void **state) {
    (void)state;
    static const route_case cases[] = {
        {LN_ROUTER_SOFTMAX, 256, 8, 0, 0, false, true, false, 0, 0, false, 0},
        {LN_ROUTER_SIGMOID, 64, 6, 8, 3, true, true, true, 0, 0, false, 0},
        {LN_ROUTER_SOFTMAX_CHOSEN, 32, 4, 0, 0, false, false, false, 8, 13, false, 0},
        {LN_ROUTER_SOFTMAX, 5, 5, 0, 0, false, true, true, 3, 2, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n_tokens = 1; n_tokens <= 4; n_tokens++) {
            const route_case *c = &cases[i];
            size_t n = n_tokens * c->n_used, n_here = c->n_sorted > 0 ? c->n_sorted : c->n_experts;
            float *logits = noise_rows(n_tokens * c->n_experts), *bias = noise_rows(c->n_experts);
            float *x = noise_rows((size_t)n_tokens * MAX_USED * DIM);
            route_result want = run_route(&oracle, c, n_tokens, logits, bias, x);
            route_result got = run_route(&subject, c, n_tokens, logits, bias, x);
            assert_memory_equal(got.experts, want.experts, n * sizeof *got.experts);
            assert_memory_equal(got.starts, want.starts, (n_here + 1) * sizeof *got.starts);
            assert_memory_equal(got.order, want.order,
                                (size_t)want.starts[n_here] * sizeof *got.order);
            assert_near("weights of experts", got.weights, want.weights, n, 2e-6);
            free_route(&want), free_route(&got);
            free(logits), free(bias), free(x);
        }
}

/* Biases below zero let experts of groups that are not used win with 0. */
static void experts_of_other_groups_compete(void **state) {
    (void)state;
    static const route_case c = {LN_ROUTER_SIGMOID, 64, 6, 8, 3, true, true, true, 0, 0, true, 0};
    float *logits = noise_rows(TOKENS * c.n_experts), *bias = noise_rows(c.n_experts);
    float *x = noise_rows((size_t)TOKENS * MAX_USED * DIM);
    for (size_t i = 0; i < c.n_experts; i++)
        bias[i] = bias[i] * 0.5f - 0.6f;
    for (size_t n_tokens = 1; n_tokens <= TOKENS; n_tokens += TOKENS - 1) {
        route_result want = run_route(&oracle, &c, n_tokens, logits, bias, x);
        route_result got = run_route(&subject, &c, n_tokens, logits, bias, x);
        assert_memory_equal(got.experts, want.experts, n_tokens * c.n_used * sizeof *got.experts);
        assert_near("weights of experts", got.weights, want.weights, n_tokens * c.n_used, 2e-6);
        free_route(&want), free_route(&got);
    }
    free(logits), free(bias), free(x);
}

/* Two linears of x [n_rows][n_in], which are recorded together or apart; malloc'd: what both give,
 * the narrow one's first. */
static float *run_linears(side *s, bool together, size_t n_rows, size_t n_in, const size_t n_out[2],
                          const float *x, float *const weights[2]) {
    ln_batch batch = {.n_tokens = n_rows};
    float *out = calloc(n_rows * (n_out[0] + n_out[1]), sizeof *out), *at = out;
    ln_weight matrices[2];
    ln_op ops[2];
    assert_non_null(out);
    float *placed_x = put(s, x, n_rows * n_in);
    for (size_t i = 0; i < 2; i++) {
        matrices[i] = (ln_weight){.dtype = LN_DTYPE_F32,
                                  .n_rows = n_out[i],
                                  .n_cols = n_in,
                                  .row_bytes = n_in * sizeof(float),
                                  .data = put(s, weights[i], n_out[i] * n_in)};
        ops[i] = (ln_op){.kind = LN_OP_LINEAR, .batch = &batch};
        ops[i].linear = (ln_op_linear){.weight = &matrices[i],
                                       .n_rows = n_rows,
                                       .x = placed_x,
                                       .scale = 1.0f,
                                       .out = put(s, NULL, n_rows * n_out[i])};
    }
    run_ops(s, ops, together ? 2 : 1);
    if (!together)
        run_ops(s, ops + 1, 1);
    for (size_t i = 0; i < 2; i++) {
        float *got = get(s, ops[i].linear.out, n_rows * n_out[i]);
        memcpy(at, got, n_rows * n_out[i] * sizeof *got);
        at += n_rows * n_out[i];
        free(got);
    }
    free_placed(s);
    return out;
}

/* As the gate of a shared expert and a router are. */
static void narrow_linears_go_with_wide_ones(void **state) {
    (void)state;
    static const size_t shapes[][4] = {/* rows, columns of x, of both results */
                                       {1, 2048, 1, 256}, {1, 40, 3, 5},   {4, 512, 1, 60},
                                       {64, 96, 1, 128},  {127, 40, 2, 9}, {128, 40, 2, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t *n = shapes[i];
        float *x = noise_rows(n[0] * n[1]);
        float *weights[2] = {noise_rows(n[2] * n[1]), noise_rows(n[3] * n[1])};
        size_t n_all = n[0] * (n[2] + n[3]);
        float *want = run_linears(&oracle, true, n[0], n[1], n + 2, x, weights);
        float *got = run_linears(&subject, true, n[0], n[1], n + 2, x, weights);
        float *apart = run_linears(&subject, false, n[0], n[1], n + 2, x, weights);
        assert_near("two linears", got, want, n_all, LINEAR_ERROR);
        assert_memory_equal(got, apart, n_all * sizeof *got);
        free(x), free(weights[0]), free(weights[1]), free(want), free(got), free(apart);
    }
}

const struct CMUnitTest row_tests[] = {
    cmocka_unit_test(norms_lie_side_by_side),
    cmocka_unit_test(embed_adds_types),
    cmocka_unit_test(embed_hashes_ngrams),
    cmocka_unit_test(rows_give_signed_roots),
    cmocka_unit_test(norm_is_that_of_scalar),
    cmocka_unit_test(norms_of_many_rows_are_those_of_few),
    cmocka_unit_test(experts_are_those_of_scalar),
    cmocka_unit_test(samples_are_those_of_scalar),
    cmocka_unit_test(embed_looks_rows_up),
    cmocka_unit_test(embed_looks_narrow_rows_up),
    cmocka_unit_test(pointwise_is_that_of_scalar),
    cmocka_unit_test(rowwise_is_that_of_scalar),
    cmocka_unit_test(rows_attend_to_blocks),
    cmocka_unit_test(pointwise_gates_are_those_of_scalar),
    cmocka_unit_test(few_tokens_find_their_experts),
    cmocka_unit_test(narrow_linears_go_with_wide_ones),
    cmocka_unit_test(experts_of_other_groups_compete),
    cmocka_unit_test(streams_mix_as_those_of_scalar),
    cmocka_unit_test(roots_of_softplus_and_tables_choose_experts),
};
const size_t n_row_tests = sizeof row_tests / sizeof *row_tests;
