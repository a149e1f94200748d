/* engine/completion_queue: many requests that report in one place. */
#include "engine_test.h"

#include <poll.h>
#include <unistd.h>

#include "engine/completion_queue.h"

static linnet_completion_queue *create(void) {
    linnet_completion_queue *queue;
    linnet_error err = {0};
    if (linnet_completion_queue_create(&queue, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return queue;
}

static int polls(const linnet_completion_queue *queue, int timeout_ms) {
    struct pollfd fd = {.fd = linnet_completion_queue_get_fd(queue), .events = POLLIN};
    return poll(&fd, 1, timeout_ms);
}

/* ---- batches ----------------------------------------------------------------------------- */

enum { COUNT = 5 };

static size_t n_given_back;

static void give_back(linnet_request *request) {
    (void)request;
    n_given_back++;
}

/* Stands for a request; nobody looks into it. */
static linnet_request *request_at(char *place) {
    return (linnet_request *)(void *)place;
}

static void a_batch_wakes_once(void **state) {
    (void)state;
    linnet_completion_queue *queue = create();
    char places[COUNT];
    ln_completion_entry entries[COUNT] = {0};
    ln_completion_batch batch = {0};
    for (size_t i = 0; i < COUNT; i++)
        ln_completion_entry_init(&entries[i], request_at(&places[i]), queue);
    n_given_back = 0;
    for (int times = 0; times < 3; times++) { /* nobody looks meanwhile */
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(ln_completion_batch_add(&batch, &entries[i]));
            assert_false(ln_completion_batch_add(&batch, &entries[i]));
        }
        assert_int_equal(polls(queue, 0), times > 0);
        ln_completion_batch_post(&batch, give_back);
    }
    assert_int_equal(n_given_back, 3 * COUNT);
    uint64_t n_wakes;
    assert_int_equal(read(linnet_completion_queue_get_fd(queue), &n_wakes, sizeof n_wakes),
                     sizeof n_wakes);
    assert_int_equal(n_wakes, 1);
    ln_completion_entry_close(&entries[2]); /* from the middle of the list, and its ends */
    ln_completion_entry_close(&entries[0]);
    ln_completion_entry_close(&entries[4]);
    assert_ptr_equal(linnet_completion_queue_next(queue), request_at(&places[1]));
    assert_ptr_equal(linnet_completion_queue_next(queue), request_at(&places[3]));
    assert_null(linnet_completion_queue_next(queue));
    ln_completion_batch_add(&batch, &entries[2]); /* closed: never again */
    ln_completion_batch_post(&batch, give_back);
    assert_int_equal(polls(queue, 0), 0);
    assert_null(linnet_completion_queue_next(queue));
    ln_completion_batch_add(&batch, &entries[3]);
    ln_completion_batch_post(&batch, give_back);
    assert_int_equal(polls(queue, 0), 1); /* until NULL was given */
    assert_ptr_equal(linnet_completion_queue_next(queue), request_at(&places[3]));
    assert_int_equal(polls(queue, 0), 1);
    assert_null(linnet_completion_queue_next(queue));
    assert_int_equal(polls(queue, 0), 0);
    linnet_completion_queue_destroy(queue); /* the entries hold it */
    for (size_t i = 0; i < COUNT; i++)
        ln_completion_entry_free(&entries[i]);
}

static void batches_part_by_queue(void **state) {
    (void)state;
    linnet_completion_queue *queues[2] = {create(), create()};
    char places[COUNT];
    ln_completion_entry entries[COUNT] = {0};
    ln_completion_batch batch = {0};
    for (size_t i = 0; i < COUNT; i++) {
        ln_completion_entry_init(&entries[i], request_at(&places[i]), queues[i % 2]);
        ln_completion_batch_add(&batch, &entries[i]);
    }
    ln_completion_batch_post(&batch, give_back);
    for (size_t i = 0; i < COUNT; i++)
        assert_ptr_equal(linnet_completion_queue_next(queues[i % 2]), request_at(&places[i]));
    for (size_t i = 0; i < COUNT; i++)
        ln_completion_entry_free(&entries[i]);
    for (size_t i = 0; i < 2; i++) {
        assert_null(linnet_completion_queue_next(queues[i]));
        assert_int_equal(polls(queues[i], 0), 0);
        linnet_completion_queue_destroy(queues[i]);
    }
    linnet_completion_queue_destroy(NULL);
}

/* ---- requests ---------------------------------------------------------------------------- */

typedef struct receiver {
    int32_t ids[2][MAX_IDS]; /* of each output */
    size_t n_ids[2];
    bool is_over;
} receiver;

static void take_all(linnet_request *request, receiver *to) {
    linnet_event event;
    linnet_status status;
    while ((status = linnet_request_next(request, 0, &event, NULL)) == LINNET_OK) {
        if (event.token >= 0)
            to->ids[event.index][to->n_ids[event.index]++] = event.token;
        assert_int_equal(event.n_output_tokens, to->n_ids[event.index]);
        to->is_over = event.n_open == 0;
    }
    assert_int_equal(status, to->is_over ? LINNET_ERR_STATE : LINNET_ERR_TIMEOUT);
}

static void requests_report(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(400, 4, 40, 1));
    linnet_completion_queue *queue = create();
    linnet_request *requests[GOLDEN_PROMPTS];
    static receiver receivers[GOLDEN_PROMPTS];
    linnet_event event;
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        linnet_request_options options = greedy_options(&g, i);
        options.completion_queue = queue;
        options.user = &receivers[i];
        options.n = i == 1 ? 2 : 1;
        requests[i] = submit(engine, &options);
        assert_int_equal(linnet_request_get_fd(requests[i]), -1);
        assert_ptr_equal(linnet_request_get_user(requests[i]), &receivers[i]);
        assert_int_equal(linnet_request_next(requests[i], -1, &event, NULL), LINNET_ERR_ARGUMENT);
    }
    for (size_t n_over = 0; n_over < GOLDEN_PROMPTS;) {
        assert_int_equal(polls(queue, 60000), 1);
        for (linnet_request *request; (request = linnet_completion_queue_next(queue)) != NULL;) {
            receiver *to = linnet_request_get_user(request);
            bool was_over = to->is_over;
            take_all(request, to);
            n_over += to->is_over && !was_over;
        }
    }
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        for (size_t output = 0; output < (i == 1 ? 2u : 1u); output++) {
            assert_int_equal(receivers[i].n_ids[output], GOLDEN_OUTPUT);
            assert_memory_equal(receivers[i].ids[output], g.greedy[i], sizeof g.greedy[i]);
        }
        linnet_request_close(requests[i]);
    }
    linnet_engine_destroy(engine);
    assert_null(linnet_completion_queue_next(queue));
    assert_int_equal(polls(queue, 0), 0);
    linnet_completion_queue_destroy(queue);
    linnet_model_close(g.model);
}

