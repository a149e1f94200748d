/* Weights by product keys, beside those of a search through all pairs. */
#include <math.h>
#include <stdlib.h>

#include "ops/ops.h"

enum { N_TOKENS = 7 };

typedef struct key_case {
    size_t n_keys, dim, n_used;
    bool has_ties; /* keys are whole numbers: many sums are equal */
} key_case;

/* Whether pair a comes before b: by its sum, then its first key, then its second. */
static bool is_before(const float *x, size_t n, size_t a, size_t b) {
    float sum_a = x[a / n] + x[n + a % n], sum_b = x[b / n] + x[n + b % n];
    if (sum_a != sum_b)
        return sum_a > sum_b;
    if (x[a / n] != x[b / n])
        return x[a / n] > x[b / n];
    return a / n != b / n ? a / n < b / n : x[n + a % n] > x[n + b % n];
}

/* What a row has, by looking at all pairs again and again. */
static void weigh_by_search(const key_case *c, const float *x, const float *y, float *out) {
    size_t n = c->n_keys, n_pairs = n * n;
    double total = 0, largest = 0;
    double *weights = calloc(n_pairs, sizeof *weights);
    assert_non_null(weights);
    for (size_t k = 0; k < c->n_used; k++) {
        size_t best = n_pairs;
        for (size_t at = 0; at < n_pairs; at++)
            if (weights[at] == 0 && (best == n_pairs || is_before(x, n, at, best)))
                best = at;
        double sum = (double)(x[best / n] + x[n + best % n]);
        largest = k == 0 ? sum : largest;
        weights[best] = exp(sum - largest);
        total += weights[best];
    }
    for (size_t at = 0; at < c->dim; at++)
        out[at] = at < n_pairs ? (float)(weights[at] / total * (double)y[at]) : 0.0f;
    free(weights);
}

/* The first n_rows rows after their pairs have weighed them; malloc'd. */
static float *run_product_keys(side *s, const key_case *c, size_t n_rows, bool in_place,
                               const float *x, const float *y) {
    ln_batch batch = {.n_tokens = n_rows};
    ln_op op = {.kind = LN_OP_ROWWISE,
                .batch = &batch,
                .rowwise = {.function = LN_ROWWISE_PRODUCT_KEYS,
                            .n_rows = n_rows,
                            .dim = c->dim,
                            .n_keys = c->n_keys,
                            .n_used = c->n_used,
                            .x = put(s, x, n_rows * 2 * c->n_keys),
                            .y = put(s, y, n_rows * c->dim)}};
    op.rowwise.out = in_place ? (float *)op.rowwise.y : put(s, NULL, n_rows * c->dim);
    run_ops(s, &op, 1);
    float *result = get(s, op.rowwise.out, n_rows * c->dim);
    free_placed(s);
    return result;
}

static void pairs_of_keys_weigh_rows(void **state) {
    (void)state;
    static const key_case cases[] = {
        {6, 40, 5, false},       {3, 9, 9, false}, {1, 3, 1, false},      {33, 1089, 64, false},
        {128, 16384, 64, false}, {5, 25, 3, true}, {40, 1600, 100, true}, {12, 150, 144, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!ops_takes_case())
            continue;
        const key_case *c = &cases[i];
        size_t n_keys = N_TOKENS * 2 * c->n_keys, n = N_TOKENS * c->dim;
        float *x = c->has_ties ? small_integers(n_keys, 3) : noise_rows(n_keys);
        float *y = noise_rows(n), *want = calloc(n, sizeof *want);
        assert_non_null(want);
        for (size_t row = 0; row < N_TOKENS; row++)
            weigh_by_search(c, x + row * 2 * c->n_keys, y + row * c->dim, want + row * c->dim);
        float *got = run_product_keys(&subject, c, N_TOKENS, false, x, y);
        float *kept = run_product_keys(&subject, c, N_TOKENS, true, x, y);
        float *one = run_product_keys(&subject, c, 1, true, x, y);
        assert_near("product keys", got, want, n, 1e-6);
        assert_memory_equal(kept, got, n * sizeof *got);
        assert_memory_equal(one, got, c->dim * sizeof *one);
        free(x), free(y), free(want), free(got), free(kept), free(one);
    }
}

const struct CMUnitTest key_tests[] = {
    cmocka_unit_test(pairs_of_keys_weigh_rows),
};
const size_t n_key_tests = sizeof key_tests / sizeof *key_tests;
