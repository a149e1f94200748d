/* Pipeline stages on threads of one process: they work on micro-batches of a step at the same time,
 * and give the bits of one rank. What is loaded in place of MPI connects the engines that one test
 * creates. */
#include "engine_test.h"
#include "rank_threads.h"

enum { MAX_STAGES = 3, N_REQUESTS = 8, N_PROMPT = 64, WAIT_S = 20 };

/* stages [n], in the order of ranks. */
static void open_stages(const golden *g, rank_thread *stages, size_t n) {
    linnet_engine_options options = exact_options(128, N_REQUESTS, 0, 1);
    options.n_stages = n;
    open_ranks(g, &options, stages, n);
}

/* ---- what a batch computes ------------------------------------------------------------------- */

typedef struct answers {
    int32_t ids[N_REQUESTS][GOLDEN_OUTPUT];
    float rows[GOLDEN_PROMPTS][MAX_IDS][N_VOCAB];
} answers;

static void keep_row(void *user, size_t position, const float *row, size_t n_vocab) {
    float(*rows)[N_VOCAB] = user;
    memcpy(rows[position], row, (n_vocab < N_VOCAB ? n_vocab : N_VOCAB) * sizeof *row);
}

/* Prompts of several lengths, and what scores: all of them in the same steps. */
static answers *answer(linnet_engine *engine, const golden *g) {
    answers *a = calloc(1, sizeof *a);
    linnet_request *scores[GOLDEN_PROMPTS], *requests[N_REQUESTS];
    int32_t prompts[N_REQUESTS][N_PROMPT], ids[MAX_IDS];
    linnet_finish finish;
    assert_non_null(a);
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++)
        scores[i] = submit_score(engine, g, i, NULL, keep_row, a->rows[i]);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        linnet_request_options options = greedy_options(g, 0);
        for (size_t k = 0; k < N_PROMPT; k++)
            prompts[i][k] = (int32_t)(3 + (7 * i + 11 * k) % 90);
        options.prompt_ids = prompts[i];
        options.n_prompt_ids = N_PROMPT - 7 * i;
        requests[i] = submit(engine, &options);
    }
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++)
        finish_score(scores[i]);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        size_t n = receive(requests[i], ids, &finish);
        assert_int_equal(n, GOLDEN_OUTPUT);
        memcpy(a->ids[i], ids, sizeof a->ids[i]);
    }
    return a;
}

static void compare(const golden *g, size_t n, const answers *expected) {
    rank_thread stages[MAX_STAGES];
    open_stages(g, stages, n);
    answers *got = answer(stages[0].engine, g);
    assert_memory_equal(got, expected, sizeof *got);
    close_ranks(stages, n);
    free(got);
}

/* Few blocks: what gives way is copied out and in. One stage has no layers with a cache. */
static void stages_swap_what_they_have(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "nemo_speechlm");
    linnet_engine_options options = exact_options(128, N_REQUESTS, 0, 1);
    linnet_engine *alone = engine_on(&g, options);
    answers *expected = answer(alone, &g), *got;
    rank_thread stages[MAX_STAGES];
    options.n_stages = MAX_STAGES;
    options.kv_tokens = 256;
    options.swap_bytes = 1 << 20;
    options.preemption = LINNET_PREEMPTION_SWAP;
    open_ranks(&g, &options, stages, MAX_STAGES);
    got = answer(stages[0].engine, &g);
    assert_memory_equal(got, expected, sizeof *got);
    assert_true(stats_of(stages[0].engine).n_swap_preemptions > 0);
    close_ranks(stages, MAX_STAGES);
    linnet_engine_destroy(alone);
    free(expected);
    free(got);
    linnet_model_close(g.model);
}

