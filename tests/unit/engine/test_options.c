/* engine/: what requests ask for beside tokens: ends, rules, logprobs, deadlines. */
#include "engine_test.h"

#include <math.h>
#include <unistd.h>

static golden g; /* llama; the first prompt's greedy id number 7 ends a text */
static linnet_engine *engine;

static int open_all(void **state) {
    (void)state;
    golden_open(&g, "llama");
    engine = engine_on(&g, exact_options(100, 4, 16, 2));
    return 0;
}
static int close_all(void **state) {
    (void)state;
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
    return 0;
}

static size_t run(const linnet_request_options *options, int32_t *ids, linnet_finish *finish) {
    return receive(submit(engine, options), ids, finish);
}

static void stop_ids_and_the_least_length(void **state) {
    (void)state;
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    linnet_request_options o = greedy_options(&g, 0);
    size_t first = 0;
    while (g.greedy[0][first] != g.greedy[0][4])
        first++;
    o.stop_ids = &g.greedy[0][4];
    o.n_stop_ids = 1;
    assert_int_equal(run(&o, ids, &finish), first); /* though it ignores the model's */
    assert_int_equal(finish, LINNET_FINISH_STOP);
    o = greedy_options(&g, 0);
    o.ignore_eos = false;
    o.min_tokens = 7;
    assert_int_equal(run(&o, ids, &finish), 7);
    o.min_tokens = 12;
    assert_in_range(run(&o, ids, &finish), 12, GOLDEN_OUTPUT);
    assert_memory_equal(ids, g.greedy[0], 7 * sizeof *ids);
    assert_int_not_equal(ids[7], g.greedy[0][7]);
}

/* With forced_eos_token_id the last token of a text that is cut is an end, which is not shown. */
static void a_text_that_is_cut_ends(void **state) {
    enum { N_MOST = 6, WIDTH = 3 };
    (void)state;
    /* of the best beam by the reference; without the end it is 180 14 180 14 180 14 */
    static const int32_t best[N_MOST - 1] = {14, 180, 14, 180, 14};
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    golden marian;
    golden_open(&marian, "marian_two");
    linnet_engine *own = engine_on(&marian, exact_options(128, WIDTH, 0, 1));
    linnet_request_options o = greedy_options(&marian, 2);
    o.encoder_ids = o.prompt_ids;
    o.n_encoder_ids = o.n_prompt_ids;
    o.prompt_ids = NULL;
    o.n_prompt_ids = 0;
    o.max_tokens = N_MOST;
    assert_int_equal(receive(submit(own, &o), ids, &finish), N_MOST);
    assert_memory_equal(ids, marian.greedy[2], N_MOST * sizeof *ids);
    o.ignore_eos = false;
    assert_int_equal(receive(submit(own, &o), ids, &finish), N_MOST - 1);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    assert_memory_equal(ids, marian.greedy[2], (N_MOST - 1) * sizeof *ids);
    o.beam_width = WIDTH;
    assert_int_equal(receive(submit(own, &o), ids, &finish), N_MOST - 1);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    assert_memory_equal(ids, best, sizeof best);
    o.ignore_eos = true;
    assert_int_equal(receive(submit(own, &o), ids, &finish), N_MOST);
    assert_int_equal(ids[0], 180);
    linnet_engine_destroy(own);
    linnet_model_close(marian.model);
}

