/* Several ranks, started by mpirun on this machine: the logits of one, and the same bits however a
 * prompt is divided. Skipped where there is no mpirun, or no module for it. */
#include "test.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"

static const char *mpirun, *backend = "cpu";

static const char *find_mpirun(void) {
    static const char *const paths[] = {"/usr/bin/mpirun", "/usr/local/bin/mpirun"};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return NULL; /* MPI leaks, and races */
#endif
    if (access(TEST_BINARY_DIR "/linnet-mpi.so", R_OK) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

/* linnet logits with one more option, on so many ranks that divide layers ("1": without mpirun), so
 * many times that for experts, and in so many stages. */
static float *mesh_logits(const char *n_ranks, const char *n_expert, const char *n_stages,
                          const char *model, const char *option, size_t *n) {
    static const char ids[] = "1,8,15,22,29,36,43,50,57,5,12,19,26";
    char *folder = temp_create();
    const char *out = path_in(folder, "out");
    char n_all[16];
    snprintf(n_all, sizeof n_all, "%d", atoi(n_ranks) * atoi(n_expert) * atoi(n_stages));
    const char *const own[] = {
        mpirun,      "--oversubscribe", "--bind-to", "none",   "-n",        n_all,
        TEST_LINNET, "logits",          model,       "--ids",  ids,         "--out",
        out,         "--precision",     "exact",     option,   "--tp",      n_ranks,
        "--ep",      n_expert,          "--pp",      n_stages, "--backend", backend,
        NULL};
    bool is_one = strcmp(n_all, "1") == 0;
    spawn_result result = spawn(NULL, own + (is_one ? 6 : 0));
    if (result.status != 0)
        fail_msg("%s: %s ranks: %s", model, n_ranks, result.err);
    spawn_free(&result);
    float *rows = (float *)(void *)read_file(out, n);
    temp_remove(folder);
    return rows;
}

static float *logits(const char *n_ranks, const char *model, const char *option, size_t *n) {
    return mesh_logits(n_ranks, "1", "1", model, option, n);
}

static float difference(const float *a, const float *b, size_t n_bytes) {
    float largest = 0;
    for (size_t i = 0; i < n_bytes / sizeof *a; i++)
        largest = fmaxf(largest, fabsf(a[i] - b[i]));
    return largest;
}

/* Each rank cuts A and B as its part of the matrix is cut. */
static void adapters_are_divided(void **state) {
    static const char model[] = TEST_SOURCE_DIR "/tests/golden/models/llama";
    static const char adapter[] = "--lora=" TEST_SOURCE_DIR "/tests/golden/adapter";
    (void)state;
    if (mpirun == NULL)
        skip();
    size_t n_one, n;
    float *plain = logits("1", model, "--threads=1", &n_one);
    float *one = logits("1", model, adapter, &n_one);
    float *two = logits("2", model, adapter, &n);
    float *staged = mesh_logits("1", "1", "2", model, adapter, &n);
    assert_int_equal(n_one, n);
    assert_true(difference(one, plain, n_one) > 1e-2f);
    assert_true(difference(one, two, n_one) <= 1e-5f);
    assert_true(difference(one, staged, n_one) <= 1e-5f);
    free(plain);
    free(one);
    free(two);
    free(staged);
}

static void ranks_give_the_logits_of_one(void **state) {
    static const char *const models[] = {"gpt_oss", "deepseek_v3", "llama_gptq"};
    (void)state;
    if (mpirun == NULL)
        skip();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char model[256];
        size_t n_one, n_two;
        snprintf(model, sizeof model, TEST_SOURCE_DIR "/tests/golden/models/%s", models[i]);
        float *one = logits("1", model, "--threads=1", &n_one);
        float *two = logits("2", model, "--threads=1", &n_two);
        assert_int_equal(n_one, n_two);
        assert_true(difference(one, two, n_one) <= 1e-5f);
        assert_true(difference(one, two, n_one) > 0); /* they do add up in another order */
        free(one);
        free(two);
    }
}

static void stages_give_the_bits_of_one(void **state) {
    static const char *const models[] = {"gemma3n", "t5", "zaya"};
    (void)state;
    if (mpirun == NULL)
        skip();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char model[256];
        size_t n_one, n_two;
        snprintf(model, sizeof model, TEST_SOURCE_DIR "/tests/golden/models/%s", models[i]);
        bool has_encoder = strcmp(models[i], "t5") == 0;
        const char *option = has_encoder ? "--encoder-ids=5,9,3" : "--threads=1";
        float *one = logits("1", model, option, &n_one);
        float *two = mesh_logits("1", "1", "2", model, option, &n_two);
        assert_int_equal(n_one, n_two);
        assert_memory_equal(one, two, n_one);
        free(one);
        free(two);
    }
}

