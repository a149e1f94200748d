/* Several ranks whose backends start steps behind one another: what rank 0 samples comes to those
 * that embed it, so that steps are told before the tokens of the last one are known, and all is as
 * with ranks that wait. */
#include "engine_test.h"
#include "rank_threads.h"

#include "base/clock.h"

enum { MAX_RANKS = 6, N_SEQS = 4, N_REQUESTS = 10, N_TOP = 3 };

typedef struct mesh {
    size_t n_ranks, n_expert_ranks, n_stages;
    const char *model;
} mesh;

static const mesh meshes[] = {
    {2, 1, 1, "llama"},       {3, 1, 1, "gemma2"},      {1, 1, 2, "llama"},
    {2, 1, 2, "llama"},       {1, 1, 2, "mamba2"},      {1, 1, 2, "gemma3n"},
    {1, 2, 1, "deepseek_v3"}, {1, 1, 2, "deepseek_v4"}, {2, 1, 1, "qwen4_exp"},
    {1, 2, 1, "qwen4_exp"},   {2, 1, 1, "dory"},        {2, 1, 1, "zamba"},
    {2, 1, 2, "doge_moe"},    {2, 1, 1, "kimi_k3"},     {1, 2, 2, "kimi_k3"},
    {2, 1, 2, "openelm"},
};

static size_t count(const mesh *m) {
    return m->n_ranks * m->n_expert_ranks * m->n_stages;
}

static void open_mesh(const golden *g, const mesh *m, bool ahead, rank_thread *ranks) {
    linnet_engine_options options = exact_options(128, N_SEQS, 0, 1);
    options.n_ranks = m->n_ranks;
    options.n_expert_ranks = m->n_expert_ranks;
    options.n_stages = m->n_stages;
    open_ranks(g, &options, ranks, count(m));
    for (size_t i = 0; ahead && i < count(m); i++)
        ahead_play(ranks[i].engine);
}

/* What a request gave. */
typedef struct given {
    int32_t ids[MAX_IDS];
    float logprobs[MAX_IDS];
    size_t n_ids;
    linnet_finish finish;
} given;

static void take(linnet_request *request, given *to) {
    linnet_event event;
    to->n_ids = 0;
    while (linnet_request_next(request, -1, &event, NULL) == LINNET_OK && event.token >= 0) {
        to->ids[to->n_ids] = event.token;
        to->logprobs[to->n_ids++] = event.logprob;
    }
    to->finish = event.finish;
    linnet_request_close(request);
}

/* Greedy ones, draws and penalties, some with logprobs, some that end by a stop id, and one that
 * only the host can sample: more than there are places. */
static void answer(linnet_engine *engine, const golden *g, given *all) {
    linnet_request *requests[N_REQUESTS];
    gate held;
    gate_hold(&held, engine);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        linnet_request_options options = greedy_options(g, i % GOLDEN_PROMPTS);
        options.stop_ids = &g->greedy[i % GOLDEN_PROMPTS][5 + i];
        options.n_stop_ids = i % 3 == 1;
        options.sampling.temperature = i % 4 == 2 ? 0.9f : 0;
        options.sampling.top_k = i == 6 ? 0 : 20;
        options.sampling.seed = i;
        options.sampling.presence_penalty = i % 5 == 3 ? 0.7f : 0;
        options.logprobs = i % 4 == 0;
        options.top_logprobs = i % 4 == 0 ? N_TOP : 0;
        requests[i] = submit(engine, &options);
    }
    gate_release(&held);
    for (size_t i = 0; i < N_REQUESTS; i++)
        take(requests[i], &all[i]);
}

static void expect_same(const given *got, const given *wanted) {
    for (size_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(got[i].n_ids, wanted[i].n_ids);
        assert_int_equal(got[i].finish, wanted[i].finish);
        assert_memory_equal(got[i].ids, wanted[i].ids, got[i].n_ids * sizeof *got[i].ids);
        assert_memory_equal(got[i].logprobs, wanted[i].logprobs,
                            got[i].n_ids * sizeof *got[i].logprobs);
    }
}

static void steps_ahead_give_the_tokens_of_those_that_wait(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        static given waited[N_REQUESTS], got[2][N_REQUESTS];
        const mesh *m = &meshes[i];
        rank_thread ranks[MAX_RANKS];
        const ahead_backend *backends[MAX_RANKS] = {NULL};
        golden g;
        golden_open(&g, m->model);
        open_mesh(&g, m, false, ranks);
        answer(ranks[0].engine, &g, waited);
        close_ranks(ranks, count(m));
        open_mesh(&g, m, true, ranks);
        for (size_t turn = 0; turn < 2; turn++)
            answer(ranks[0].engine, &g, got[turn]);
        for (size_t k = 0; k < count(m); k++)
            backends[k] = ahead_of(ranks[k].engine->backend);
        close_ranks(ranks, count(m));
        for (size_t turn = 0; turn < 2; turn++)
            expect_same(got[turn], waited);
        for (size_t k = 0; k < count(m); k++) {
            assert_int_equal(backends[k]->n_ahead, backends[0]->n_ahead);
            assert_int_equal(backends[k]->n_started, backends[k]->n_finished);
        }
        assert_true(backends[0]->n_ahead > GOLDEN_OUTPUT);
        linnet_model_close(g.model);
    }
}

