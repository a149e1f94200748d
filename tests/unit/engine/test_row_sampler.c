/* engine/row_sampler alone: no model, no engine, no thread but its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/row_sampler.h"
#include "test.h"

enum { N = 24, VOCAB = 50, CTX = 8, STOP_ID = 7 };

typedef struct bench {
    ln_row_sampler rows;
    ln_backend backend;
    ln_backend_vtable vtable; /* without `share`: the sampler has threads of its own */
    void *memory;
    linnet_request requests[N];
    ln_sequence sequences[N];
    ln_output outputs[N];
    int32_t tokens[N][CTX];
    float logits[N][VOCAB];
} bench;

static void setup(bench *b, size_t n_threads) {
    static const int32_t stop_id = STOP_ID;
    ln_row_sampler_shape shape = {
        .max_seqs = N, .n_threads = n_threads, .n_vocab = VOCAB, .ctx_tokens = CTX};
    ln_layout layout = {0};
    linnet_error err = {0};
    memset(b, 0, sizeof *b);
    b->backend.vtable = &b->vtable;
    ln_row_sampler_plan(&shape, &layout);
    b->memory = calloc(1, layout.bytes);
    assert_non_null(b->memory);
    assert_int_equal(ln_row_sampler_init(&b->rows, &shape, &b->backend, NULL, b->memory, &err),
                     LINNET_OK);
    for (size_t i = 0; i < N; i++) {
        linnet_request *request = &b->requests[i];
        b->outputs[i].tokens = b->tokens[i];
        request->options.sampling =
            (linnet_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = 100 + i};
        request->n_prompt = 1;
        request->max_output = CTX - 1;
        request->outputs = &b->outputs[i];
        request->rules = (ln_token_rules){.stop_ids = &stop_id, .n_stop_ids = 1};
        request->group = (ln_sequence_group){.request = request, .n_prompt = 1};
        b->sequences[i] =
            (ln_sequence){.group = &request->group, .tokens = b->tokens[i], .n_tokens = 1};
        for (size_t id = 0; id < VOCAB; id++)
            b->logits[i][id] = (float)((i * 31 + id * 17) % 23) * 0.25f;
        b->rows.rows[i] = (ln_row){.sequence = &b->sequences[i], .logits = b->logits[i]};
    }
    b->rows.n_rows = N;
}

static void teardown(bench *b) {
    ln_row_sampler_free(&b->rows);
    free(b->memory);
}

static void threads_sample_what_one_samples(void **state) {
    (void)state;
    static bench one, many;
    setup(&one, 1);
    setup(&many, 4);
    ln_row_sampler_sample_all(&one.rows);
    ln_row_sampler_sample_all(&many.rows);
    size_t n_different = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(one.rows.rows[i].is_sampled && many.rows.rows[i].is_sampled);
        assert_int_equal(one.rows.rows[i].token, many.rows.rows[i].token);
        n_different += one.rows.rows[i].token != one.rows.rows[0].token;
    }
    assert_true(n_different > N / 2); /* they drew */
    teardown(&one);
    teardown(&many);
}

static void rows_that_the_backend_sampled_are_taken(void **state) {
    (void)state;
    static bench b;
    setup(&b, 2);
    for (size_t i = 0; i < N; i++) {
        ln_row *row = &b.rows.rows[i];
        row->on_backend = true;
        row->logits = NULL;
        row->sampled = (int32_t)i;
        row->sampled_logit = i == 3 ? NAN : 1;
    }
    b.rows.rows[5].on_backend = false; /* for other things: nobody touches it */
    ln_row_sampler_sample_all(&b.rows);
    for (size_t i = 0; i < N; i++) {
        const ln_row *row = &b.rows.rows[i];
        assert_int_equal(row->is_sampled, i != 3 && i != 5);
        if (!row->is_sampled)
            continue;
        assert_int_equal(row->token, i == STOP_ID ? -1 : (int)i);
        assert_int_equal(row->finish, i == STOP_ID ? LINNET_FINISH_STOP : LINNET_FINISH_NONE);
        assert_int_equal(b.tokens[i][1], i == STOP_ID ? 0 : (int)i);
    }
    teardown(&b);
}

static void a_row_without_numbers_stays_for_the_engine(void **state) {
    (void)state;
    static bench b;
    linnet_error err = {0};
    setup(&b, 2);
    b.logits[4][20] = NAN;
    ln_row_sampler_sample_all(&b.rows);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(b.rows.rows[i].is_sampled, i != 4);
    assert_int_equal(
        ln_row_sampler_sample(&b.rows, ln_row_sampler_own(&b.rows), &b.rows.rows[4], &err),
        LINNET_ERR_COMPUTE);
    assert_non_null(strstr(err.message, "token 20"));
    teardown(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_sample_what_one_samples),
        cmocka_unit_test(rows_that_the_backend_sampled_are_taken),
        cmocka_unit_test(a_row_without_numbers_stays_for_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