static void biases_and_bad_words(void **state) {
    (void)state;
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    linnet_request_options o = greedy_options(&g, 1);
    const linnet_logit_bias only = {77, 100};
    o.logit_bias = &only;
    o.n_logit_bias = 1;
    assert_int_equal(run(&o, ids, &finish), GOLDEN_OUTPUT);
    for (size_t i = 0; i < GOLDEN_OUTPUT; i++)
        assert_int_equal(ids[i], 77);
    o = greedy_options(&g, 1);
    const linnet_token_list words[] = {{g.greedy[1] + 2, 3}, {g.greedy[1] + 20, 1}};
    o.bad_words = words;
    o.n_bad_words = 2;
    assert_int_equal(run(&o, ids, &finish), GOLDEN_OUTPUT);
    assert_memory_equal(ids, g.greedy[1], 4 * sizeof *ids);
    for (size_t i = 0; i < GOLDEN_OUTPUT; i++) {
        assert_int_not_equal(ids[i], g.greedy[1][20]);
        if (i >= 2)
            assert_memory_not_equal(ids + i - 2, words[0].ids, 3 * sizeof *ids);
    }
}

typedef struct rows {
    float logits[MAX_IDS][N_VOCAB];
} rows;

static void take_row(void *user, size_t position, const float *row, size_t n_vocab) {
    rows *all = user;
    memcpy(all->logits[position], row, n_vocab * sizeof *row);
}

static double logprob_of(const float *row, int32_t id) {
    double best = -(double)INFINITY, total = 0;
    for (size_t i = 0; i < N_VOCAB; i++)
        best = (double)row[i] > best ? (double)row[i] : best;
    for (size_t i = 0; i < N_VOCAB; i++)
        total += exp((double)row[i] - best);
    return (double)row[id] - best - log(total);
}

/* Against a row of scores: the token's, and the likeliest `n_top`. */
static void check_logprob(const float *row, int32_t id, float logprob, const linnet_logprob *top,
                          size_t n_top) {
    assert_float_equal(logprob, logprob_of(row, id), 1e-4);
    for (size_t i = 0; i < n_top; i++) {
        assert_float_equal(top[i].logprob, logprob_of(row, top[i].id), 1e-4);
        assert_true(i == 0 || top[i].logprob <= top[i - 1].logprob);
    }
    size_t n_better = 0;
    for (size_t i = 0; n_top > 0 && i < N_VOCAB; i++)
        n_better += row[i] > row[top[n_top - 1].id];
    assert_true(n_top == 0 || n_better == n_top - 1);
}

static void logprobs_agree_with_scores(void **state) {
    (void)state;
    static rows all;
    enum { TOP = 5 };
    for (size_t prompt = 0; prompt < GOLDEN_PROMPTS; prompt++) {
        linnet_request_options o = greedy_options(&g, prompt);
        o.max_tokens = 20;
        o.sampling.temperature = 1.2f;
        o.sampling.repeat_penalty = 1.3f; /* not in what the model said */
        o.logprobs = o.prompt_logprobs = true;
        o.top_logprobs = TOP;
        linnet_request *request = submit(engine, &o);
        int32_t ids[MAX_IDS];
        linnet_event events[20], end;
        size_t n_prompt = o.n_prompt_ids;
        memcpy(ids, o.prompt_ids, n_prompt * sizeof *ids);
        for (size_t i = 0; i < 20; i++) {
            assert_int_equal(linnet_request_next(request, -1, &events[i], NULL), LINNET_OK);
            ids[n_prompt + i] = events[i].token;
        }
        assert_int_equal(linnet_request_next(request, -1, &end, NULL), LINNET_OK);
        assert_true(end.logprob == 0 && end.top_logprobs == NULL && end.prompt_logprobs != NULL);
        linnet_request_options score = greedy_options(&g, prompt);
        score.kind = LINNET_REQUEST_SCORE;
        score.prompt_ids = ids;
        score.n_prompt_ids = n_prompt + 20;
        score.on_logits = take_row;
        score.user = &all;
        linnet_finish finish;
        int32_t none[MAX_IDS];
        run(&score, none, &finish);
        for (size_t i = 0; i < 20; i++)
            check_logprob(all.logits[n_prompt + i - 1], events[i].token, events[i].logprob,
                          events[i].top_logprobs, TOP);
        assert_true(events[0].prompt_logprobs[0] == 0);
        assert_int_equal(events[0].prompt_top_logprobs[0].id, -1);
        for (size_t i = 1; i < n_prompt; i++)
            check_logprob(all.logits[i - 1], ids[i], events[0].prompt_logprobs[i],
                          events[0].prompt_top_logprobs + i * TOP, TOP);
        linnet_request_close(request);
    }
}

