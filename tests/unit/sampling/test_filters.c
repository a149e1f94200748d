/* sampling/: typical, top-n-sigma, XTC, mirostat, DRY, rules for tokens, logprobs, and the
 * mathematics below them. */
#include <float.h>

#include "sampling_test.h"

#include "base/portable_math.h"
#include "sampling/logprobs.h"

static const float tenth = (float)-2.302585093;

/* Logits of probabilities. */
static void logits_of(const double *probabilities, size_t n, float *logits) {
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)log(probabilities[i]);
}

static void mathematics_is_exact_enough(void **state) {
    (void)state;
    for (double x = -690; x <= 0; x += 0.37)
        assert_true(fabs(ln_exp_nonpositive(x) / exp(x) - 1) < 1e-14);
    for (double x = 1e-300; x < 1e300; x *= 1.7)
        assert_true(fabs(ln_log(x) - log(x)) <= 1e-14 * (1 + fabs(log(x))));
    assert_true(ln_log(1) == 0);
    assert_true(ln_power(1.5, 0) == 1 && ln_power(1.5, 5) == 7.59375);
}

/* The set by its definition: sorted by |surprise - entropy|. */
static uint64_t typical_set(const double *p, size_t n, double mass) {
    double entropy = 0, sum = 0;
    uint64_t set = 0;
    for (size_t i = 0; i < n; i++)
        entropy -= p[i] * log(p[i]);
    while (sum < mass - 1e-9) {
        size_t nearest = n;
        for (size_t i = 0; i < n; i++)
            if (!(set >> i & 1) &&
                (nearest == n || fabs(-log(p[i]) - entropy) < fabs(-log(p[nearest]) - entropy)))
                nearest = i;
        set |= (uint64_t)1 << nearest;
        sum += p[nearest];
    }
    return set;
}

static void typical_keeps_what_surprises_as_expected(void **state) {
    (void)state;
    const double p[] = {0.05, 0.42, 0.21, 0.13, 0.1, 0.09};
    float logits[6];
    logits_of(p, 6, logits);
    linnet_sampling s = plain;
    for (float mass = 0.05f; mass < 1; mass += 0.1f) {
        s.typical_p = mass;
        uint64_t kept = typical_set(p, 6, (double)mass);
        assert_int_equal(support(logits, 6, &s), kept);
        check_distribution(logits, 6, &s, kept);
    }
    assert_int_equal(typical_set(p, 6, 0.05) & 2, 0); /* the best is not the most typical */
    s.typical_p = 1;
    assert_int_equal(support(logits, 6, &s), 0x3f);
    s.typical_p = 0.2f;
    s.min_p = 1; /* of what is left */
    assert_int_not_equal(support(logits, 6, &s), 0);
}

static void sigma_cuts_by_deviation(void **state) {
    (void)state;
    const float logits[] = {2, 4, 4, 4, 5, 5, 7, 9, -INFINITY}; /* deviation 2 */
    linnet_sampling s = plain;
    s.temperature = 1000;
    s.top_n_sigma = 1;
    assert_int_equal(support(logits, 9, &s), 1u << 6 | 1u << 7);
    s.top_n_sigma = 2;
    assert_int_equal(support(logits, 9, &s), 0xf0);
    s.top_n_sigma = 0.99f;
    assert_int_equal(support(logits, 9, &s), 1u << 7);
    s.top_n_sigma = 1; /* nor do tokens count that the model suppresses */
    assert_int_equal(support((float[]){2, 4, 4, 4, 5, 5, 7, 9, -FLT_MAX}, 9, &s),
                     1u << 6 | 1u << 7);
    s.top_n_sigma = 100;
    assert_int_equal(support(logits, 9, &s), 0xff);
    assert_int_equal(support((float[]){1, 1, 1}, 3, &s), 7);
    assert_int_equal(support((float[]){1, INFINITY, 1}, 3, &s), 2);
}