static void stages_give_the_bits_of_one(void **state) {
    static const char *const models[] = {"llama",       "gemma2",    "deepseek_v3",   "mamba2",
                                         "deepseek_v4", "glm5_next", "inkling_mm",    "inkling2_mm",
                                         "qwen4_exp",   "dory",      "inkling2_loop", "zamba",
                                         "kimi_k3"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        golden g;
        golden_open(&g, models[i]);
        linnet_engine *alone = engine_on(&g, exact_options(128, N_REQUESTS, 0, 1));
        answers *expected = answer(alone, &g);
        for (size_t n = 2; n <= MAX_STAGES && n <= alone->plan.n_layers; n++)
            compare(&g, n, expected);
        linnet_engine_destroy(alone);
        free(expected);
        linnet_model_close(g.model);
    }
}

/* ---- overlap --------------------------------------------------------------------------------- */

/* Runs that backends have begun, by rank. The last stage ends no run of the first step before the
 * first stage has begun its next one, of which there must be so many in the step. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ln_backend_vtable vtable;
    const ln_backend_vtable *real;
    const ln_backend *first;
    size_t n_begun[2], n_in_step, n_overlaps;
} watch = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static ln_status run_watched(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    bool is_last = backend != watch.first;
    struct timespec end;
    pthread_mutex_lock(&watch.mutex);
    size_t index = watch.n_begun[is_last]++;
    pthread_cond_broadcast(&watch.changed);
    pthread_mutex_unlock(&watch.mutex);
    ln_status status = watch.real->run(backend, ops, n_ops, err);
    if (!is_last || index + 1 >= watch.n_in_step)
        return status;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    pthread_mutex_lock(&watch.mutex);
    while (watch.n_begun[0] < index + 2 &&
           pthread_cond_timedwait(&watch.changed, &watch.mutex, &end) == 0)
        continue;
    watch.n_overlaps += watch.n_begun[0] >= index + 2;
    pthread_mutex_unlock(&watch.mutex);
    return status;
}

static void stages_work_at_the_same_time(void **state) {
    golden g;
    rank_thread stages[2];
    int32_t prompt[N_PROMPT], ids[MAX_IDS];
    linnet_finish finish;
    (void)state;
    golden_open(&g, "llama");
    open_stages(&g, stages, 2);
    watch.real = stages[0].engine->backend->vtable;
    watch.first = stages[0].engine->backend;
    watch.vtable = *watch.real;
    watch.vtable.run = run_watched;
    watch.n_in_step = 4;
    stages[0].engine->executor.part_cost.weight_tokens = 4;
    for (size_t i = 0; i < 2; i++)
        stages[i].engine->backend->vtable = &watch.vtable;
    for (size_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (int32_t)(3 + i);
    linnet_request_options options = greedy_options(&g, 0);
    options.prompt_ids = prompt;
    options.n_prompt_ids = N_PROMPT;
    options.max_tokens = 1;
    receive(submit(stages[0].engine, &options), ids, &finish);
    assert_int_equal(watch.n_overlaps, watch.n_in_step - 1);
    assert_int_equal(watch.n_begun[0], watch.n_in_step + 1); /* results come last */
    assert_int_equal(watch.n_begun[1], watch.n_in_step + 1);
    close_ranks(stages, 2);
    linnet_model_close(g.model);
}

/* ---- cuts ------------------------------------------------------------------------------------ */

static void expect_part(ln_micro_batches *parts, size_t n_seqs, const int32_t *starts,
                        const int32_t *lengths, const int32_t *logit_rows, size_t n_logits) {
    const ln_batch *batch = &parts->batch;
    assert_true(ln_micro_batches_next(parts));
    assert_int_equal(batch->n_seqs, n_seqs);
    assert_int_equal(batch->n_tokens, starts[n_seqs]);
    assert_memory_equal(batch->seq_starts, starts, (n_seqs + 1) * sizeof *starts);
    assert_memory_equal(batch->groups[0].lengths, lengths, n_seqs * sizeof *lengths);
    assert_int_equal(batch->n_logits, n_logits);
    assert_memory_equal(batch->logit_rows, logit_rows, n_logits * sizeof *logit_rows);
}