/* Three stages cut LongCat's four layers where experts of one are still to be added behind the
 * next; ranks that divide its experts would add those that give what they read more than once. */
static void shortcuts_cross_stages(void **state) {
    static const char model[] = TEST_SOURCE_DIR "/tests/golden/models/longcat_flash";
    size_t n_one, n_three;
    (void)state;
    if (mpirun == NULL)
        skip();
    float *one = logits("1", model, "--threads=1", &n_one);
    float *three = mesh_logits("1", "1", "3", model, "--threads=1", &n_three);
    assert_int_equal(n_one, n_three);
    assert_memory_equal(one, three, n_one);
    free(one);
    free(three);
    /* Without this option mpirun ends the job when a rank fails, and may lose what that one said;
     * with it the status is 0. */
    const char *const argv[] = {mpirun,  "--oversubscribe",
                                "--mca", "orte_abort_on_non_zero_status",
                                "0",     "-n",
                                "2",     TEST_LINNET,
                                "plan",  model,
                                "--tp",  "2",
                                NULL};
    spawn_result result = spawn(NULL, argv);
    assert_non_null(strstr(result.err, "zero_expert_num"));
    spawn_free(&result);
}

static void experts_are_divided(void **state) {
    const char *model = TEST_SOURCE_DIR "/tests/golden/models/deepseek_v3";
    size_t n_one, n_two;
    (void)state;
    if (mpirun == NULL)
        skip();
    float *one = logits("1", model, "--threads=1", &n_one);
    float *two = mesh_logits("1", "2", "1", model, "--threads=1", &n_two);
    assert_int_equal(n_one, n_two);
    assert_true(difference(one, two, n_one) <= 1e-5f);
    assert_true(difference(one, two, n_one) > 0);
    free(one);
    free(two);
}

static void stages_and_ranks_multiply(void **state) {
    const char *model = TEST_SOURCE_DIR "/tests/golden/models/llama";
    size_t n_two, n_four;
    (void)state;
    if (mpirun == NULL)
        skip();
    float *two = logits("2", model, "--threads=1", &n_two);
    float *four = mesh_logits("2", "1", "2", model, "--threads=1", &n_four);
    assert_int_equal(n_two, n_four);
    assert_memory_equal(two, four, n_two);
    free(two);
    free(four);
}

static void chunks_do_not_change_bits(void **state) {
    (void)state;
    const char *model = TEST_SOURCE_DIR "/tests/golden/models/mixtral";
    size_t n_whole, n_chunks;
    if (mpirun == NULL)
        skip();
    float *whole = logits("2", model, "--threads=1", &n_whole);
    float *chunks = logits("2", model, "--max-batch-tokens=3", &n_chunks);
    assert_int_equal(n_whole, n_chunks);
    assert_memory_equal(whole, chunks, n_whole);
    free(whole);
    free(chunks);
}

static void refuses_what_was_not_started(void **state) {
    (void)state;
    if (mpirun == NULL)
        skip();
    const char *const argv[] = {mpirun, "-n", "1",      TEST_LINNET, "run", "--tp", "2",
                                "-p",   "a",  "--temp", "0",         "-n",  "1",    NULL};
    spawn_result result = spawn(NULL, argv);
    assert_int_not_equal(result.status, 0);
    assert_non_null(strstr(result.err, "2 ranks are asked for, but 1 were started"));
    spawn_free(&result);
}

