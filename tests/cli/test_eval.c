/* linnet eval: its numbers follow from those of linnet logits. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

#define DEMO TEST_SOURCE_DIR "/models/demo.gguf"

static char *folder;
static const char text[] = "The king is come; deal mildly with his youth,\n"
                           "For young hot colts being raged do rage the more.\n";

static json_t *eval_json(spawn_result result) {
    if (result.status != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    json_t *report = json_loads(result.out, 0, NULL);
    assert_non_null(report);
    spawn_free(&result);
    return report;
}

static double real_of(const json_t *report, const char *key) {
    const json_t *value = json_object_get(report, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Perplexity from the rows of `linnet logits`. */
static double perplexity_by_hand(const char *ids_text, size_t n_ids) {
    char *ids = strdup(ids_text), *at = ids;
    spawn_result result = LINNET("logits", DEMO, "--ids", ids_text, "--out",
                                 path_in(folder, "l.bin"), "--precision", "exact");
    assert_int_equal(result.status, 0);
    spawn_free(&result);
    size_t n_bytes;
    float *rows = (float *)(void *)read_file(path_in(folder, "l.bin"), &n_bytes);
    size_t n_vocab = n_bytes / sizeof *rows / n_ids;
    double nll = 0;
    strsep(&at, ",");
    for (size_t i = 0; i + 1 < n_ids; i++) {
        const float *row = rows + i * n_vocab;
        double sum = 0;
        for (size_t j = 0; j < n_vocab; j++)
            sum += exp((double)row[j]);
        nll += log(sum) - (double)row[atoi(strsep(&at, ","))];
    }
    free(rows);
    free(ids);
    return exp(nll / (double)(n_ids - 1));
}

static void perplexity_follows_from_logits(void **state) {
    (void)state;
    if (access(DEMO, R_OK) != 0)
        skip();
    const char *file = path_in(folder, "t.txt");
    write_file(file, text, strlen(text));
    spawn_result tokens = LINNET("tokenize", DEMO, "--file", file);
    assert_int_equal(tokens.status, 0);
    json_t *list = json_loads(tokens.out, 0, NULL);
    spawn_free(&tokens);
    size_t n = json_array_size(list);
    char *ids = calloc(n + 1, 12);
    for (size_t i = 0; i < n; i++)
        sprintf(ids + strlen(ids), "%s%lld", i > 0 ? "," : "",
                (long long)json_integer_value(json_array_get(list, i)));
    json_decref(list);
    double expected = perplexity_by_hand(ids, n);
    free(ids);
    json_t *whole =
        eval_json(LINNET("eval", DEMO, "--file", file, "--precision", "exact", "--json"));
    assert_true(fabs(real_of(whole, "perplexity") / expected - 1) < 1e-4);
    assert_true(real_of(whole, "perplexity_error") > 0);
    assert_int_equal((int)real_of(whole, "n_tokens"), n - 1);
    json_decref(whole);
    /* every token counts once, whatever the window */
    json_t *narrow =
        eval_json(LINNET("eval", DEMO, "--file", file, "--ctx", "8", "--stride", "3", "--json"));
    assert_int_equal((int)real_of(narrow, "n_tokens"), n - 1);
    json_decref(narrow);
    /* of each whole chunk of 9 tokens, those behind the fifth */
    json_t *chunks =
        eval_json(LINNET("eval", DEMO, "--file", file, "--ctx", "9", "--chunks", "--json"));
    assert_int_equal((int)real_of(chunks, "n_tokens"), n / 9 * 4);
    json_decref(chunks);
}

static void a_model_does_not_differ_from_itself(void **state) {
    (void)state;
    if (access(DEMO, R_OK) != 0)
        skip();
    const char *file = path_in(folder, "t.txt");
    write_file(file, text, strlen(text));
    json_t *report = eval_json(LINNET("eval", DEMO, "--file", file, "--compare", DEMO, "--json"));
    const json_t *divergence = json_object_get(report, "kl_divergence");
    assert_true(real_of(divergence, "mean") < 1e-6);
    assert_true(real_of(divergence, "max") < 1e-5);
    assert_true(real_of(divergence, "same_choice") == 1);
    assert_true(real_of(json_object_get(report, "compared"), "perplexity") ==
                real_of(report, "perplexity"));
    json_decref(report);
    spawn_result shown = LINNET("eval", DEMO, "--file", file, "--compare", DEMO);
    assert_int_equal(shown.status, 0);
    assert_non_null(strstr(shown.out, "same choice    100.00%"));
    spawn_free(&shown);
}

static void assert_fails(spawn_result result, int status, const char *message) {
    if (result.status != status || strstr(result.err, message) == NULL)
        fail_msg("exit status %d: %s", result.status, result.err);
    spawn_free(&result);
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    const char *file = path_in(folder, "t.txt");
    write_file(file, text, strlen(text));
    assert_fails(LINNET("eval"), 2, "MODEL is missing");
    assert_fails(LINNET("eval", "a"), 2, "--file is missing");
    assert_fails(LINNET("eval", path_in(folder, "none"), "--file", file), 1, "none");
    const char *model = TEST_SOURCE_DIR "/tests/golden/models/llama";
    assert_fails(LINNET("eval", model, "--file", file), 1, "tokenizer");
    assert_fails(LINNET("eval", model, "--file", file, "--ctx", "8", "--stride", "8"), 2,
                 "--stride");
    assert_fails(LINNET("eval", TEST_SOURCE_DIR "/tests/golden/models/t5", "--file", file), 1,
                 "t5 has an encoder");
}

/* One point for each window, and in the end the perplexity that is printed. */
static void a_plot_shows_the_windows(void **state) {
    (void)state;
    if (access(DEMO, R_OK) != 0)
        skip();
    const char *file = path_in(folder, "a<b.txt"), *picture = path_in(folder, "plot.svg");
    char wanted[64];
    size_t n_bytes, n_points = 0;
    write_file(file, text, strlen(text));
    json_t *report = eval_json(LINNET("eval", DEMO, "--file", file, "--ctx", "8", "--stride", "4",
                                      "--plot", picture, "--json"));
    snprintf(wanted, sizeof wanted, "in the end %.4f +-", real_of(report, "perplexity"));
    size_t n_windows = ((size_t)real_of(report, "n_tokens") + 1 - 8 + 3) / 4 + 1;
    json_decref(report);
    char *svg = read_file(picture, &n_bytes);
    assert_non_null(strstr(svg, wanted));
    assert_non_null(strstr(svg, "Perplexity of a&lt;b.txt"));
    const char *points = strstr(svg, "points=\"");
    assert_non_null(points);
    for (points += 8; *points != '"'; points++)
        n_points += *points == ',';
    assert_int_equal(n_points, n_windows);
    assert_string_equal(svg + n_bytes - 7, "</svg>\n");
    free(svg);
    assert_fails(LINNET("eval", DEMO, "--file", file, "--plot", "/nonexistent/plot.svg"), 1,
                 "cannot write /nonexistent/plot.svg");
}

static int make_folder(void **state) {
    (void)state;
    folder = temp_create();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    temp_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_follows_from_logits),
        cmocka_unit_test(a_model_does_not_differ_from_itself),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(a_plot_shows_the_windows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
