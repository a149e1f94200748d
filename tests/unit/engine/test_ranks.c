/* Several ranks whose backends start steps behind one another: what rank 0 samples comes to those
 * that embed it, so that steps are told before the tokens of the last one are known, and all is as
 * with ranks that wait. */
#include "engine_test.h"
#include "rank_threads.h"

enum { MAX_RANKS = 4, N_SEQS = 4, N_REQUESTS = 10, N_TOP = 3 };

typedef struct mesh {
    size_t n_ranks, n_expert_ranks, n_stages;
    const char *model;
} mesh;

static const mesh meshes[] = {
    {2, 1, 1, "llama"},  {3, 1, 1, "gemma2"},  {1, 1, 2, "llama"},       {2, 1, 2, "llama"},
    {1, 1, 2, "mamba2"}, {1, 1, 2, "gemma3n"}, {1, 2, 1, "deepseek_v3"},
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
    size_t n_ids;
    linnet_finish finish;
} given;

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
        all[i].n_ids = receive(requests[i], all[i].ids, &all[i].finish);
}

static void expect_same(const given *got, const given *wanted) {
    for (size_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(got[i].n_ids, wanted[i].n_ids);
        assert_int_equal(got[i].finish, wanted[i].finish);
        assert_memory_equal(got[i].ids, wanted[i].ids, got[i].n_ids * sizeof *got[i].ids);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_token_waits_for_rank_0),
        cmocka_unit_test(steps_ahead_give_the_tokens_of_those_that_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