static void logprobs_come_only_when_asked_for(void **state) {
    (void)state;
    linnet_request_options o = greedy_options(&g, 0);
    o.max_tokens = 1;
    for (int asked = 0; asked < 4; asked++) {
        o.logprobs = asked & 1;
        o.prompt_logprobs = asked & 2;
        linnet_request *request = submit(engine, &o);
        linnet_event event;
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        assert_true((event.logprob != 0) == o.logprobs);
        assert_true((event.prompt_logprobs != NULL) == o.prompt_logprobs);
        assert_null(event.top_logprobs);
        assert_null(event.prompt_top_logprobs);
        linnet_request_close(request);
    }
}

/* Takes 2 ms for each of a prompt's rows. */
static void be_slow(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)user;
    (void)position;
    (void)row;
    (void)n_vocab;
    usleep(2000);
}

static void deadlines_end_requests(void **state) {
    (void)state;
    linnet_engine *narrow = engine_on(&g, exact_options(100, 1, 1, 1));
    linnet_request_options slow = greedy_options(&g, 0), o = greedy_options(&g, 1);
    int32_t prompt[100] = {0}, ids[MAX_IDS];
    linnet_finish finish;
    slow.kind = LINNET_REQUEST_SCORE;
    slow.prompt_ids = prompt;
    slow.n_prompt_ids = 100; /* at least 200 ms */
    slow.on_logits = be_slow;
    o.timeout_ms = 20;
    gate held;
    gate_hold(&held, narrow); /* the slow one is the first, however slow this thread is */
    linnet_request *running = submit(narrow, &slow), *waiting = submit(narrow, &o);
    o.timeout_ms = 1000000;
    linnet_request *patient = submit(narrow, &o);
    gate_release(&held);
    assert_int_equal(receive(waiting, ids, &finish), 0);
    assert_int_equal(finish, LINNET_FINISH_TIMEOUT);
    receive(running, ids, &finish);
    assert_int_not_equal(finish, LINNET_FINISH_TIMEOUT);
    assert_int_equal(receive(patient, ids, &finish), GOLDEN_OUTPUT);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    assert_memory_equal(ids, g.greedy[1], sizeof g.greedy[1]);
    slow.timeout_ms = 60;
    receive(submit(narrow, &slow), ids, &finish);
    assert_int_equal(finish, LINNET_FINISH_TIMEOUT);
    linnet_engine_destroy(narrow);
}

static void samplers_give_the_same_in_company(void **state) {
    (void)state;
    enum { KINDS = 6, OUTPUT = 25 };
    int32_t alone[KINDS][MAX_IDS], ids[MAX_IDS];
    linnet_request_options o[KINDS];
    linnet_request *requests[KINDS];
    linnet_finish finish;
    for (size_t i = 0; i < KINDS; i++) {
        o[i] = greedy_options(&g, i % GOLDEN_PROMPTS);
        o[i].sampling.temperature = 1.3f;
        o[i].sampling.seed = i;
        o[i].max_tokens = OUTPUT;
    }
    o[0].sampling.mirostat_tau = 3;
    o[1].sampling.typical_p = 0.7f;
    o[2].sampling.top_n_sigma = 1.5f;
    o[3].sampling.xtc_probability = 0.5f;
    o[4].sampling.dry_multiplier = 0.8f;
    o[5].sampling.mirostat_tau = 5;
    o[5].logprobs = true;
    o[5].top_logprobs = 3;
    for (size_t i = 0; i < KINDS; i++)
        assert_int_equal(run(&o[i], alone[i], &finish), OUTPUT);
    for (size_t i = 0; i < KINDS; i++)
        requests[i] = submit(engine, &o[i]);
    for (size_t i = 0; i < KINDS; i++) {
        assert_int_equal(receive(requests[i], ids, &finish), OUTPUT);
        assert_memory_equal(ids, alone[i], OUTPUT * sizeof *ids);
    }
}

