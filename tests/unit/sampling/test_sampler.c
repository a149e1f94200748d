/* sampling/: distributions, boundaries of the filters, penalties, hostile logits. */
#include "sampling_test.h"

#include "sampling/select.h"

static void draws_follow_the_softmax(void **state) {
    (void)state;
    const float logits[] = {0.5f, -1, 2, 0, 1.25f, -0.5f, 1, 0.1f};
    linnet_sampling s = plain;
    s.seed = 7;
    check_distribution(logits, 8, &s, 0xff);
    s.temperature = 0.5f;
    check_distribution(logits, 8, &s, 0xff);
    s.temperature = 2;
    s.top_k = 3;
    check_distribution(logits, 8, &s, 1u << 2 | 1u << 4 | 1u << 6);
}

static void seeds_repeat_and_differ(void **state) {
    (void)state;
    float logits[64] = {0};
    linnet_sampling a = plain, b = plain;
    a.seed = 1;
    b.seed = 2;
    size_t n_equal = 0;
    for (size_t position = 1; position < 500; position++) {
        int32_t token = sample(logits, 64, &a, position);
        assert_int_equal(token, sample(logits, 64, &a, position));
        n_equal += token == sample(logits, 64, &b, position);
    }
    assert_in_range(n_equal, 0, 30);
    /* the answers of every machine */
    float slope[64];
    for (int i = 0; i < 64; i++)
        slope[i] = (float)i * 0.05f;
    a.temperature = 0.7f;
    a.top_p = 0.9f;
    const int32_t answers[] = {59, 48, 60, 48, 44, 54, 55, 62, 47, 49, 58, 53, 53, 60, 54, 57};
    for (size_t position = 1; position <= sizeof answers / sizeof *answers; position++)
        assert_int_equal(sample(slope, 64, &a, position), answers[position - 1]);
}

static void argmax_takes_the_lowest_of_ties(void **state) {
    (void)state;
    linnet_sampling s = plain;
    s.temperature = 0;
    assert_int_equal(sample((float[]){1, 3, 3, 2}, 4, &s, 1), 1);
    assert_int_equal(sample((float[]){-INFINITY, -INFINITY, -5}, 3, &s, 1), 2);
    assert_int_equal(sample((float[]){0, -0.0f}, 2, &s, 1), 0);
    assert_int_equal(sample((float[]){-7}, 1, &s, 1), 0);
}

static void filters_keep_what_they_say(void **state) {
    (void)state;
    const float logits[] = {1, 4, 4, 4, 3, 0};
    linnet_sampling s = plain;
    s.top_k = 1;
    assert_int_equal(support(logits, 6, &s), 1u << 1);
    s.top_k = 2; /* a tie at the boundary: the lower ids */
    assert_int_equal(support(logits, 6, &s), 1u << 1 | 1u << 2);
    s.top_k = 6;
    s.temperature = 4;
    assert_int_equal(support(logits, 6, &s), 0x3f);
    s.top_k = INT32_MAX;
    assert_int_equal(support(logits, 6, &s), 0x3f);

    const float quarters[] = {0, 0, 0, 0};
    s = plain;
    s.top_p = 0.5f; /* two reach it exactly */
    assert_int_equal(support(quarters, 4, &s), 3);
    s.top_p = 0.51f;
    assert_int_equal(support(quarters, 4, &s), 7);
    s.top_p = 0;
    assert_int_equal(support(quarters, 4, &s), 1);

    const float halves[] = {0, (float)-0.6931472, (float)-1.3862944};
    s = plain;
    s.min_p = 0.45f;
    assert_int_equal(support(halves, 3, &s), 3);
    s.min_p = 0.55f;
    assert_int_equal(support(halves, 3, &s), 1);
    s.min_p = 1;
    assert_int_equal(support(quarters, 4, &s), 15);

    s = plain;
    s.temperature = 1e-30f;
    assert_int_equal(support(logits, 6, &s), 1u << 1 | 1u << 2 | 1u << 3);
}