static void xtc_leaves_the_last_of_the_likely(void **state) {
    (void)state;
    const double p[] = {0.4, 0.2, 0.25, 0.1, 0.05};
    float logits[5];
    logits_of(p, 5, logits);
    linnet_sampling s = plain;
    s.xtc_probability = 1;
    s.xtc_threshold = 0.15f;
    check_distribution(logits, 5, &s, 1u << 1 | 1u << 3 | 1u << 4);
    s.xtc_threshold = 0.3f; /* one alone stays */
    check_distribution(logits, 5, &s, 0x1f);
    s.xtc_threshold = 0.9f;
    assert_int_equal(support(logits, 5, &s), 0x1f);
    s.xtc_threshold = 0;
    assert_int_equal(support(logits, 5, &s), 1u << 4);
    const float equal[] = {0, 0, 0};
    assert_int_equal(support(equal, 3, &s), 4); /* the highest id is the last */
    s.xtc_threshold = 0.15f;
    s.xtc_probability = 0.5f;
    size_t n_best = 0;
    for (size_t position = 1; position <= 4000; position++)
        n_best += sample(logits, 5, &s, position) == 0;
    assert_in_range(n_best, 700, 900); /* 0.4 of the half without */
}

static void mirostat_keeps_to_its_surprise(void **state) {
    (void)state;
    enum { N = 500, DRAWS = 20000 };
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = -1.1f * logf((float)(i + 1)); /* Zipf */
    ln_sampler sampler;
    void *memory = create(&sampler, N);
    for (float tau = 2; tau <= 5; tau += 1.5f) {
        linnet_sampling s = plain;
        s.mirostat_tau = tau;
        s.mirostat_eta = 0.1f;
        s.top_k = 1; /* not looked at */
        double excess = 0;
        for (size_t i = 1; i <= DRAWS; i++) {
            float row[N];
            int32_t token;
            ln_sample_context context = {.n_tokens = i, .mirostat_excess = &excess};
            memcpy(row, logits, sizeof row);
            s.dry_last_n = s.repeat_last_n = 0;
            assert_int_equal(ln_sampler_sample(&sampler, &s, &context, row, &token, NULL),
                             LINNET_OK);
        }
        assert_true(fabs(excess) / DRAWS < 0.01); /* bits from tau, on average */
    }
    linnet_sampling s = plain;
    s.mirostat_tau = 0.01f; /* mu below every surprise: the best */
    assert_int_equal(support((float[]){0, 0.1f, 0}, 3, &s), 2);
    free(memory);
}

/* Logits [n] of zero after DRY, and the length of the repetition by its definition. */
static void dry_finds_the_longest_repetition(void **state) {
    (void)state;
    enum { VOCAB = 4, N = 60 };
    ln_sampler sampler;
    void *memory = create(&sampler, VOCAB);
    srand(3);
    for (int turn = 0; turn < 500; turn++) {
        int32_t tokens[N], token;
        for (int i = 0; i < N; i++)
            tokens[i] = rand() % (turn % 2 ? 2 : VOCAB);
        linnet_sampling s = plain;
        s.temperature = 0;
        s.dry_multiplier = 1;
        s.dry_base = 2;
        s.dry_allowed_length = rand() % 4;
        s.dry_last_n = rand() % (2 * N);
        ln_token_rules rules = {.dry_breakers = (int32_t[]){3}, .n_dry_breakers = 1};
        size_t n = (size_t)(rand() % (N + 1));
        ln_sample_context context = {.tokens = tokens, .n_tokens = n, .rules = &rules};
        float logits[VOCAB] = {0};
        size_t first = n > (size_t)s.dry_last_n ? n - (size_t)s.dry_last_n : 0;
        size_t longest[VOCAB] = {0};
        for (size_t next = first + 1; next < n; next++) { /* tokens[next] follows a repetition */
            size_t length = 0;
            while (next - first > length && tokens[next - 1 - length] == tokens[n - 1 - length] &&
                   tokens[n - 1 - length] != 3)
                length++;
            if (length > longest[tokens[next]])
                longest[tokens[next]] = length;
        }
        assert_int_equal(ln_sampler_sample(&sampler, &s, &context, logits, &token, NULL),
                         LINNET_OK);
        for (int id = 0; id < VOCAB; id++) {
            double expected = 0;
            if (longest[id] > 0 && longest[id] >= (size_t)s.dry_allowed_length)
                expected = -pow(2, (double)longest[id] - s.dry_allowed_length);
            expected = expected > -1e30 ? expected : -(double)INFINITY;
            assert_true((double)logits[id] == (double)(float)expected);
            assert_int_equal(sampler.marks[id], 0);
        }
    }
    free(memory);
}

