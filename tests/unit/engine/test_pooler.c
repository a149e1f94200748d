/* Pooling of chunks, and vectors through heads, by hand. */
#include "engine/pooler.h"

#include <math.h>
#include <string.h>

#include "engine/request/request.h"
#include "test.h"

enum { DIM = 3, N_TOKENS = 5 };

static const float hidden[N_TOKENS][DIM] = {
    {1, 0, 2}, {0.1f, -3, 4}, {1e7f, 1, 1}, {-1e7f, 0.3f, 7}, {5, 5, -5}};

/* Reads the tokens in chunks of so many, as a step after another does; the vector of the sum. */
static void pool(linnet_pooling pooling, size_t chunk_tokens, float out[DIM]) {
    linnet_request request = {.n_prompt = N_TOKENS, .embedding = out, .n_embedding = DIM};
    ln_sequence sequence = {.group = &request.group, .n_tokens = N_TOKENS};
    ln_embedding embedding = {0};
    ln_pooler pooler = {.embedding = &embedding, .dim = DIM, .dense = {&embedding.dense, {{0}}}};
    ln_chunk chunk = {.sequence = &sequence};
    ln_scheduler scheduler = {.chunks = &chunk, .n_chunks = 1};
    request.group.request = &request;
    request.group.pooling = pooling;
    memset(out, 0xff, DIM * sizeof *out);
    for (; sequence.n_cached < N_TOKENS; sequence.n_cached += chunk.n_tokens) {
        bool first;
        size_t left = N_TOKENS - sequence.n_cached;
        chunk.n_tokens = chunk_tokens < left ? chunk_tokens : left;
        size_t n = ln_pooler_rows(&chunk, &first);
        size_t at = sequence.n_cached + (first ? 0 : chunk.n_tokens - n);
        ln_pooler_take(&pooler, &scheduler, n > 0 ? hidden[at] : NULL);
    }
    assert_int_equal(ln_pooler_finish(&pooler, &request, NULL), LINNET_OK);
    assert_true(request.has_embedding);
}

static void numbers_that_are_none_are_an_error(void **state) {
    (void)state;
    float x[2][2] = {{1, NAN}, {INFINITY, 1}};
    for (size_t i = 0; i < 2; i++) {
        linnet_request request = {.embedding = x[i], .n_embedding = 2};
        ln_embedding embedding = {0};
        ln_pooler pooler = {.embedding = &embedding, .dim = 2, .dense = {&embedding.dense, {{0}}}};
        ln_error err = {0};
        assert_int_equal(ln_pooler_finish(&pooler, &request, &err), LINNET_ERR_COMPUTE);
        assert_string_equal(err.message, i == 0 ? "number 1 of the vector is not finite"
                                                : "number 0 of the vector is not finite");
        assert_false(request.has_embedding);
    }
}

static void chunks_change_no_bit(void **state) {
    (void)state;
    float whole[DIM], parts[DIM];
    for (int pooling = LINNET_POOLING_CLS; pooling <= LINNET_POOLING_LAST; pooling++) {
        pool((linnet_pooling)pooling, N_TOKENS, whole);
        for (size_t n = 1; n < N_TOKENS; n++) {
            pool((linnet_pooling)pooling, n, parts);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    }
}

static void each_pooling_takes_its_rows(void **state) {
    (void)state;
    float got[DIM];
    pool(LINNET_POOLING_CLS, 2, got);
    assert_memory_equal(got, hidden[0], sizeof got);
    pool(LINNET_POOLING_LAST, 2, got);
    assert_memory_equal(got, hidden[4], sizeof got);
    pool(LINNET_POOLING_MEAN, 2, got);
    float sum = hidden[0][1];
    for (size_t i = 1; i < N_TOKENS; i++)
        sum += hidden[i][1];
    assert_true(got[1] == sum / N_TOKENS);
}

static void heads_compute_what_they_say(void **state) {
    (void)state;
    const float weight[] = {1, 2, 3, 0, -1, 1}, bias[] = {0.5f, -0.5f};
    const float norm[] = {2, 3}, norm_bias[] = {0.1f, 0.2f};
    ln_head_stages stages = {.n = 1};
    stages.stages[0] = (ln_head_stage){.n_in = 3, .n_out = 2, .activation = LN_HEAD_TANH};
    ln_head head = {.stages = &stages};
    head.at[0].weight = weight;
    head.at[0].bias = bias;
    float x[] = {0.1f, 0.2f, -0.1f}, scratch[3];
    ln_head_run(&head, x, scratch);
    assert_true(fabs((double)x[0] - tanh(0.7)) < 1e-6);
    assert_true(fabs((double)x[1] - tanh(-0.8)) < 1e-6);
    head.at[0].norm = norm;
    head.at[0].norm_bias = norm_bias;
    stages.stages[0].activation = LN_HEAD_IDENTITY;
    float y[] = {0.1f, 0.2f, -0.1f};
    ln_head_run(&head, y, scratch); /* 0.7 and -0.8: one standard deviation from their mean */
    assert_true(fabs((double)y[0] - 2.1) < 1e-5);
    assert_true(fabs((double)y[1] + 2.8) < 1e-5);
}

static void length_becomes_one(void **state) {
    (void)state;
    float x[] = {3, 0, -4}, zero[] = {0, 0, 0};
    ln_head_normalize(x, 3);
    assert_true(fabsf(x[0] - 0.6f) < 1e-7f && fabsf(x[2] + 0.8f) < 1e-7f);
    ln_head_normalize(x, 1); /* the first number alone */
    assert_true(x[0] == 1.0f);
    ln_head_normalize(zero, 3);
    assert_true(zero[0] == 0.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_change_no_bit),
        cmocka_unit_test(each_pooling_takes_its_rows),
        cmocka_unit_test(numbers_that_are_none_are_an_error),
        cmocka_unit_test(heads_compute_what_they_say),
        cmocka_unit_test(length_becomes_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
