/* What tests of sampling share: one sample, the support of many, their distribution. */
#ifndef LN_TESTS_UNIT_SAMPLING_SAMPLING_TEST_H
#define LN_TESTS_UNIT_SAMPLING_SAMPLING_TEST_H

#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sampling/sampler.h"

enum { CTX = 20001 };

static const linnet_sampling plain = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};

static inline void *create(ln_sampler *sampler, size_t n_vocab) {
    ln_layout layout = {0};
    ln_sampler_plan(n_vocab, CTX, &layout);
    void *memory = calloc(1, layout.bytes);
    ln_sampler_init(sampler, n_vocab, CTX, memory);
    return memory;
}

/* One sample of logits[n] (copied) at a position. */
static inline int32_t sample(const float *logits, size_t n, const linnet_sampling *sampling,
                             size_t position) {
    ln_sampler sampler;
    void *memory = create(&sampler, n);
    float *row = malloc(n * sizeof *row);
    memcpy(row, logits, n * sizeof *row);
    int32_t *tokens = calloc(position + 1, sizeof *tokens);
    double excess = 0;
    ln_sample_context context = {
        .tokens = tokens, .n_tokens = position, .mirostat_excess = &excess};
    int32_t token = -1;
    ln_error err = {0};
    assert_int_equal(ln_sampler_sample(&sampler, sampling, &context, row, &token, &err), LINNET_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sampler.marks[i], 0);
    free(tokens);
    free(row);
    free(memory);
    return token;
}

/* Which ids ever come out. */
static inline uint64_t support(const float *logits, size_t n, const linnet_sampling *sampling) {
    uint64_t seen = 0;
    for (size_t position = 1; position < 400; position++)
        seen |= (uint64_t)1 << sample(logits, n, sampling, position);
    return seen;
}

/* Pearson's statistic against e^(logit / temperature) over `kept`, below a bound that a right
 * sampler exceeds once in 10^5 seeds (the seed is fixed). */
static inline void check_distribution(const float *logits, size_t n,
                                      const linnet_sampling *sampling, uint64_t kept) {
    enum { DRAWS = 20000 };
    double expected[64] = {0}, total = 0;
    size_t counts[64] = {0};
    for (size_t i = 0; i < n; i++)
        if (kept >> i & 1)
            total += expected[i] = exp((double)logits[i] / (double)sampling->temperature);
    for (size_t position = 1; position <= DRAWS; position++)
        counts[sample(logits, n, sampling, position)]++;
    double statistic = 0;
    for (size_t i = 0; i < n; i++) {
        double mean = DRAWS * expected[i] / total;
        if (mean == 0)
            assert_int_equal(counts[i], 0);
        else
            statistic += ((double)counts[i] - mean) * ((double)counts[i] - mean) / mean;
    }
    assert_true(statistic < 50);
}

#endif
