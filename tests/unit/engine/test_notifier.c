/* engine/notifier: what receivers see does not wait for later steps, nor the engine for them. */
#include "engine_test.h"

#include <semaphore.h>
#include <time.h>

#include "base/clock.h"
#include "gate.h"

static golden shared;

enum { BATCH = 16, N_SCORED = 20, PAUSE_MS = 20, PATIENCE_MS = 60000 };

/* Takes all events of a request that is over or will be in time, and closes it. */
static linnet_event take_all(linnet_request *request, int timeout_ms, size_t n_expected) {
    linnet_event event = {0};
    size_t n_tokens = 0;
    while (linnet_request_next(request, timeout_ms, &event, NULL) == LINNET_OK)
        n_tokens += event.token >= 0;
    assert_int_equal(event.finish, LINNET_FINISH_LENGTH);
    assert_int_equal(n_tokens, n_expected);
    linnet_request_close(request);
    return event;
}

static linnet_request_options one_token_prompt(size_t max_tokens) {
    static const int32_t prompt[] = {1};
    linnet_request_options options = greedy_options(&shared, 0);
    options.prompt_ids = prompt;
    options.n_prompt_ids = 1;
    options.max_tokens = max_tokens;
    return options;
}

/* A request that scores more tokens than a step holds. */
static linnet_request_options scoring(void (*on_logits)(void *, size_t, const float *, size_t),
                                      void *user) {
    static const int32_t prompt[N_SCORED] = {0};
    linnet_request_options options;
    linnet_request_options_init(&options);
    options.kind = LINNET_REQUEST_SCORE;
    options.prompt_ids = prompt;
    options.n_prompt_ids = N_SCORED;
    options.on_logits = on_logits;
    options.user = user;
    return options;
}

static void hold_at_last(void *user, size_t position, const float *row, size_t n_vocab) {
    if (position + 1 == N_SCORED)
        gate_on_logits(user, position, row, n_vocab);
}

/* The ends of one step reach receivers though the next one does not end. */
static void ends_come_while_the_next_step_runs(void **state) {
    (void)state;
    linnet_engine *engine = engine_on(&shared, exact_options(64, 8, BATCH, 2));
    linnet_completion_queue *queue;
    linnet_error err = {0};
    gate first, next;
    assert_int_equal(linnet_completion_queue_create(&queue, &err), LINNET_OK);
    assert_int_equal(sem_init(&next.reached, 0, 0), 0);
    assert_int_equal(sem_init(&next.released, 0, 0), 0);
    gate_hold(&first, engine);
    linnet_request_options options = one_token_prompt(1);
    options.n = 2;
    linnet_request *own = submit(engine, &options);
    options.completion_queue = queue;
    linnet_request *posted = submit(engine, &options);
    options = scoring(hold_at_last, &next);
    next.request = submit(engine, &options);
    gate_release(&first);
    while (sem_wait(&next.reached) != 0) { /* a signal came */
    }
    take_all(own, PATIENCE_MS, 2);
    struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; ms < PATIENCE_MS && linnet_completion_queue_next(queue) != posted; ms++)
        nanosleep(&pause, NULL);
    take_all(posted, 0, 2);
    gate_release(&next);
    linnet_engine_destroy(engine);
    linnet_completion_queue_destroy(queue);
}

static void sleep_long(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)user, (void)position, (void)row, (void)n_vocab;
    struct timespec left = {.tv_nsec = PAUSE_MS * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* Each row that is scored beside the tokens holds the engine up, and that is all that counts. */
static void check_times(linnet_request_options options, size_t n_tokens) {
    const uint64_t pause_ns = PAUSE_MS * (uint64_t)1000000;
    linnet_engine *engine = engine_on(&shared, exact_options(64, 8, BATCH, 2));
    linnet_request_options pauses = scoring(sleep_long, NULL);
    gate hold;
    pauses.n_prompt_ids = 2;
    gate_hold(&hold, engine);
    uint64_t begin_ns = ln_clock_ns();
    linnet_request *request = submit(engine, &options), *score = submit(engine, &pauses);
    gate_release(&hold);
    linnet_event event;
    while (linnet_request_next(score, PATIENCE_MS, &event, NULL) == LINNET_OK)
        continue;
    assert_int_equal(event.first_token_ns, 0);
    assert_int_equal(event.last_token_ns, 0);
    linnet_request_close(score);
    while (stats_of(engine).n_requests < 3) /* with the two that score */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    uint64_t all_ns = ln_clock_ns() - begin_ns;
    assert_int_equal(linnet_request_next(request, PATIENCE_MS, &event, NULL), LINNET_OK);
    assert_true(event.token >= 0);
    uint64_t first_ns = event.first_token_ns;
    assert_true(first_ns > 0);
    assert_int_equal(event.last_token_ns, 0);
    event = take_all(request, PATIENCE_MS, options.n * n_tokens - 1);
    assert_int_equal(event.first_token_ns, first_ns);
    assert_true(event.last_token_ns >= first_ns + 2 * pause_ns);
    assert_true(event.last_token_ns <= all_ns);
    linnet_engine_destroy(engine);
}

static void times_are_the_engines(void **state) {
    (void)state;
    linnet_request_options options = one_token_prompt(5);
    options.n = 1;
    check_times(options, 5);
    options.n = 2;
    check_times(options, 5);
    options.beam_width = 2;
    check_times(options, 5);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_come_while_the_next_step_runs),
        cmocka_unit_test(times_are_the_engines),
    };
    golden_open(&shared, "llama");
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    linnet_model_close(shared.model);
    return status;
}