static void rules_bind_tokens(void **state) {
    (void)state;
    ln_sampler sampler;
    void *memory = create(&sampler, 5);
    const linnet_logit_bias biases[] = {{0, 1.5f}, {1, -INFINITY}, {0, 1}};
    const int32_t bad_ids[] = {4, 2, 3, 2}, stop_ids[] = {3}, tokens[] = {1, 2, 3};
    const size_t bad_ends[] = {1, 4};
    ln_token_rules rules = {.biases = biases,
                            .n_biases = 3,
                            .bad_ids = bad_ids,
                            .bad_ends = bad_ends,
                            .n_bad_words = 2,
                            .stop_ids = stop_ids,
                            .n_stop_ids = 1,
                            .min_tokens = 3};
    linnet_sampling s = plain;
    for (size_t n = 0; n <= 3; n++) {
        float logits[] = {1, 9, 2, 3, 9};
        int32_t token;
        ln_sample_context context = {.tokens = tokens, .n_tokens = n, .rules = &rules};
        assert_int_equal(ln_sampler_sample(&sampler, &s, &context, logits, &token, NULL),
                         LINNET_OK);
        assert_true(logits[0] == 3.5f && logits[1] == -INFINITY && logits[4] == -INFINITY);
        assert_true(logits[2] == (n == 3 ? -INFINITY : 2)); /* after 2 3 */
        assert_true(logits[3] == (n < 3 ? -INFINITY : 3));
    }
    free(memory);
}

static void logprobs_are_of_the_models_softmax(void **state) {
    (void)state;
    const double p[] = {0.05, 0.4, 0.25, 0.05, 0.25};
    float logits[5];
    linnet_logprob top[5];
    ln_sampler sampler;
    void *memory = create(&sampler, 5);
    logits_of(p, 5, logits);
    for (int i = 0; i < 5; i++)
        logits[i] += 3;
    for (size_t n = 0; n <= 5; n++) {
        static const int32_t order[] = {1, 2, 4, 0, 3};
        ln_logprobs_take(&sampler, logits, top, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(top[i].id, order[i]);
            assert_float_equal(top[i].logprob, log(p[order[i]]), 1e-5);
        }
        for (int32_t id = 0; id < 5; id++)
            assert_float_equal(ln_logprobs_get(&sampler, id), log(p[id]), 1e-5);
    }
    ln_logprobs_take(&sampler, (float[]){0, -INFINITY, tenth, -900, 0}, top, 1);
    assert_true(ln_logprobs_get(&sampler, 1) == -INFINITY);
    assert_true(fabs((double)ln_logprobs_get(&sampler, 3) + 900 + log(2.1)) < 1e-3);
    ln_logprobs_take(&sampler, (float[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
                     top, 2);
    assert_true(top[1].logprob == -INFINITY);
    free(memory);
}

static void check_names_the_field(void **state) {
    (void)state;
    ln_error err = {0};
#define REFUSE(field, value)                                                                       \
    do {                                                                                           \
        linnet_sampling s = plain;                                                                 \
        s.dry_multiplier = 1;                                                                      \
        s.dry_base = 1.5f;                                                                         \
        assert_int_equal(ln_sampling_check(&s, &err), LINNET_OK);                                  \
        s.field = (value);                                                                         \
        assert_int_equal(ln_sampling_check(&s, &err), LINNET_ERR_ARGUMENT);                        \
        assert_non_null(strstr(err.message, #field));                                              \
    } while (0)
    REFUSE(typical_p, 1.5f);
    REFUSE(top_n_sigma, -1);
    REFUSE(xtc_probability, NAN);
    REFUSE(xtc_threshold, 2);
    REFUSE(dry_multiplier, -1);
    REFUSE(dry_base, 0.5f);
    REFUSE(dry_allowed_length, -1);
    REFUSE(dry_last_n, -1);
    REFUSE(mirostat_tau, INFINITY);
    REFUSE(mirostat_eta, -0.1f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mathematics_is_exact_enough),
        cmocka_unit_test(typical_keeps_what_surprises_as_expected),
        cmocka_unit_test(sigma_cuts_by_deviation),
        cmocka_unit_test(xtc_leaves_the_last_of_the_likely),
        cmocka_unit_test(mirostat_keeps_to_its_surprise),
        cmocka_unit_test(dry_finds_the_longest_repetition),
        cmocka_unit_test(rules_bind_tokens),
        cmocka_unit_test(logprobs_are_of_the_models_softmax),
        cmocka_unit_test(check_names_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