/* Its first layer alone chooses experts by a table, so that a second stage may run ahead. */
static void layers_that_read_tokens_are_known(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "deepseek_v4");
    assert_true(ln_spec_reads_tokens(&g.model->spec, 0));
    assert_false(ln_spec_reads_tokens(&g.model->spec, 1));
    linnet_model_close(g.model);
    golden_open(&g, "qwen4_exp"); /* n-grams in layers 0 and 2 */
    assert_true(ln_spec_reads_tokens(&g.model->spec, 2));
    assert_false(ln_spec_reads_tokens(&g.model->spec, 3));
    linnet_model_close(g.model);
}

/* All steps of one sequence but the first, which has its prompt, are told ahead. */
static void only_the_first_token_waits_for_rank_0(void **state) {
    (void)state;
    for (size_t n_stages = 1; n_stages <= 2; n_stages++) {
        const mesh m = {3 - n_stages, 1, n_stages, "llama"};
        int32_t ids[MAX_IDS];
        rank_thread ranks[MAX_RANKS];
        linnet_finish finish;
        golden g;
        golden_open(&g, m.model);
        open_mesh(&g, &m, true, ranks);
        linnet_request_options options = greedy_options(&g, 1);
        assert_int_equal(receive(submit(ranks[0].engine, &options), ids, &finish), GOLDEN_OUTPUT);
        assert_memory_equal(ids, g.greedy[1], sizeof g.greedy[1]);
        const ahead_backend *first = ahead_of(ranks[0].engine->backend);
        const ahead_backend *other = ahead_of(ranks[1].engine->backend);
        close_ranks(ranks, 2); /* as the other may still be at the last step */
        assert_int_equal(first->n_ahead, GOLDEN_OUTPUT - 1);
        assert_int_equal(other->n_ahead, GOLDEN_OUTPUT - 1);
        linnet_model_close(g.model);
    }
}

/* Parts of a step are started behind one another, and a step ahead behind the last of them. */
static void parts_are_started_behind_one_another(void **state) {
    static given waited[N_REQUESTS], got[N_REQUESTS];
    const mesh m = {1, 1, 2, "llama"};
    rank_thread ranks[MAX_RANKS];
    golden g;
    (void)state;
    golden_open(&g, m.model);
    open_mesh(&g, &m, false, ranks);
    ranks[0].engine->executor.part_cost = (ln_micro_batch_cost){0};
    answer(ranks[0].engine, &g, waited);
    close_ranks(ranks, 2);
    open_mesh(&g, &m, true, ranks);
    ranks[0].engine->executor.part_cost = (ln_micro_batch_cost){1, 1};
    answer(ranks[0].engine, &g, got);
    size_t n_runs = ahead_of(ranks[0].engine->backend)->n_started;
    assert_true(n_runs > stats_of(ranks[0].engine).n_steps);
    assert_true(ahead_of(ranks[0].engine->backend)->n_ahead > 0);
    close_ranks(ranks, 2);
    expect_same(got, waited);
    linnet_model_close(g.model);
}

/* Three parts and the results are as many runs as may be under way: the next step's results are
 * copied before the host has read these. */
static void results_lie_until_they_are_read(void **state) {
    const mesh m = {1, 1, 3, "cohere2"};
    linnet_request *requests[GOLDEN_PROMPTS];
    rank_thread ranks[MAX_RANKS];
    gate held;
    golden g;
    (void)state;
    assert_int_equal(GOLDEN_PROMPTS + 1, LN_MAX_STARTED);
    golden_open(&g, m.model);
    open_mesh(&g, &m, true, ranks);
    ranks[0].engine->executor.part_cost = (ln_micro_batch_cost){1, 1};
    gate_hold(&held, ranks[0].engine);
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        linnet_request_options options = greedy_options(&g, i);
        requests[i] = submit(ranks[0].engine, &options);
    }
    gate_release(&held);
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        given got;
        take(requests[i], &got);
        assert_int_equal(got.n_ids, GOLDEN_OUTPUT);
        assert_memory_equal(got.ids, g.greedy[i], sizeof g.greedy[i]);
    }
    close_ranks(ranks, 3);
    linnet_model_close(g.model);
}

/* Micro-batches of a step have results of their own, and go on before others have theirs. As these
 * backends run what they start at once, a rank may be told a step only where messages are kept. */
