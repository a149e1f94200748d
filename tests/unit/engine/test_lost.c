/* A device that fails for good: every request ends with an error, and the engine says so. On a GPU
 * a kernel reads where there is no memory; elsewhere a backend plays that. */
#include "engine_test.h"

#include "engine/engine.h"

typedef struct fragile {
    ln_backend_vtable vtable;
    const ln_backend_vtable *real;
    bool is_broken, is_lost;
} fragile;

static fragile acted;

static ln_status run(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    if (acted.is_broken)
        return ln_fail(err, LINNET_ERR_COMPUTE, "a step failed");
    return acted.real->run(backend, ops, n_ops, err);
}

static ln_status start(ln_backend *backend, const ln_op *ops, size_t n_ops, void *memory,
                       size_t bytes, ln_error *err) {
    if (acted.is_broken)
        return ln_fail(err, LINNET_ERR_COMPUTE, "a step failed");
    return acted.real->start(backend, ops, n_ops, memory, bytes, err);
}

static bool is_lost(const ln_backend *backend) {
    (void)backend;
    return acted.is_lost;
}

/* Nothing runs on the engine meanwhile. */
static void play(linnet_engine *engine) {
    acted = (fragile){.vtable = *engine->backend->vtable, .real = engine->backend->vtable};
    acted.vtable.run = run;
    acted.vtable.start = acted.real->start != NULL ? start : NULL;
    acted.vtable.is_lost = is_lost;
    engine->backend->vtable = &acted.vtable;
}

static uint64_t loses(linnet_engine *engine) {
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    return stats.is_lost;
}

/* One request, which ends with an error that says `text`. */
static void expect_error(linnet_engine *engine, const golden *g, const char *text) {
    linnet_request_options options = greedy_options(g, 0);
    linnet_request *request = submit(engine, &options);
    linnet_event event;
    assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    assert_int_equal(event.finish, LINNET_FINISH_ERROR);
    if (strstr(event.error, text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, event.error);
    linnet_request_close(request);
}

static void expect_answer(linnet_engine *engine, const golden *g) {
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    linnet_request_options options = greedy_options(g, 0);
    size_t n = receive(submit(engine, &options), ids, &finish);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    assert_memory_equal(ids, g->greedy[0], n * sizeof *ids);
}

static void a_failed_step_is_over_a_lost_device_is_not(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(128, 2, 0, 1));
    expect_answer(engine, &g);
    play(engine);
    acted.is_broken = true;
    expect_error(engine, &g, "a step failed");
    assert_int_equal(loses(engine), 0);
    acted.is_broken = false;
    expect_answer(engine, &g);
    acted.is_broken = acted.is_lost = true;
    for (int i = 0; i < 3; i++) {
        expect_error(engine, &g, "a step failed");
        assert_int_equal(loses(engine), 1);
    }
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
}

static void a_kernel_that_traps_ends_requests_with_errors(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(128, 2, 0, 1));
    if (!engine->plan.on_device) {
        linnet_engine_destroy(engine);
        linnet_model_close(g.model);
        skip();
    }
    expect_answer(engine, &g);
    engine->executor.activations.normed = (float *)(void *)64; /* there is no memory */
    for (int i = 0; i < 3; i++) {
        expect_error(engine, &g, "failed: ");
        assert_int_equal(loses(engine), 1);
    }
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_step_is_over_a_lost_device_is_not),
        cmocka_unit_test(a_kernel_that_traps_ends_requests_with_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