/* Three sequences of 5, 1 and 6 tokens, of which 15, 8 and 26 are cached behind the step. */
static void parts_are_batches_of_their_own(void **state) {
    static const int32_t starts[] = {0, 5, 6, 12}, lengths[] = {15, 8, 26}, rows[] = {4, 5, 10, 11};
    const ln_step_budget budget = {.max_seqs = 3, .max_tokens = 12, .max_logits = 4};
    const ln_kv_shape shape = {.n_groups = 1, .ctx_tokens = 32, .max_seqs = 3};
    ln_layout step_layout = {0}, layout = {0};
    ln_micro_batches parts;
    ln_step step;
    (void)state;
    ln_step_plan(&budget, &shape, &step_layout);
    ln_micro_batches_plan(&budget, &shape, &layout);
    void *step_memory = calloc(1, step_layout.bytes), *memory = calloc(1, layout.bytes);
    ln_step_init(&step, &budget, &shape, step_memory);
    layout = (ln_layout){0};
    ln_micro_batches_init(&parts, &budget, &shape, &layout, memory);
    memcpy(step.seq_starts, starts, sizeof starts);
    memcpy(step.groups[0].lengths, lengths, sizeof lengths);
    memcpy(step.logit_rows, rows, sizeof rows);
    step.batch.n_tokens = 12;
    step.batch.n_seqs = 3;
    step.batch.n_logits = 4;
    step.part_tokens = 4;
    ln_micro_batches_begin(&parts, &step, true);
    expect_part(&parts, 1, (int32_t[]){0, 4}, (int32_t[]){14}, NULL, 0);
    expect_part(&parts, 3, (int32_t[]){0, 1, 2, 4}, (int32_t[]){15, 8, 22}, (int32_t[]){0, 1}, 2);
    expect_part(&parts, 1, (int32_t[]){0, 4}, (int32_t[]){26}, (int32_t[]){2, 3}, 2);
    assert_int_equal(parts.first_logit, 2);
    assert_ptr_equal(parts.batch.positions, step.positions + 8);
    assert_ptr_equal(parts.batch.groups[0].slots, step.groups[0].slots + 8);
    assert_ptr_equal(parts.batch.groups[0].block_tables,
                     step.groups[0].block_tables + 2 * ln_kv_table_blocks(32));
    assert_false(ln_micro_batches_next(&parts));
    ln_micro_batches_begin(&parts, &step, false);
    expect_part(&parts, 1, (int32_t[]){0, 5}, (int32_t[]){15}, (int32_t[]){4}, 1);
    expect_part(&parts, 2, (int32_t[]){0, 1, 7}, (int32_t[]){8, 26}, (int32_t[]){0, 5, 6}, 3);
    assert_false(ln_micro_batches_next(&parts));
    free(step_memory);
    free(memory);
}

static void what_is_small_stays_whole(void **state) {
    static const ln_micro_batch_cost cpu = {4, 4}, slow = {64, 4}, gpu = {128, 64};
    (void)state;
    assert_true(ln_micro_batch_tokens(1, 2, &cpu) >= 1);
    assert_true(ln_micro_batch_tokens(8, 2, &cpu) >= 8);
    assert_int_equal(ln_micro_batch_tokens(16, 2, &cpu), 8);
    assert_int_equal(ln_micro_batch_tokens(512, 2, &cpu), 64);
    assert_true(ln_micro_batch_tokens(16, 2, &slow) >= 16);
    assert_true(ln_micro_batch_tokens(256, 2, &gpu) >= 256);
    assert_int_equal(ln_micro_batch_tokens(2048, 2, &gpu), 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_batches_of_their_own),
        cmocka_unit_test(what_is_small_stays_whole),
        cmocka_unit_test(stages_give_the_bits_of_one),
        cmocka_unit_test(stages_swap_what_they_have),
        cmocka_unit_test(stages_work_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