static void results_by_part_are_those_of_whole_steps(void **state) {
    static const mesh staged[] = {
        {1, 1, 2, "llama"}, {1, 1, 3, "cohere2"}, {2, 1, 2, "llama"}, {1, 1, 2, "mamba2"}};
    (void)state;
    for (size_t i = 0; i < sizeof staged / sizeof *staged; i++) {
        static given waited[N_REQUESTS], got[2][N_REQUESTS];
        const mesh *m = &staged[i];
        rank_thread ranks[MAX_RANKS];
        golden g;
        golden_open(&g, m->model);
        open_mesh(&g, m, false, ranks);
        answer(ranks[0].engine, &g, waited);
        close_ranks(ranks, count(m));
        ranks_buffer = true;
        open_mesh(&g, m, true, ranks);
        ranks_buffer = false;
        ranks[0].engine->executor.part_seqs = 1;
        for (size_t turn = 0; turn < 2; turn++)
            answer(ranks[0].engine, &g, got[turn]);
        size_t n_steps = stats_of(ranks[0].engine).n_steps;
        const ahead_backend *backend = ahead_of(ranks[0].engine->backend);
        close_ranks(ranks, count(m));
        assert_true(backend->n_started > 2 * n_steps);
        assert_int_equal(backend->n_started, backend->n_finished);
        for (size_t turn = 0; turn < 2; turn++)
            expect_same(got[turn], waited);
        linnet_model_close(g.model);
    }
}

static void expect_error(linnet_engine *engine, const golden *g) {
    linnet_request_options options = greedy_options(g, 0);
    linnet_request *request = submit(engine, &options);
    linnet_event event;
    do
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    while (event.token >= 0);
    assert_int_equal(event.finish, LINNET_FINISH_ERROR);
    assert_non_null(strstr(event.error, "a start failed"));
    linnet_request_close(request);
}

/* More stages than runs may be under way: they decode whole steps, and give the same. */
static void many_stages_give_the_tokens_of_one_rank(void **state) {
    static const mesh staged[] = {
        {1, 1, 5, "gemma3"}, {1, 1, 6, "gemma3"}, {1, 1, 5, "olmo3_yarn"}};
    (void)state;
    for (size_t i = 0; i < sizeof staged / sizeof *staged; i++) {
        static given wanted[N_REQUESTS], got[2][N_REQUESTS];
        const mesh *m = &staged[i];
        rank_thread ranks[MAX_RANKS];
        golden g;
        assert_true(m->n_stages > LN_MAX_STARTED);
        golden_open(&g, m->model);
        linnet_engine *alone = engine_on(&g, exact_options(128, N_SEQS, 0, 1));
        answer(alone, &g, wanted);
        linnet_engine_destroy(alone);
        for (size_t ahead = 0; ahead < 2; ahead++) {
            open_mesh(&g, m, ahead > 0, ranks);
            ranks[0].engine->executor.part_cost = (ln_micro_batch_cost){1, 1};
            ranks[0].engine->executor.part_seqs = 1;
            answer(ranks[0].engine, &g, got[ahead]);
            close_ranks(ranks, count(m));
            expect_same(got[ahead], wanted);
        }
        linnet_model_close(g.model);
    }
}

/* A step that was told and fails to start on rank 0, the first or one ahead, is the last one: the
 * other ranks end as soon as rank 0 does, and do not take later messages for those of that step. */
static void a_start_that_fails_ends_all_ranks(void **state) {
    static const mesh some[] = {{2, 1, 1, "llama"}, {1, 1, 2, "llama"}, {2, 1, 2, "llama"}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof some / sizeof *some; i++) {
        const mesh *m = &some[i / 2];
        rank_thread ranks[MAX_RANKS];
        golden g;
        golden_open(&g, m->model);
        open_mesh(&g, m, true, ranks);
        ahead_of(ranks[0].engine->backend)->fails_start = i % 2 == 0 ? 1 : 5;
        expect_error(ranks[0].engine, &g);
        assert_int_equal(stats_of(ranks[0].engine).is_lost, 1);
        expect_error(ranks[0].engine, &g);
        uint64_t begin_ns = ln_clock_ns();
        linnet_engine_destroy(ranks[0].engine);
        for (size_t k = 1; k < count(m); k++) {
            assert_int_not_equal(ln_engine_follow(ranks[k].engine, NULL), LINNET_OK);
            linnet_engine_destroy(ranks[k].engine);
        }
        assert_true(ln_clock_ns() - begin_ns < UINT64_C(10000000000));
        linnet_model_close(g.model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_read_tokens_are_known),
        cmocka_unit_test(only_the_first_token_waits_for_rank_0),
        cmocka_unit_test(steps_ahead_give_the_tokens_of_those_that_wait),
        cmocka_unit_test(parts_are_started_behind_one_another),
        cmocka_unit_test(results_lie_until_they_are_read),
        cmocka_unit_test(results_by_part_are_those_of_whole_steps),
        cmocka_unit_test(many_stages_give_the_tokens_of_one_rank),
        cmocka_unit_test(a_start_that_fails_ends_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
