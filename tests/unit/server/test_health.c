/* Which model hangs, over engines whose steps the test asks for: nothing here depends on how fast
 * it runs. */
#include "server/health.h"

#include <string.h>

#include "base/clock.h"
#include "server/modelled_engine.h"
#include "test.h"

enum { N_MODELS = 2, HANG_MS = 20, MAX_TOKENS = 100000 };

typedef struct models {
    linnet_engine engines[N_MODELS];
    ln_model_entry entries[N_MODELS];
    ln_registry registry;
    ln_log log;
    ln_health health;
    struct event_base *base;
    unsigned n_hung;
} models;

static void on_lost(void *user) {
    (void)user;
    fail();
}

static void on_hung(void *user) {
    ((models *)user)->n_hung++;
}

static models *set_up(bool has_gpu) {
    static const char *const names[N_MODELS] = {"a", "b"};
    static models made;
    ln_error err = {0};
    memset(&made, 0, sizeof made);
    for (size_t i = 0; i < N_MODELS; i++) {
        modelled_engine_init(&made.engines[i], 4);
        made.entries[i].served =
            (ln_served_model){.engine = &made.engines[i], .has_gpu = has_gpu, .name = names[i]};
        made.entries[i].state = LN_MODEL_LOADED;
    }
    made.registry = (ln_registry){.entries = made.entries, .n_entries = N_MODELS, .log = &made.log};
    const ln_health_hooks hooks = {.user = &made, .on_lost = on_lost, .on_hung = on_hung};
    made.base = event_base_new();
    assert_non_null(made.base);
    assert_int_equal(
        ln_health_start(&made.health, made.base, &made.registry, false, HANG_MS, &hooks, &err),
        LINNET_OK);
    return &made;
}

static void tear_down(models *bench) {
    ln_health_stop(&bench->health);
    event_base_free(bench->base);
}

static linnet_request *submit(linnet_engine *engine) {
    linnet_request_options options;
    linnet_request *request;
    linnet_error err;
    linnet_request_options_init(&options);
    options.max_tokens = MAX_TOKENS;
    assert_int_equal(linnet_request_submit(engine, &options, &request, &err), LINNET_OK);
    return request;
}

/* Lets the request end. */
static void end(linnet_engine *engine, linnet_request *request) {
    linnet_request_close(request);
    modelled_engine_step(engine);
}

/* Until the timer has looked once more. */
static void tick(models *bench) {
    assert_int_equal(event_base_loop(bench->base, EVLOOP_ONCE), 0);
}

/* The engine steps between any two looks, for many times the longest silence. */
static void step_for_long(models *bench, linnet_engine *engine) {
    uint64_t end_ns = ln_clock_ns() + 10 * HANG_MS * UINT64_C(1000000);
    while (ln_clock_ns() < end_ns) {
        modelled_engine_step(engine);
        tick(bench);
    }
    modelled_engine_step(engine);
}

/* ---- tests ------------------------------------------------------------------------------- */

/* Another one's steps hide nothing, and the server stays for it; then it ends. */
static void one_hangs_beside_another(void **state) {
    (void)state;
    models *bench = set_up(true);
    linnet_request *a = submit(&bench->engines[0]), *b = submit(&bench->engines[1]);
    ln_health_begin_work(&bench->health);
    step_for_long(bench, &bench->engines[1]);
    assert_string_equal(ln_health_find_trouble(&bench->health), "the engine makes no progress");
    assert_true(bench->entries[0].health.hangs);
    assert_false(bench->entries[1].health.hangs);
    assert_null(bench->entries[1].health.trouble);
    assert_int_equal(bench->n_hung, 0);
    end(&bench->engines[1], b);
    for (int i = 0; i < 1000 && bench->n_hung == 0; i++)
        tick(bench);
    assert_int_equal(bench->n_hung, 1);
    end(&bench->engines[0], a);
    tear_down(bench);
}

/* Without a GPU it may go on after all. */
static void goes_on(void **state) {
    (void)state;
    models *bench = set_up(false);
    linnet_request *a = submit(&bench->engines[0]), *b = submit(&bench->engines[1]);
    ln_health_begin_work(&bench->health);
    step_for_long(bench, &bench->engines[1]);
    end(&bench->engines[1], b);
    for (int i = 0; i < 100; i++)
        tick(bench);
    assert_int_equal(bench->n_hung, 0);
    assert_non_null(ln_health_find_trouble(&bench->health));
    modelled_engine_step(&bench->engines[0]);
    assert_null(ln_health_find_trouble(&bench->health));
    assert_false(bench->entries[0].health.hangs);
    end(&bench->engines[0], a);
    tear_down(bench);
}

/* Also when nobody waits for it any more; once it is idle, nothing looks. */
static void hangs_without_clients(void **state) {
    (void)state;
    models *bench = set_up(false);
    linnet_request *a = submit(&bench->engines[0]);
    ln_health_begin_work(&bench->health);
    linnet_request_close(a);
    ln_health_end_work(&bench->health);
    for (int i = 0; i < 1000 && !bench->entries[0].health.hangs; i++)
        tick(bench);
    assert_non_null(bench->entries[0].health.trouble);
    modelled_engine_step(&bench->engines[0]);
    tick(bench);
    assert_null(bench->entries[0].health.trouble);
    assert_int_equal(event_base_get_num_events(bench->base, EVENT_BASE_COUNT_ADDED), 0);
    tear_down(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hangs_beside_another),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(hangs_without_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