static void warns_of_ranks_apart(void **state) {
    (void)state;
    if (mpirun == NULL)
        skip();
    for (int is_divided = 0; is_divided < 2; is_divided++) {
        const char *const argv[] = {mpirun,
                                    "--oversubscribe",
                                    "--bind-to",
                                    "none",
                                    "-n",
                                    "2",
                                    TEST_LINNET,
                                    "run",
                                    "-p",
                                    "a",
                                    "-n",
                                    "1",
                                    "--threads",
                                    "1",
                                    "--backend",
                                    backend,
                                    is_divided ? "--tp=2" : NULL,
                                    NULL};
        spawn_result result = spawn(NULL, argv);
        const char *said = strstr(result.err, "mpirun has started this 2 times");
        assert_int_equal(result.status, 0);
        assert_int_equal(said == NULL, is_divided);
        assert_true(said == NULL || strstr(said + 1, "mpirun has started") == NULL); /* once */
        spawn_free(&result);
    }
}

static void plan_shows_every_rank(void **state) {
    const char *model = TEST_SOURCE_DIR "/tests/golden/models/llama";
    (void)state;
    spawn_result result = LINNET("plan", model, "--tp", "2", "--pp", "2", "--ctx", "64");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "rank 0"));
    assert_non_null(strstr(result.out, "rank 3"));
    assert_null(strstr(result.out, "rank 4"));
    spawn_free(&result);
}

/* A decode step after another, on GPUs as a graph that is repeated. The mpirun of Open MPI 5.0.7
 * passes the first part of a line without an end on to standard error, where -q leaves room. */
static void generates_as_one_rank(void **state) {
    static const char *const meshes[][2] = {{"2", "1"}, {"1", "2"}};
    const char *model = TEST_SOURCE_DIR "/models/demo.gguf";
    (void)state;
    if (mpirun == NULL || access(model, R_OK) != 0)
        skip();
    const char *const argv[] = {TEST_LINNET, "run",   model,       "-p", "Once upon",   "--temp",
                                "0",         "-n",    "20",        "-q", "--precision", "exact",
                                "--backend", backend, "--threads", "1",  NULL};
    spawn_result one = spawn(NULL, argv);
    assert_int_equal(one.status, 0);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        const char *all[32] = {mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2"};
        size_t n = 6;
        for (size_t k = 0; argv[k] != NULL; k++)
            all[n++] = argv[k];
        all[n++] = "--tp";
        all[n++] = meshes[i][0];
        all[n++] = "--pp";
        all[n++] = meshes[i][1];
        spawn_result two = spawn(NULL, all);
        assert_int_equal(two.status, 0);
        char text[1024];
        size_t n_err = strcspn(two.err, "\n");
        snprintf(text, sizeof text, "%.*s%s", (int)n_err, two.err, two.out);
        assert_string_equal(text, one.out);
        spawn_free(&two);
    }
    spawn_free(&one);
}

static bool is_there(const char *name) {
    const char *model = TEST_SOURCE_DIR "/tests/golden/models/llama";
    spawn_result result = LINNET("plan", model, "--backend", name);
    bool is_good = result.status == 0;
    spawn_free(&result);
    return is_good;
}

/* test_ranks [BACKEND]: exit status 77 where that is not there. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_logits_of_one),
        cmocka_unit_test(adapters_are_divided),
        cmocka_unit_test(stages_give_the_bits_of_one),
        cmocka_unit_test(shortcuts_cross_stages),
        cmocka_unit_test(experts_are_divided),
        cmocka_unit_test(stages_and_ranks_multiply),
        cmocka_unit_test(chunks_do_not_change_bits),
        cmocka_unit_test(refuses_what_was_not_started),
        cmocka_unit_test(warns_of_ranks_apart),
        cmocka_unit_test(plan_shows_every_rank),
        cmocka_unit_test(generates_as_one_rank),
    };
    backend = argc > 1 ? argv[1] : backend;
    if (argc > 1 && !is_there(backend)) {
        print_message("skipped: backend %s is not there\n", backend);
        return 77;
    }
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("OMPI_MCA_btl", "^tcp", 1); /* which may warn of the network */
    mpirun = find_mpirun();
    if (mpirun == NULL)
        print_message("skipped in part: no mpirun, or linnet-mpi.so was not built\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
