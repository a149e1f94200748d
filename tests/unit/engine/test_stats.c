/* linnet_engine_get_stats counts what requests cost. */
#include "engine_test.h"

static void tokens_steps_and_requests_are_counted(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(128, 2, 128, 1));
    linnet_engine_stats before = stats_of(engine);
    assert_int_equal(before.n_requests + before.n_steps + before.n_output_tokens, 0);
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    linnet_request_options options = greedy_options(&g, 0);
    for (size_t i = 1; i <= 2; i++) {
        receive(submit(engine, &options), ids, &finish);
        linnet_engine_stats stats = stats_of(engine);
        assert_int_equal(stats.n_requests, i);
        assert_int_equal(stats.n_output_tokens, i * GOLDEN_OUTPUT);
        assert_int_equal(stats.n_steps, i * GOLDEN_OUTPUT);
        assert_int_equal(stats.n_waiting + stats.n_running + stats.n_kv_used, 0);
        assert_true(stats.n_kv_blocks >= 16);
    }
    linnet_engine_stats part = {.struct_bytes = offsetof(linnet_engine_stats, n_running)};
    linnet_engine_get_stats(engine, &part);
    assert_int_equal(part.n_kv_blocks, 0); /* an older caller's struct ends earlier */
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_steps_and_requests_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