/* Who asks all the time, while outputs are put in order, gets nothing before they are. */
static void ranked_outputs_come_in_order(void **state) {
    (void)state;
    enum { N = 4, TIMES = 20 };
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(400, N, 40, 1));
    linnet_completion_queue *queue = create();
    for (uint64_t seed = 0; seed < TIMES; seed++) {
        linnet_request_options options = greedy_options(&g, seed % GOLDEN_PROMPTS);
        options.completion_queue = queue;
        options.sampling.temperature = 1.5f;
        options.sampling.seed = seed;
        options.max_tokens = 4;
        options.n = N - 1;
        options.best_of = N;
        linnet_request *request = submit(engine, &options);
        float scores[N - 1] = {0};
        size_t n_tokens = 0;
        linnet_event event;
        linnet_status status;
        while ((status = linnet_request_next(request, 0, &event, NULL)) != LINNET_ERR_STATE) {
            if (status != LINNET_OK)
                continue;
            n_tokens += event.token >= 0;
            if (event.finish != LINNET_FINISH_NONE)
                scores[event.index] = event.score;
        }
        assert_true(n_tokens > 0);
        for (size_t i = 1; i < N - 1; i++)
            assert_true(scores[i] <= scores[i - 1]);
        linnet_request_close(request);
    }
    linnet_engine_destroy(engine);
    linnet_completion_queue_destroy(queue);
    linnet_model_close(g.model);
}

/* Nothing is given of a request that was closed, whatever of it was listed. */
static void closed_requests_are_gone(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(400, 4, 40, 1));
    linnet_completion_queue *queue = create();
    linnet_request_options options = greedy_options(&g, 0);
    options.completion_queue = queue;
    linnet_request *left = submit(engine, &options), *read = submit(engine, &options);
    receiver to = {0};
    while (!to.is_over) {
        assert_int_equal(polls(queue, 60000), 1);
        for (linnet_request *request; (request = linnet_completion_queue_next(queue)) != NULL;)
            if (request == read)
                take_all(read, &to);
    }
    linnet_request_close(left);
    assert_null(linnet_completion_queue_next(queue));
    options.max_tokens = 0;
    linnet_request *running = submit(engine, &options);
    assert_int_equal(polls(queue, 60000), 1);
    linnet_completion_queue_destroy(queue); /* before its requests */
    linnet_request_close(running);
    linnet_engine_destroy(engine);
    take_all(read, &to);
    linnet_request_close(read); /* after its engine */
    linnet_model_close(g.model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_wakes_once),       cmocka_unit_test(batches_part_by_queue),
        cmocka_unit_test(requests_report),          cmocka_unit_test(ranked_outputs_come_in_order),
        cmocka_unit_test(closed_requests_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
