/* linnet bench --serve-trace: what it prints adds up. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/spawn.h"
#include "test.h"

#define LLAMA TEST_SOURCE_DIR "/tests/golden/models/llama"

/* The report is about all requests and all their tokens, whatever the load. */
static void check(spawn_result result, const char *load, int most_open) {
    if (result.status != 0)
        fail_msg("%s", result.err);
    json_t *report = json_loads(result.out, 0, NULL);
    assert_non_null(report);
    const char *kind;
    int requests, open, steps, computed;
    double seconds, output, total, ttft[3], tpot[3];
    assert_int_equal(json_unpack(report,
                                 "{s:s, s:i, s:i, s:i, s:i, s:F, s:F, s:F, s:{s:F, s:F, s:F}, "
                                 "s:{s:F, s:F, s:F}}",
                                 "load", &kind, "requests", &requests, "most_open", &open, "steps",
                                 &steps, "computed_tokens", &computed, "seconds", &seconds,
                                 "output_tokens_per_s", &output, "total_tokens_per_s", &total,
                                 "ttft_ms", "p50", &ttft[0], "p90", &ttft[1], "p99", &ttft[2],
                                 "tpot_ms", "p50", &tpot[0], "p90", &tpot[1], "p99", &tpot[2]),
                     0);
    assert_string_equal(kind, load);
    assert_int_equal(requests, 12);
    assert_in_range(open, 1, most_open);
    assert_in_range(steps, 8, 12 * 28);
    if (strcmp(load, "closed") == 0) /* no prefix is shared; the last token is not computed */
        assert_int_equal(computed, 12 * (20 + 8 - 1));
    assert_true(steps < computed);
    assert_true(fabs(output * seconds - 12 * 8) < 1e-6);
    assert_true(fabs(total * seconds - 12 * (8 + 20)) < 1e-6);
    assert_true(ttft[0] > 0 && ttft[0] <= ttft[1] && ttft[1] <= ttft[2]);
    assert_true(tpot[0] > 0 && tpot[0] <= tpot[1] && tpot[1] <= tpot[2]);
    assert_true(ttft[2] <= seconds * 1000);
    json_decref(report);
    spawn_free(&result);
}

#define SERVE                                                                                      \
    "bench", LLAMA, "--serve-trace", "--requests=12", "--prefill=20", "--decode=8", "--json"

static void test_loads(void **state) {
    (void)state;
    check(LINNET(SERVE), "closed", 12);
    check(LINNET(SERVE, "--concurrency=3"), "closed", 3);
    check(LINNET(SERVE, "--rate=2000", "--shared=16", "--max-seqs=2"), "open", 12);
}

/* Tokens may be drawn, which changes nothing about their number. */
static void test_sampling(void **state) {
    (void)state;
    check(LINNET(SERVE, "--temp=1", "--top-k=5", "--top-p=0.9", "--min-p=0.1", "--seed=7"),
          "closed", 12);
    spawn_result plain = LINNET("bench", LLAMA, "--prefill=8", "--decode=4", "--runs=1", "--temp=1",
                                "--repeat-penalty=1.1", "--json");
    assert_int_equal(plain.status, 0);
    assert_non_null(strstr(plain.out, "decode_tokens_per_s"));
    assert_non_null(strstr(plain.out, "\"seed\":"));
    spawn_free(&plain);
    plain = LINNET("bench", LLAMA, "--prefill=8", "--decode=4", "--runs=1", "--temp=1", "--seed=7");
    assert_non_null(strstr(plain.out, "--temp 1 --seed 7"));
    spawn_free(&plain);
    plain = LINNET("bench", LLAMA, "--prefill=8", "--decode=4", "--runs=1");
    assert_null(strstr(plain.out, "seed"));
    spawn_free(&plain);
    spawn_result wrong = LINNET(SERVE, "--temp=-1");
    assert_int_equal(wrong.status, 2);
    spawn_free(&wrong);
}

static void test_explanation(void **state) {
    (void)state;
    spawn_result result =
        LINNET("bench", LLAMA, "--backend=cpu", "--prefill=12", "--seqs=2", "--explain");
    if (result.status != 0)
        fail_msg("%s", result.err);
    static const char *const says[] = {
        "prefill of 12 tokens, 1 sequence: ",
        "decode of 2 tokens, 2 sequences: ",
        "outside the layers\n    embed ",
        "layers 0 to ",
        "linear x 3 ", /* q, k and v */
        "not fused: the CPU runs operations one by one",
    };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (strstr(result.out, says[i]) == NULL)
            fail_msg("\"%s\" is not in\n%s", says[i], result.out);
    assert_null(strstr(result.out, "tokens/s"));
    spawn_free(&result);
}

static void test_refusals(void **state) {
    (void)state;
    const char *const message[] = {"need --serve-trace",
                                   "both given",
                                   "more than --prefill",
                                   "--seqs does not combine with --serve-trace",
                                   "--context does not combine with --serve-trace",
                                   "--profile does not combine with --serve-trace",
                                   "--explain does not combine with --serve-trace"};
    spawn_result results[] = {LINNET("bench", LLAMA, "--requests=3"),
                              LINNET(SERVE, "--rate=2", "--concurrency=2"),
                              LINNET(SERVE, "--shared=21"),
                              LINNET(SERVE, "--seqs=2"),
                              LINNET(SERVE, "--context=9"),
                              LINNET(SERVE, "--profile"),
                              LINNET(SERVE, "--explain")};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        assert_int_equal(results[i].status, 2);
        assert_non_null(strstr(results[i].err, message[i]));
        spawn_free(&results[i]);
    }
    spawn_result encoder = LINNET("bench", TEST_SOURCE_DIR "/tests/golden/models/t5");
    assert_int_equal(encoder.status, 1);
    assert_non_null(strstr(encoder.err, "t5 has an encoder"));
    spawn_free(&encoder);
}

/* The picture has the speeds that are printed. */
static void test_plot(void **state) {
    (void)state;
    char *folder = temp_create(), wanted[64];
    const char *picture = path_in(folder, "speed.svg");
    size_t n_bytes;
    spawn_result result = LINNET("bench", LLAMA, "--prefill=8", "--decode=4", "--runs=1", "--json",
                                 "--plot", picture);
    json_t *report = json_loads(result.out, 0, NULL);
    double decode = json_real_value(json_object_get(report, "decode_tokens_per_s"));
    snprintf(wanted, sizeof wanted, decode >= 100 ? ">%.0f" : ">%.1f", decode);
    char *svg = read_file(picture, &n_bytes);
    if (decode >= 10)
        assert_non_null(strstr(svg, wanted));
    assert_non_null(strstr(svg, "<title>llama: tokens per second</title>"));
    assert_non_null(strstr(svg, "decode, 1 sequence"));
    assert_string_equal(svg + n_bytes - 7, "</svg>\n");
    free(svg);
    json_decref(report);
    spawn_free(&result);
    spawn_result refused = LINNET("bench", LLAMA, "--explain", "--plot", picture);
    assert_int_equal(refused.status, 2);
    spawn_free(&refused);
    temp_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loads),       cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_explanation), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_plot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