/* All 64 bits of a seed count. */
static void seeds_have_64_bits(void **state) {
    (void)state;
    static const uint64_t seeds[] = {UINT64_MAX, UINT64_MAX >> 1, UINT32_MAX, 0};
    enum { SEEDS = sizeof seeds / sizeof *seeds, OUTPUT = 25 };
    int32_t drawn[SEEDS][MAX_IDS], again[MAX_IDS];
    linnet_finish finish;
    for (size_t i = 0; i < SEEDS; i++) {
        linnet_request_options o = greedy_options(&g, 0);
        o.sampling.temperature = 1.3f;
        o.sampling.seed = seeds[i];
        o.max_tokens = OUTPUT;
        assert_int_equal(run(&o, drawn[i], &finish), OUTPUT);
        assert_int_equal(run(&o, again, &finish), OUTPUT);
        assert_memory_equal(drawn[i], again, OUTPUT * sizeof *again);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(drawn[i], drawn[j], OUTPUT * sizeof *again);
    }
}

static void refuse(const linnet_request_options *options, const char *part) {
    linnet_request *request;
    linnet_error err = {0};
    assert_true(linnet_request_submit(engine, options, &request, &err) < 0);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void refusals_name_the_option(void **state) {
    (void)state;
    const linnet_request_options good = greedy_options(&g, 0);
    linnet_request_options o = good;
    const int32_t id = N_VOCAB;
    o.n_stop_ids = 1;
    refuse(&o, "stop_ids is NULL");
    o.stop_ids = &id;
    refuse(&o, "stop_ids[0] is 256");
    o = good, o.dry_breakers = &id, o.n_dry_breakers = 1;
    refuse(&o, "dry_breakers[0] is 256");
    o.n_dry_breakers = SIZE_MAX;
    refuse(&o, "at most 65536");
    o = good, o.n_logit_bias = 1, o.logit_bias = &(linnet_logit_bias){0, NAN};
    refuse(&o, "logit_bias[0]");
    o.logit_bias = &(linnet_logit_bias){-1, 0};
    refuse(&o, "logit_bias");
    o = good, o.n_bad_words = 1, o.bad_words = &(linnet_token_list){&id, 0};
    refuse(&o, "bad_words[0] has 0 tokens");
    o.bad_words = &(linnet_token_list){&id, 1};
    refuse(&o, "bad_words");
    o.bad_words = &(linnet_token_list){NULL, 1};
    refuse(&o, "bad_words");
    o = good, o.top_logprobs = 2;
    refuse(&o, "top_logprobs needs");
    o.logprobs = true, o.top_logprobs = LINNET_MAX_TOP_LOGPROBS + 1;
    refuse(&o, "top_logprobs is 65");
    o = good, o.kind = LINNET_REQUEST_SCORE, o.on_logits = be_slow, o.prompt_logprobs = true;
    refuse(&o, "prompt_logprobs is for kind GENERATE");
    o = good, o.kind = LINNET_REQUEST_SCORE, o.on_logits = be_slow, o.beam_width = 1;
    refuse(&o, "beam_width are for kind GENERATE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_ids_and_the_least_length),
        cmocka_unit_test(a_text_that_is_cut_ends),
        cmocka_unit_test(biases_and_bad_words),
        cmocka_unit_test(logprobs_agree_with_scores),
        cmocka_unit_test(logprobs_come_only_when_asked_for),
        cmocka_unit_test(deadlines_end_requests),
        cmocka_unit_test(samplers_give_the_same_in_company),
        cmocka_unit_test(seeds_have_64_bits),
        cmocka_unit_test(refusals_name_the_option),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