static int compare(const void *a, const void *b) {
    const ln_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void selection_agrees_with_sorting(void **state) {
    (void)state;
    enum { N = 300 };
    static ln_candidate candidates[N], sorted[N];
    for (uint32_t turn = 0; turn < 600; turn++) {
        size_t n = 1 + turn % N;
        double total = 0;
        for (size_t i = 0; i < n; i++) {
            float value = floorf(ln_rng_uniform(3, turn, i, 0) * (turn % 2 ? 5.0f : 1e6f));
            if (turn % 3 == 0)
                value = (float)i; /* ascending */
            candidates[i] =
                (ln_candidate){.logit = value, .id = (int32_t)i, .weight = (double)value};
            total += candidates[i].weight;
        }
        memcpy(sorted, candidates, sizeof sorted);
        qsort(sorted, n, sizeof *sorted, compare);
        size_t count = 1 + (size_t)(ln_rng_uniform(4, turn, 0, 0) * (float)n);
        ln_select_count(candidates, n, count);
        qsort(candidates, count, sizeof *candidates, compare);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(candidates[i].id, sorted[i].id);

        double mass = floor((double)ln_rng_uniform(5, turn, 0, 0) * total), sum = 0;
        size_t needed = 0; /* whole numbers: sums are exact in any order */
        do
            sum += sorted[needed++].weight;
        while (sum < mass);
        memcpy(candidates, sorted, sizeof sorted);
        assert_int_equal(ln_select_mass(candidates, n, mass), needed);
        qsort(candidates, needed, sizeof *candidates, compare);
        for (size_t i = 0; i < needed; i++)
            assert_int_equal(candidates[i].id, sorted[i].id);
    }
}

static void the_best_logits_are_found_without_candidates_for_all(void **state) {
    (void)state;
    enum { N = 500 };
    static float logits[N];
    static ln_candidate candidates[N], sorted[N];
    for (uint32_t turn = 0; turn < 400; turn++) {
        size_t n = 2 + turn % (N - 1);
        for (size_t i = 0; i < n; i++) {
            logits[i] = floorf(ln_rng_uniform(6, turn, i, 0) * (turn % 2 ? 5.0f : 1e6f));
            if (turn % 3 == 0)
                logits[i] = turn % 4 ? (float)i : -INFINITY; /* ascending, all the same */
            sorted[i] = (ln_candidate){.logit = logits[i], .id = (int32_t)i};
        }
        qsort(sorted, n, sizeof *sorted, compare);
        size_t count = 1 + (size_t)(ln_rng_uniform(7, turn, 0, 0) * (float)(n / 2));
        ln_select_logits(logits, n, count, candidates);
        qsort(candidates, count, sizeof *candidates, compare);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(candidates[i].id, sorted[i].id);
    }
}

/* The definition: sort, cut, and walk up the ids of what is left. */
static int32_t sample_slowly(const float *logits, size_t n, const linnet_sampling *s,
                             size_t position) {
    ln_candidate *sorted = malloc(n * sizeof *sorted);
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (ln_candidate){.logit = logits[i], .id = (int32_t)i};
    qsort(sorted, n, sizeof *sorted, compare);
    for (size_t i = 0; i < n; i++) {
        sorted[i].weight =
            exp(((double)logits[sorted[i].id] - (double)sorted[0].logit) / (double)s->temperature);
        total += sorted[i].weight;
    }
    size_t n_kept = 0;
    while (n_kept < n && (n_kept == 0 || sum < (double)s->top_p * total))
        sum += sorted[n_kept++].weight;
    double left = (double)ln_rng_uniform(s->seed, 0, position, 0) * sum;
    int32_t drawn = -1;
    for (int32_t id = 0; id < (int32_t)n && left >= 0; id++)
        for (size_t i = 0; i < n_kept; i++)
            if (sorted[i].id == id) {
                drawn = id;
                left -= sorted[i].weight;
            }
    free(sorted);
    return drawn;
}

static void many_candidates_are_drawn_from_as_defined(void **state) {
    (void)state;
    enum { N = 900 };
    float logits[N];
    for (uint32_t turn = 1; turn < 60; turn++) {
        linnet_sampling s = plain;
        s.seed = turn;
        s.top_p = turn % 3 == 0 ? 1 : 0.5f + 0.008f * (float)turn;
        s.temperature = turn % 2 ? 3.0f : 0.4f; /* hundreds are left, or few */
        for (size_t i = 0; i < N; i++)
            logits[i] = 6 * ln_rng_uniform(8, turn, i, 0);
        assert_int_equal(sample(logits, N, &s, turn), sample_slowly(logits, N, &s, turn));
    }
}

static void penalties_see_the_last_tokens(void **state) {
    (void)state;
    ln_sampler sampler;
    void *memory = create(&sampler, 5);
    const int32_t tokens[] = {4, 0, 1, 0, 3};
    ln_sample_context context = {.tokens = tokens, .n_tokens = 5};
    linnet_sampling s = {.top_p = 1,
                         .repeat_penalty = 2,
                         .repeat_last_n = 4,
                         .frequency_penalty = 0.25f,
                         .presence_penalty = 0.5f};
    float logits[] = {4, -1, 1, 0, 1.5f};
    int32_t token;
    assert_int_equal(ln_sampler_sample(&sampler, &s, &context, logits, &token, NULL), LINNET_OK);
    assert_float_equal(logits[0], 4.0 / 2 - 2 * 0.25 - 0.5, 0);
    assert_float_equal(logits[1], -1.0 * 2 - 0.25 - 0.5, 0);
    assert_float_equal(logits[2], 1, 0);
    assert_float_equal(logits[3], -0.75, 0);
    assert_float_equal(logits[4], 1.5, 0); /* fell out of the window */
    assert_int_equal(token, 4);            /* the argmax comes after */
    s.repeat_last_n = 0;
    float others[] = {4, -1, 1, 0, 1.5f};
    assert_int_equal(ln_sampler_sample(&sampler, &s, &context, others, &token, NULL), LINNET_OK);
    assert_int_equal(token, 0);
    free(memory);
}

static void hostile_logits_are_errors_or_limits(void **state) {
    (void)state;
    ln_sampler sampler;
    void *memory = create(&sampler, 3);
    ln_sample_context context = {.n_tokens = 0};
    for (int greedy = 0; greedy < 2; greedy++) {
        linnet_sampling s = plain;
        s.temperature = greedy ? 0 : 1;
        int32_t token;
        ln_error err = {0};
        for (int at = 0; at < 3; at++) {
            float logits[] = {1, 1, 1};
            logits[at] = NAN;
            assert_int_equal(ln_sampler_sample(&sampler, &s, &context, logits, &token, &err),
                             LINNET_ERR_COMPUTE);
        }
        assert_string_equal(err.message, "the logit of token 2 is not a number");
        float nothing[] = {-INFINITY, -INFINITY, -INFINITY};
        assert_int_equal(ln_sampler_sample(&sampler, &s, &context, nothing, &token, &err),
                         LINNET_ERR_COMPUTE);
        assert_int_equal(sample((float[]){1, INFINITY, 5}, 3, &s, 3), 1);
        assert_int_equal(sample((float[]){-INFINITY, 0, -INFINITY}, 3, &s, 3), 1);
        assert_int_equal(sample((float[]){-3e38f, 3e38f, -3e38f}, 3, &s, 3), 1);
    }
    linnet_sampling s = plain;
    s.top_p = 0.9f;
    assert_int_equal(support((float[]){INFINITY, 1, INFINITY}, 3, &s), 5);
    free(memory);
}

static void check_names_the_field(void **state) {
    (void)state;
    ln_error err = {0};
    assert_int_equal(ln_sampling_check(&plain, &err), LINNET_OK);
#define REFUSE(field, value)                                                                       \
    do {                                                                                           \
        linnet_sampling s = plain;                                                                 \
        s.field = (value);                                                                         \
        assert_int_equal(ln_sampling_check(&s, &err), LINNET_ERR_ARGUMENT);                        \
        assert_non_null(strstr(err.message, #field));                                              \
    } while (0)
    REFUSE(temperature, NAN);
    REFUSE(temperature, -1);
    REFUSE(temperature, INFINITY);
    REFUSE(top_k, -1);
    REFUSE(top_p, 1.01f);
    REFUSE(top_p, NAN);
    REFUSE(min_p, -0.1f);
    REFUSE(repeat_penalty, 0);
    REFUSE(repeat_last_n, -1);
    REFUSE(frequency_penalty, NAN);
    REFUSE(presence_penalty, INFINITY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(seeds_repeat_and_differ),
        cmocka_unit_test(argmax_takes_the_lowest_of_ties),
        cmocka_unit_test(filters_keep_what_they_say),
        cmocka_unit_test(selection_agrees_with_sorting),
        cmocka_unit_test(the_best_logits_are_found_without_candidates_for_all),
        cmocka_unit_test(many_candidates_are_drawn_from_as_defined),
        cmocka_unit_test(penalties_see_the_last_tokens),
        cmocka_unit_test(hostile_logits_are_errors_or_limits),
        cmocka_unit_test(check_names_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
