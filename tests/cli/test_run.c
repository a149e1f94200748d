/* linnet run: what goes to stdout, how it ends, and what the options do. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

#define DEMO  TEST_SOURCE_DIR "/models/demo.gguf"
#define LLAMA TEST_SOURCE_DIR "/tests/golden/models/llama"

static const char prompt[] = "Once upon a time";

/* The program succeeds; its output is the caller's. */
static char *take_output(spawn_result result) {
    if (result.status != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    free(result.err);
    return result.out;
}

/* A list of ids as text, with `separator` between them; malloc'd. */
static char *join_ids(const json_t *ids, const char *separator) {
    char *text = calloc(json_array_size(ids) + 1, 12);
    assert_non_null(text);
    for (size_t i = 0; i < json_array_size(ids); i++)
        sprintf(text + strlen(text), "%s%lld", i == 0 ? "" : separator,
                (long long)json_integer_value(json_array_get(ids, i)));
    return text;
}

static void test_greedy_ids(void **state) {
    (void)state;
    json_t *golden = json_load_file(LLAMA "/golden.json", 0, NULL);
    assert_non_null(golden);
    char *ids = join_ids(json_array_get(json_object_get(golden, "prompts"), 1), ",");
    char *expected = join_ids(json_array_get(json_object_get(golden, "greedy"), 1), " ");
    char *out = take_output(LINNET("run", LLAMA, "--ids", ids, "-n", "32", "--temp", "0",
                                   "--ignore-eos", "--print-ids", "--precision", "exact"));
    strcat(expected, "\n");
    assert_string_equal(out, expected);
    free(out);
    free(expected);
    free(ids);
    json_decref(golden);
}

/* The best of four beams, as the reference has it. */
static void test_beams(void **state) {
    (void)state;
    json_t *golden = json_load_file(LLAMA "/golden.json", 0, NULL);
    json_t *beams = json_load_file(LLAMA "/beams.json", 0, NULL);
    const json_t *search = json_array_get(json_object_get(beams, "searches"), 0);
    json_int_t prompt_index = json_integer_value(json_object_get(search, "prompt"));
    json_t *prompts = json_object_get(golden, "prompts");
    char *ids = join_ids(json_array_get(prompts, (size_t)prompt_index), ",");
    char *expected = join_ids(json_array_get(json_object_get(search, "beams"), 0), " ");
    char *out = take_output(LINNET("run", LLAMA, "--ids", ids, "-n", "24", "--beams", "4",
                                   "--ignore-eos", "--print-ids", "--precision", "exact"));
    strcat(expected, "\n");
    assert_string_equal(out, expected);
    free(out);
    free(expected);
    free(ids);
    json_decref(beams);
    json_decref(golden);
}

static void test_stdout_holds_only_the_text(void **state) {
    (void)state;
    spawn_result quiet = LINNET("run", DEMO, "-q", "-p", prompt, "-n", "24", "--temp", "0");
    assert_int_equal(quiet.status, 0);
    assert_string_equal(quiet.err, "");
    assert_true(quiet.out_bytes > 0);
    spawn_result loud = LINNET("run", DEMO, "-p", prompt, "-n", "24", "--temp", "0");
    assert_string_equal(loud.out, quiet.out);
    assert_contains(loud.err, DEMO);
    assert_contains(loud.err, "tokens/s");
    spawn_free(&quiet);
    spawn_free(&loud);
}

static void test_prompt_from_everywhere(void **state) {
    (void)state;
    char *folder = temp_create();
    const char *file = path_in(folder, "prompt.txt");
    write_file(file, prompt, strlen(prompt));
    char *direct = take_output(LINNET("run", DEMO, "-p", prompt, "-n", "12", "--temp", "0"));
    char *from_file = take_output(LINNET("run", DEMO, "-f", file, "-n", "12", "--temp", "0"));
    spawn_options options = {.input = prompt};
    char *piped = take_output(LINNET_WITH(&options, "run", DEMO, "-n", "12", "--temp", "0"));
    assert_string_equal(from_file, direct);
    assert_string_equal(piped, direct);
    free(direct);
    free(from_file);
    free(piped);
    temp_remove(folder);
}

static void test_seed(void **state) {
    (void)state;
    char *one =
        take_output(LINNET("run", DEMO, "-p", prompt, "-n", "40", "--seed", "7", "--temp", "1"));
    char *again =
        take_output(LINNET("run", DEMO, "-p", prompt, "-n", "40", "--seed", "7", "--temp", "1"));
    char *other =
        take_output(LINNET("run", DEMO, "-p", prompt, "-n", "40", "--seed", "8", "--temp", "1"));
    assert_string_equal(one, again);
    assert_string_not_equal(one, other);
    free(one);
    free(again);
    free(other);
    spawn_result result = LINNET("run", DEMO, "-p", prompt, "-n", "1");
    assert_contains(result.err, "--seed ");
    spawn_free(&result);
}

static void test_stop_cuts_the_text(void **state) {
    (void)state;
    char *whole = take_output(LINNET("run", DEMO, "-p", prompt, "-n", "40", "--temp", "0"));
    size_t length = strlen(whole);
    assert_true(length > 12);
    char stop[6];
    memcpy(stop, whole + length / 2, 5);
    stop[5] = '\0';
    char *cut = take_output(LINNET("run", DEMO, "-p", prompt, "-n", "40", "--temp", "0", "--stop",
                                   "\x01", "--stop", stop));
    *strstr(whole, stop) = '\0';
    assert_string_equal(cut, whole);
    free(whole);
    free(cut);
}

static void test_chat(void **state) {
    (void)state;
    char *answer = take_output(
        LINNET("run", DEMO, "--chat", "-p", "What is 12 + 30?", "-n", "30", "--temp", "0"));
    assert_contains(answer, "42");
    free(answer);
}

static void test_print_memory_equals_plan(void **state) {
    (void)state;
    static const char *const variants[][2] = {
        {"--precision", "exact"}, {"--kv-type", "bf16"}, {"--kv-type", "fp8"}};
    for (size_t i = 0; i < 3; i++) {
        const char *option = variants[i][0], *value = variants[i][1];
        char *plan = take_output(LINNET("plan", DEMO, "--json", "--ctx", "300", "--max-seqs", "3",
                                        "--threads", "2", option, value));
        spawn_result run =
            LINNET("run", DEMO, "-q", "--print-memory", "-p", prompt, "-n", "1", "--ctx", "300",
                   "--max-seqs", "3", "--threads", "2", option, value);
        assert_int_equal(run.status, 0);
        assert_string_equal(run.err, plan);
        json_t *parsed = json_loads(plan, 0, NULL);
        json_int_t total = 0, bytes;
        assert_int_equal(json_unpack(parsed, "{s:I}", "ctx_tokens", &bytes), 0);
        assert_int_equal(bytes, 300);
        const char *name;
        json_t *arena;
        json_object_foreach(json_object_get(parsed, "arenas"), name, arena) total +=
            json_integer_value(arena);
        assert_int_equal(json_unpack(parsed, "{s:I}", "total_bytes", &bytes), 0);
        assert_int_equal(total, bytes);
        json_decref(parsed);
        spawn_free(&run);
        free(plan);
    }
}

/* A copy of the program in folder/bin; a hard look for the demo model starts there. */
static char *copy_program(const char *folder) {
    size_t n_bytes;
    char *bytes = read_file(TEST_LINNET, &n_bytes);
    const char *bin = path_in(folder, "bin");
    assert_int_equal(mkdir(bin, 0700), 0);
    char *program = strdup(path_in(bin, "linnet"));
    write_file(program, bytes, n_bytes);
    assert_int_equal(chmod(program, 0700), 0);
    free(bytes);
    return program;
}

static void test_demo_model_without_a_name(void **state) {
    (void)state;
    char *folder = temp_create();
    char *program = copy_program(folder);
    const char *const argv[] = {program, "run", "-p", prompt, "-n", "8", "--temp", "0", NULL};
    spawn_result without = spawn(NULL, argv);
    assert_int_equal(without.status, 1);
    assert_contains(without.err, "linnet: the demo model");
    assert_string_equal(without.out, "");
    assert_int_equal(symlink(TEST_SOURCE_DIR "/models", path_in(folder, "models")), 0);
    char *found = take_output(spawn(NULL, argv));
    char *named = take_output(LINNET("run", DEMO, "-p", prompt, "-n", "8", "--temp", "0"));
    assert_string_equal(found, named);
    free(found);
    free(named);
    spawn_free(&without);
    free(program);
    temp_remove(folder);
}

/* ---- how it ends ------------------------------------------------------------------------ */

static void test_interrupt_keeps_the_text(void **state) {
    (void)state;
    spawn_options options = {.interrupt_after_bytes = 1};
    spawn_result result = LINNET_WITH(&options, "run", DEMO, "-p", prompt, "--ignore-eos");
    assert_int_equal(result.status, 130);
    assert_true(result.out_bytes > 0);
    assert_contains(result.err, "cancelled");
    spawn_free(&result);
}

static void test_reader_that_goes_away(void **state) {
    (void)state;
    spawn_options options = {.close_after_bytes = 1};
    spawn_result result = LINNET_WITH(&options, "run", DEMO, "-q", "-p", prompt, "--ignore-eos");
    assert_int_equal(result.status, 0);
    assert_string_equal(result.err, "");
    spawn_free(&result);
}

static void test_full_disk(void **state) {
    (void)state;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        skip();
    spawn_options options = {.out_fd = fd};
    spawn_result result = LINNET_WITH(&options, "run", DEMO, "-q", "-p", prompt, "-n", "4");
    assert_int_equal(result.status, 1);
    assert_contains(result.err, "linnet: cannot write to standard output");
    spawn_free(&result);
    close(fd);
}

static spawn_result shell(const char *command) {
    return spawn(NULL, (const char *const[]){"/bin/sh", "-c", command, "sh", TEST_LINNET, NULL});
}

static void test_closed_outputs(void **state) {
    (void)state;
    spawn_result closed = shell("\"$1\" run " DEMO " -q -p Once -n 4 >&-");
    assert_int_equal(closed.status, 1);
    assert_contains(closed.err, "linnet: cannot write to standard output");
    spawn_free(&closed);
}

/* A file that may not grow is an error like a full disk, and leaves nothing. */
static void test_limits_of_files(void **state) {
    (void)state;
    char *folder = temp_create(), command[512];
    snprintf(command, sizeof command,
             "ulimit -f 10; \"$1\" quantize " DEMO " --type q4_0 %s/out.gguf; s=$?; ls %s; exit $s",
             folder, folder);
    spawn_result result = shell(command);
    assert_int_equal(result.status, 1);
    assert_contains(result.err, "File too large");
    assert_string_equal(result.out, "");
    spawn_free(&result);
    temp_remove(folder);
}

/* ---- what is refused -------------------------------------------------------------------- */

/* One line on stderr that holds `cause`, nothing on stdout. */
static void assert_refused(spawn_result result, int status, const char *cause) {
    if (result.status != status || strncmp(result.err, "linnet: ", 8) != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    assert_contains(result.err, cause);
    assert_ptr_equal(strchr(result.err, '\n'), result.err + strlen(result.err) - 1);
    assert_string_equal(result.out, "");
    spawn_free(&result);
}

static void test_values_that_the_model_refuses(void **state) {
    (void)state;
    assert_refused(LINNET("run", LLAMA, "-q", "-p", prompt), 1, "no tokenizer");
    assert_refused(LINNET("run", LLAMA, "-q", "--ids", "5,256", "--print-ids"), 2, "256");
    assert_refused(LINNET("run", LLAMA, "-q", "--ids", "5", "--print-ids", "--backend", "gpu"), 2,
                   "gpu");
    assert_refused(LINNET("run", LLAMA, "-q", "--ids", "5", "--print-ids", "--cpu", "6502"), 2,
                   "6502");
    assert_refused(LINNET("run", LLAMA, "-q", "--ids", "5,6,7,8", "--print-ids", "--ctx", "4"), 1,
                   "the prompt has 4 tokens, which a context of 4 does not hold");
}

/* Commands that write have no use for a model of vectors. */
static void test_models_of_vectors_are_refused(void **state) {
    (void)state;
    static const char bert[] = TEST_SOURCE_DIR "/tests/golden/embeddings/bert_classes";
    static const char message[] = "/bert_classes makes vectors alone, which `linnet embed' prints";
    assert_refused(LINNET("run", bert, "-p", "x"), 1, message);
    assert_refused(LINNET("chat", bert), 1, message);
    assert_refused(LINNET("bench", bert), 1, message);
    assert_refused(LINNET("eval", bert, "--file", TEST_SOURCE_DIR "/LICENSE"), 1, message);
}

/* The library's fields have the names of options. */
static void test_messages_name_options(void **state) {
    (void)state;
    assert_refused(LINNET("run", LLAMA, "-q", "--ids", "5", "--print-ids", "--quantize-on-load=x"),
                   2, "linnet: --quantize-on-load is \"x\"");
    assert_refused(LINNET("run", LLAMA, "-q", "--ids", "5,99999", "--print-ids"), 2,
                   "linnet: --ids[1] is 99999");
    assert_refused(LINNET("plan", LLAMA, "--preemption", "swap"), 2, "needs --swap-bytes");
    assert_refused(LINNET("plan", LLAMA, "--max-seqs=8", "--max-batch-tokens=4"), 2,
                   "--max-batch-tokens is 4 and --max-seqs 8");
}

/* Of llama's matrices none has columns for a block of Q4_K, all have for those of Q8_0. */
static void test_quantize_on_load_says_what_stays(void **state) {
    (void)state;
    spawn_result none =
        LINNET("run", LLAMA, "--ids", "5", "--print-ids", "-n", "1", "--quantize-on-load=q4_k");
    assert_int_equal(none.status, 0);
    assert_non_null(
        strstr(none.err, "--quantize-on-load q4_k: 15 of 15 matrices stay as they are"));
    spawn_free(&none);
    spawn_result all =
        LINNET("run", LLAMA, "--ids", "5", "--print-ids", "-n", "1", "--quantize-on-load=q8_0");
    assert_int_equal(all.status, 0);
    assert_null(strstr(all.err, "stay as they are"));
    spawn_free(&all);
}

/* Names that other programs taught people. */
static void test_other_names_of_options(void **state) {
    (void)state;
    char *short_name = take_output(LINNET("plan", LLAMA, "--json", "--ctx=128", "--kv-type=q8"));
    char *whole = take_output(LINNET("plan", LLAMA, "--json", "--ctx=128", "--kv-type=q8_0"));
    assert_string_equal(short_name, whole);
    free(short_name);
    free(whole);
    short_name =
        take_output(LINNET("run", DEMO, "-q", "-p", prompt, "-n", "3", "--temperature", "0"));
    whole = take_output(LINNET("run", DEMO, "-q", "-p", prompt, "-n", "3", "--temp", "0"));
    assert_string_equal(short_name, whole);
    free(short_name);
    free(whole);
    spawn_result backend = LINNET("plan", LLAMA, "--ctx=128", "--backend=cuda");
    spawn_result gpu = LINNET("plan", "--gpu", LLAMA, "--ctx=128");
    assert_int_equal(gpu.status, backend.status);
    assert_string_equal(gpu.out, backend.out);
    assert_string_equal(gpu.err, backend.err);
    spawn_free(&backend);
    spawn_free(&gpu);
}

/* Beams are compared by what the model says of them, whatever the temperature. */
static void test_beams_have_no_temperature(void **state) {
    (void)state;
    static const char warning[] = "warning: a beam search draws no tokens, so --temp 0.5 changes";
    for (int i = 0; i < 3; i++) {
        spawn_result result =
            LINNET("run", LLAMA, "--ids=5,9", "--print-ids", "-n", "2", "--beams=2",
                   i == 0   ? "--temp=0.5"
                   : i == 1 ? "--temp=0"
                            : "--seed=1");
        assert_int_equal(result.status, 0);
        assert_int_equal(strstr(result.err, warning) != NULL, i == 0);
        assert_int_equal(strstr(result.err, "warning: ") != NULL, i == 0);
        spawn_free(&result);
    }
}

/* A plan for beams is that for as many sequences. */
static void test_plan_of_beams(void **state) {
    (void)state;
    char *beams = take_output(LINNET("plan", LLAMA, "--json", "--ctx=128", "--beams=4"));
    char *seqs = take_output(LINNET("plan", LLAMA, "--json", "--ctx=128", "--max-seqs=4"));
    assert_string_equal(beams, seqs);
    free(beams);
    free(seqs);
}

/* Bytes may be written by powers of 1024. */
static void test_bytes_have_units(void **state) {
    (void)state;
    static const char *const same[][2] = {
        {"1.5K", "1536"}, {"2m", "2097152"}, {"3GB", "3221225472"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char short_form[64], long_form[64];
        snprintf(short_form, sizeof short_form, "--swap-bytes=%s", same[i][0]);
        snprintf(long_form, sizeof long_form, "--swap-bytes=%s", same[i][1]);
        char *a = take_output(LINNET("plan", LLAMA, "--json", "--ctx=64", short_form));
        char *b = take_output(LINNET("plan", LLAMA, "--json", "--ctx=64", long_form));
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
}

/* Each arena of a plan has a sentence behind its size. */
static void test_plan_explains_arenas(void **state) {
    (void)state;
    char *out = take_output(LINNET("plan", DEMO, "--max-seqs=2", "--swap-bytes=1000000"));
    char *rows = strstr(out, "bytes\n"), *total = strstr(out, "\ntotal");
    assert_true(rows != NULL && total != NULL);
    size_t n_rows = 0;
    *total = '\0';
    for (char *row = strtok(rows + strlen("bytes\n"), "\n"); row != NULL;
         row = strtok(NULL, "\n")) {
        assert_true(strlen(row) > 60);
        n_rows++;
    }
    assert_true(n_rows >= 12);
    free(out);
}

/* The demo model was made for 1,024 tokens. */
static void test_long_contexts_are_warned_of(void **state) {
    (void)state;
    static const char warning[] = "linnet: warning: the context is 2048 tokens";
    spawn_result results[] = {
        LINNET("run", DEMO, "-p", "a", "-n", "1", "--ctx", "2048"),
        LINNET("plan", DEMO, "--ctx", "2048"),
        LINNET("logits", DEMO, "--ids", "5", "--ctx", "2048", "--out", "/dev/null"),
        LINNET("run", DEMO, "-p", "a", "-n", "1", "--ctx", "1024"),
        LINNET("run", DEMO, "-p", "a", "-n", "1", "--ctx", "2048", "-q"),
        LINNET("plan", DEMO),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        assert_int_equal(results[i].status, 0);
        assert_int_equal(strstr(results[i].err, warning) != NULL, i < 3);
        spawn_free(&results[i]);
    }
}

/* Whether a plan says that it takes more memory than is free, on the CPU. */
static void test_plans_that_do_not_fit_are_warned_of(void **state) {
    (void)state;
    static const char warning[] = " tokens the model does not fit the memory: it needs ";
    spawn_result results[] = {
        LINNET("plan", LLAMA, "--backend=cpu", "--ctx=128", "--max-batch-tokens=2147483647"),
        LINNET("plan", LLAMA, "--backend=cpu", "--ctx=128", "--max-batch-tokens=2147483647",
               "--json"),
        LINNET("plan", LLAMA, "--backend=cpu", "--ctx=128"),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        assert_int_equal(results[i].status, 0);
        assert_int_equal(strstr(results[i].err, warning) != NULL, i < 2);
        spawn_free(&results[i]);
    }
}

/* Every command that opens a model refuses `path` with exit status 1. */
static void assert_broken(const char *path, const char *cause) {
    assert_refused(LINNET("run", path, "-q", "--ids", "5", "--print-ids"), 1, cause);
    assert_refused(LINNET("inspect", path), 1, cause);
    assert_refused(LINNET("plan", path), 1, cause);
    assert_refused(LINNET("logits", path, "--ids", "5", "--out", "/dev/null"), 1, cause);
}

static void copy_into(const char *folder, const char *name, size_t max_bytes) {
    size_t n_bytes;
    char *bytes = read_file(path_in(LLAMA, name), &n_bytes);
    write_file(path_in(folder, name), bytes, n_bytes < max_bytes ? n_bytes : max_bytes);
    free(bytes);
}

static void test_broken_models(void **state) {
    (void)state;
    char *folder = temp_create();
    assert_broken(path_in(folder, "nowhere"), "nowhere");
    assert_broken(folder, "config.json");
    const char *file = strdup(path_in(folder, "text.gguf"));
    write_file(file, "This is no model.\n", 18);
    assert_broken(file, "text.gguf");
    free((char *)file);
    copy_into(folder, "config.json", SIZE_MAX);
    copy_into(folder, "model.safetensors", 100000);
    assert_broken(folder, "model.safetensors");
    copy_into(folder, "model.safetensors", SIZE_MAX);
    write_file(path_in(folder, "config.json"), "{\"model_type\": ", 15);
    assert_broken(folder, "config.json");
    temp_remove(folder);
}

/* Options as llama.cpp has them, and what a raw prompt of a chat model is told. */
static void test_options_of_llama_cpp(void **state) {
    (void)state;
    spawn_result result = LINNET("run", "-m", DEMO, "-p", "Once", "-n", "2", "-c", "64", "-t", "1",
                                 "-ngl", "0", "--temp", "0");
    assert_int_equal(result.status, 0);
    assert_contains(result.err, "context of 64 tokens, 1 thread,");
    assert_contains(result.err, "--chat makes the prompt a message");
    spawn_free(&result);
    result = LINNET("run", "-m", DEMO, DEMO);
    assert_int_equal(result.status, 2);
    assert_contains(result.err, "unexpected argument");
    spawn_free(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_ids),
        cmocka_unit_test(test_beams),
        cmocka_unit_test(test_stdout_holds_only_the_text),
        cmocka_unit_test(test_prompt_from_everywhere),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_stop_cuts_the_text),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_print_memory_equals_plan),
        cmocka_unit_test(test_demo_model_without_a_name),
        cmocka_unit_test(test_interrupt_keeps_the_text),
        cmocka_unit_test(test_reader_that_goes_away),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_closed_outputs),
        cmocka_unit_test(test_limits_of_files),
        cmocka_unit_test(test_values_that_the_model_refuses),
        cmocka_unit_test(test_messages_name_options),
        cmocka_unit_test(test_models_of_vectors_are_refused),
        cmocka_unit_test(test_quantize_on_load_says_what_stays),
        cmocka_unit_test(test_other_names_of_options),
        cmocka_unit_test(test_beams_have_no_temperature),
        cmocka_unit_test(test_plan_of_beams),
        cmocka_unit_test(test_bytes_have_units),
        cmocka_unit_test(test_plan_explains_arenas),
        cmocka_unit_test(test_long_contexts_are_warned_of),
        cmocka_unit_test(test_plans_that_do_not_fit_are_warned_of),
        cmocka_unit_test(test_broken_models),
        cmocka_unit_test(test_options_of_llama_cpp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
