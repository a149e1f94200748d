/* linnet pull, list and rm, and names as MODEL, against a hub on the loopback interface. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/hub_server.h"
#include "cli/spawn.h"
#include "test.h"

#define LLAMA     TEST_SOURCE_DIR "/tests/golden/models/llama"
#define REPO_PATH "hub/models--test--tiny"
#define SNAPSHOT  REPO_PATH "/snapshots/" HUB_COMMIT

enum { BIG_BYTES = 100000 };

static char *home; /* HF_HOME of a test */
static char big[BIG_BYTES];

static int set_up(void **state) {
    (void)state;
    home = temp_create();
    setenv("HF_HOME", home, 1);
    unsetenv("HF_TOKEN");
    unsetenv("HF_TOKEN_PATH");
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HUB_OFFLINE");
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 2654435761u >> 13);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    temp_remove(home);
    return 0;
}

static void assert_fails(spawn_result result, int status, const char *err) {
    if (result.status != status || !strstr(result.err, err))
        fail_msg("exit status %d: '%s' lacks '%s'", result.status, result.err, err);
    assert_string_equal(result.out, "");
    spawn_free(&result);
}

/* The program prints the path `name` below the home. */
static void assert_pulls(spawn_result result, const char *name) {
    char expected[512];
    snprintf(expected, sizeof expected, "%s/%s\n", home, name);
    if (result.status != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    assert_string_equal(result.out, expected);
    spawn_free(&result);
}

static void assert_content(const char *name, const char *bytes, size_t n_bytes) {
    size_t n;
    char *content = read_file(path_in(home, name), &n);
    assert_int_equal(n, n_bytes);
    assert_memory_equal(content, bytes, n);
    free(content);
}

static bool is_there(const char *name) {
    return access(path_in(home, name), F_OK) == 0;
}

/* One GGUF file of 100000 bytes. */
static hub_file one_file[1];
static hub_server start_one(hub_server *hub) {
    one_file[0] = (hub_file){"tiny-Q8_0.gguf", big, sizeof big, true, ""};
    *hub = (hub_server){.files = one_file, .n_files = 1};
    hub_start(hub);
    return *hub;
}

/* ---- what is pulled --------------------------------------------------------------------- */

/* run, show, convert, list and rm of what has been pulled. */
static void assert_commands_take_it(void) {
    size_t n_shown;
    spawn_result run = LINNET("run", "test/tiny", "--ids", "1,2,3", "--print-ids", "-n", "4");
    assert_int_equal(run.status, 0);
    spawn_free(&run);
    spawn_result show = LINNET("show", "test/tiny");
    assert_int_equal(show.status, 0);
    assert_non_null(strstr(show.out, "llama"));
    spawn_free(&show);
    spawn_result convert =
        LINNET("convert", "test/tiny", path_in(home, "out.gguf"), "--no-tokenizer");
    if (convert.status != 0)
        fail_msg("%s", convert.err);
    spawn_free(&convert);
    spawn_result draft = LINNET("run", "test/tiny", "--ids", "1,2,3", "--print-ids", "-n", "4",
                                "--draft-model", "test/tiny");
    if (draft.status != 0)
        fail_msg("%s", draft.err);
    spawn_free(&draft);
    spawn_result list = LINNET("list", "--json");
    json_t *models = json_loads(list.out, 0, NULL);
    const char *name;
    assert_int_equal(json_unpack(models, "[{s:s, s:i}]", "name", &name, "bytes", &n_shown), 0);
    assert_string_equal(name, "test/tiny");
    json_decref(models);
    spawn_free(&list);
    spawn_result rm = LINNET("rm", "test/tiny");
    assert_int_equal(rm.status, 0);
    assert_false(is_there(REPO_PATH));
    spawn_free(&rm);
}

/* The parts of a folder that belong to a model, in the layout that other programs read; its name
 * then is a MODEL. */
static void test_folder(void **state) {
    (void)state;
    size_t n_config, n_weights;
    char *config = read_file(LLAMA "/config.json", &n_config);
    char *weights = read_file(LLAMA "/model.safetensors", &n_weights);
    hub_file files[] = {
        {"README.md", "# tiny", 6, false, ""},
        {"config.json", config, n_config, false, ""},
        {"model.safetensors", weights, n_weights, true, ""},
        {"1_Pooling/config.json", "{}", 2, false, ""},
        {"empty.txt", "", 0, false, ""},
        {"target.spm", "pieces", 6, false, ""},
        {"original/params.json", "{}", 2, false, ""},
        {"consolidated.safetensors", big, sizeof big, true, ""},
    };
    static hub_server hub;
    hub = (hub_server){.files = files, .n_files = 8};
    hub_start(&hub);
    assert_fails(LINNET("run", "test/tiny", "--ids", "1,2,3", "--print-ids"), 1,
                 "`linnet pull test/tiny'");
    assert_pulls(LINNET("pull", "test/tiny", "--part-bytes", "65536"), SNAPSHOT);
    assert_content(SNAPSHOT "/model.safetensors", weights, n_weights);
    assert_content(SNAPSHOT "/1_Pooling/config.json", "{}", 2);
    assert_content(SNAPSHOT "/empty.txt", "", 0);
    assert_content(SNAPSHOT "/target.spm", "pieces", 6);
    assert_content(REPO_PATH "/refs/main", HUB_COMMIT, 40);
    assert_false(is_there(SNAPSHOT "/README.md") || is_there(SNAPSHOT "/original") ||
                 is_there(SNAPSHOT "/consolidated.safetensors"));
    char target[256] = "";
    assert_true(
        readlink(path_in(home, SNAPSHOT "/1_Pooling/config.json"), target, sizeof target - 1) > 0);
    assert_non_null(strstr(target, "../../../blobs/"));
    assert_non_null(strstr(target, files[3].hash));
    long n_before = atomic_load(&hub.n_file_bytes);
    assert_int_equal(n_before, (long)(n_config + n_weights + 2 + 6));
    assert_pulls(LINNET("pull", "test/tiny"), SNAPSHOT);
    assert_int_equal(atomic_load(&hub.n_file_bytes), n_before);
    hub_stop(&hub);

    assert_commands_take_it();
    free(config);
    free(weights);
}

/* Of test/tiny, of which UD-Q4_K_M and Q4_K_M are there. */
static void removes_by_name(void) {
    spawn_result rm;
    assert_fails(LINNET("rm", "test/tiny:tiny"), 2, "that `linnet list' calls tiny"); /* a word */
    rm = LINNET("rm", "test/tiny:UD-Q4_K_M");
    assert_int_equal(rm.status, 0);
    spawn_free(&rm);
    assert_true(is_there(SNAPSHOT "/tiny-Q4_K_M.gguf"));

    /* a revision goes with its names; another one stays */
#define OTHER REPO_PATH "/snapshots/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
    assert_int_equal(mkdir(path_in(home, OTHER), 0777), 0);
    write_file(path_in(home, OTHER "/a.gguf"), big, 10);
    assert_true(is_there(REPO_PATH "/refs/main"));
    rm = LINNET("rm", "test/tiny@main");
    assert_int_equal(rm.status, 0);
    spawn_free(&rm);
    assert_false(is_there(REPO_PATH "/refs/main"));
    assert_false(is_there(SNAPSHOT));
    assert_true(is_there(OTHER "/a.gguf"));
}

/* Of many GGUF files the one of a quantisation, with all of its parts; contents that another one
 * has are neither downloaded nor removed twice. */
static void test_gguf(void **state) {
    (void)state;
    hub_file files[] = {
        {"tiny-Q8_0.gguf", big, 5000, true, ""},
        {"tiny-UD-Q4_K_M.gguf", big, 5001, true, ""},
        {"tiny-Q4_K_M.gguf", big, 5002, true, ""},
        {"mmproj-Q8_0.gguf", big, 10, true, ""},
        {"BF16/tiny-BF16-00001-of-00002.gguf", big, 5000, true, ""},
        {"BF16/tiny-BF16-00002-of-00002.gguf", big, 5004, true, ""},
        {"tiny-F16-00001-of-00002.gguf", big, 5005, true, ""},
    };
    static hub_server hub;
    hub = (hub_server){.files = files, .n_files = 7};
    hub_start(&hub);
    assert_pulls(LINNET("pull", "test/tiny"), SNAPSHOT "/tiny-Q4_K_M.gguf");
    assert_pulls(LINNET("pull", "test/tiny:q8_0"), SNAPSHOT "/tiny-Q8_0.gguf");
    assert_pulls(LINNET("pull", "test/tiny:UD-Q4_K_M"), SNAPSHOT "/tiny-UD-Q4_K_M.gguf");
    assert_pulls(LINNET("pull", "test/tiny:BF16@" HUB_COMMIT),
                 SNAPSHOT "/BF16/tiny-BF16-00001-of-00002.gguf");
    assert_content(SNAPSHOT "/BF16/tiny-BF16-00002-of-00002.gguf", big, 5004);
    assert_int_equal(atomic_load(&hub.n_file_bytes), 5002 + 5000 + 5001 + 5004);
    assert_fails(LINNET("pull", "test/tiny:F16"), 1, "has 1 of its 2 parts");
    assert_fails(LINNET("pull", "test/tiny:Q2_K"), 2, "has no 'Q2_K', but Q8_0, Q4_K_M");
    hub_stop(&hub);

    spawn_result list = LINNET("list");
    assert_non_null(strstr(list.out, "test/tiny:Q8_0 "));
    assert_non_null(strstr(list.out, "test/tiny:BF16 "));
    spawn_free(&list);
    assert_pulls(LINNET("pull", "--offline", "test/tiny:BF16"),
                 SNAPSHOT "/BF16/tiny-BF16-00001-of-00002.gguf");
    spawn_result rm = LINNET("rm", "test/tiny:Q8_0");
    assert_int_equal(rm.status, 0);
    spawn_free(&rm);
    assert_false(is_there(SNAPSHOT "/tiny-Q8_0.gguf"));
    assert_content(SNAPSHOT "/BF16/tiny-BF16-00001-of-00002.gguf", big, 5000); /* the same blob */
    rm = LINNET("rm", "test/tiny:BF16");
    assert_int_equal(rm.status, 0);
    spawn_free(&rm);
    char blob[256];
    snprintf(blob, sizeof blob, REPO_PATH "/blobs/%s", files[0].hash);
    assert_false(is_there(blob));
    assert_fails(LINNET("pull", "--offline", "test/tiny:Q8_0"), 1, "is not in the cache");
    assert_fails(LINNET("rm", "test/tiny@ffffffffffffffffffffffffffffffffffffffff"), 1,
                 "the cache has no test/tiny at ffff");
    removes_by_name();
}

/* -hf pulls what the cache lacks, once. */
static void test_hf(void **state) {
    (void)state;
    size_t n_bytes;
    char *demo = read_file(TEST_SOURCE_DIR "/models/demo.gguf", &n_bytes);
    hub_file files[] = {{"demo-F16.gguf", demo, n_bytes, true, ""}};
    static hub_server hub;
    hub = (hub_server){.files = files, .n_files = 1};
    hub_start(&hub);
    for (int i = 0; i < 2; i++) {
        spawn_result run =
            LINNET("run", "-hf", "test/tiny:F16", "-p", "Once", "-n", "3", "-q", "--temp", "0");
        if (run.status != 0)
            fail_msg("%s", run.err);
        assert_int_not_equal(run.out_bytes, 0);
        spawn_free(&run);
    }
    assert_int_equal(atomic_load(&hub.n_file_bytes), (long)n_bytes);
    hub_stop(&hub);
    assert_fails(LINNET("run", "test/tiny.gguf", "-p", "Once"), 1, "No such file");
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_fails(LINNET("run", "--hf", "test/other", "-p", "Once"), 1, "the hub is not asked");
    assert_fails(LINNET("run", "--hf", "../other", "-p", "Once"), 2, "not the name of a model");
    free(demo);
}

/* What other programs have put into the cache is listed, whatever its name; an empty tag is none,
 * and what would play with the terminal is left out. */
static void test_nameless(void **state) {
    (void)state;
    static const char *const folders[] = {"hub", REPO_PATH, REPO_PATH "/snapshots", SNAPSHOT,
                                          SNAPSHOT "/d"};
    static const char *const files[] = {"/model.safetensors", "/d/-00001-of-00002.gguf",
                                        "/d/-00002-of-00002.gguf", "/\033[31mred.gguf"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(path_in(home, folders[i]), 0777), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[256];
        snprintf(name, sizeof name, SNAPSHOT "%s", files[i]);
        write_file(path_in(home, name), "x", 1);
    }
    spawn_result list = LINNET("list");
    assert_int_equal(list.status, 0);
    assert_non_null(strstr(list.out, "test/tiny@" HUB_COMMIT));
    assert_null(strstr(list.out, "test/tiny:"));
    spawn_free(&list);
}

/* ---- what goes wrong -------------------------------------------------------------------- */

/* Answers that end early, and a hub that is busy, are asked for again, from where they ended. */
static void test_cut(void **state) {
    (void)state;
    static hub_server hub;
    start_one(&hub);
    hub.cut_bytes = 7000;
    atomic_store(&hub.n_cuts, 3);
    atomic_store(&hub.n_busy, 1);
    assert_pulls(LINNET("pull", "test/tiny", "--parallel", "2", "--part-bytes", "30000"),
                 SNAPSHOT "/tiny-Q8_0.gguf");
    assert_content(SNAPSHOT "/tiny-Q8_0.gguf", big, sizeof big);
    assert_int_equal(atomic_load(&hub.n_file_bytes), sizeof big);
    hub_stop(&hub);
}

/* A pull that failed is gone on with: nothing is asked for twice. */
static void test_resume(void **state) {
    (void)state;
    static hub_server hub;
    start_one(&hub);
    atomic_store(&hub.quota, 45000);
    assert_fails(LINNET("pull", "test/tiny", "--parallel", "1", "--part-bytes", "10000"), 1,
                 "the hub has no tiny-Q8_0.gguf");
    assert_false(is_there(SNAPSHOT));
    assert_int_equal(atomic_load(&hub.n_file_bytes), 40000);
    atomic_store(&hub.quota, -1);
    assert_pulls(LINNET("pull", "test/tiny", "--part-bytes", "10000"), SNAPSHOT "/tiny-Q8_0.gguf");
    assert_content(SNAPSHOT "/tiny-Q8_0.gguf", big, sizeof big);
    assert_int_equal(atomic_load(&hub.n_file_bytes), sizeof big);
    hub_stop(&hub);
}

static void test_wrong_hash(void **state) {
    (void)state;
    char path[256];
    static hub_server hub;
    hub_file file = {"tiny-Q8_0.gguf", big, sizeof big, true, ""};
    memset(file.hash, 'a', 64);
    hub = (hub_server){.files = &file, .n_files = 1};
    hub_start(&hub);
    assert_fails(LINNET("pull", "test/tiny"), 1, "the hub says aaaaaaaaaaaa");
    assert_false(is_there(SNAPSHOT));
    for (size_t i = 0; i < 3; i++) {
        static const char *const endings[] = {"", ".partial", ".parts"};
        snprintf(path, sizeof path, REPO_PATH "/blobs/%s%s", file.hash, endings[i]);
        assert_false(is_there(path));
    }
    hub_stop(&hub);
}

/* A file system without room is one error, and what came before it is kept. */
static void test_full_disk(void **state) {
    (void)state;
    char blob[256], limited[512];
    static hub_server hub;
    start_one(&hub);
    snprintf(limited, sizeof limited, "ulimit -f 40; exec '%s' pull test/tiny", TEST_LINNET);
    assert_fails(spawn(NULL, (const char *const[]){"/bin/sh", "-c", limited, NULL}), 1,
                 ".partial: File too large");
    snprintf(blob, sizeof blob, REPO_PATH "/blobs/%s", one_file[0].hash);
    assert_false(is_there(SNAPSHOT) || is_there(blob));
    assert_pulls(LINNET("pull", "test/tiny"), SNAPSHOT "/tiny-Q8_0.gguf");
    hub_stop(&hub);
}

/* The token goes to the hub, and not to where that redirects. */
static void test_token(void **state) {
    (void)state;
    static hub_server hub;
    start_one(&hub);
    hub.token = "hf_secret";
    hub.redirects = true;
    assert_fails(LINNET("pull", "test/tiny"), 1, "it needs a token");
    setenv("HF_TOKEN", "hf_wrong", 1);
    assert_fails(LINNET("pull", "test/tiny"), 1, "the token in HF_TOKEN does not give access");
    setenv("HF_TOKEN", "two\nlines", 1);
    assert_fails(LINNET("pull", "test/tiny"), 2, "printable ASCII");
    unsetenv("HF_TOKEN");
    write_file(path_in(home, "token"), "hf_secret\n", 10); /* as `hf auth login' leaves it */
    assert_pulls(LINNET("pull", "test/tiny"), SNAPSHOT "/tiny-Q8_0.gguf");
    assert_false(atomic_load(&hub.gave_token_away));
    hub_stop(&hub);
}

#define HASH "da39a3ee5e6b4b0d3255bfef95601890afd80709"
#define ONE(path, size, hash)                                                                      \
    "{\"sha\": \"" HUB_COMMIT "\", \"siblings\": [{\"rfilename\": \"" path "\", \"size\": " size   \
    ", \"blobId\": \"" hash "\"}]}"

/* Listings that a hub must not send: one line of an error, and nothing is written anywhere. */
static void test_hostile_listings(void **state) {
    (void)state;
    static const char *const listings[] = {
        "<html>",
        "{}",
        "[]",
        "{\"sha\": \"../../../../x\", \"siblings\": []}",
        "{\"sha\": \"" HUB_COMMIT "\", \"siblings\": [1]}",
        ONE("../x-Q8_0.gguf", "5", HASH),
        ONE("a/../../x-Q8_0.gguf", "5", HASH),
        ONE("/tmp/x-Q8_0.gguf", "5", HASH),
        ONE("a//x-Q8_0.gguf", "5", HASH),
        ONE("a\\\\x-Q8_0.gguf", "5", HASH),
        ONE("a\\u0000x-Q8_0.gguf", "5", HASH),
        ONE("a\\u001bx-Q8_0.gguf", "5", HASH),
        ONE("x-Q8_0.gguf", "-1", HASH),
        ONE("x-Q8_0.gguf", "1e3", HASH),
        ONE("x-Q8_0.gguf", "99999999999999999", HASH),
        ONE("x-Q8_0.gguf", "5", "../../x"),
        ONE("x-Q8_0.gguf", "5", "../../../../../../../../../../../tmp/aaa"),
    };
    static hub_server hub;
    start_one(&hub);
    for (size_t i = 0; i < sizeof listings / sizeof *listings; i++) {
        hub.listing = listings[i];
        spawn_result result = LINNET("pull", "test/tiny");
        const char *newline = strchr(result.err, '\n');
        if (result.status != 1 || !strstr(result.err, "the hub's answer") || !newline ||
            newline[1] != '\0')
            fail_msg("listing %zu: exit status %d: %s", i, result.status, result.err);
        spawn_free(&result);
    }
    assert_false(is_there(REPO_PATH));
    hub.listing = ONE("x-Q8_0.gguf", "1125899906842624", HASH);
    assert_fails(LINNET("pull", "test/tiny"), 1, "MiB free");
    hub_stop(&hub);
}

static void test_hostile_files(void **state) {
    (void)state;
    static hub_server hub;
    start_one(&hub);
    hub.redirects = true;
    hub.redirects_to_file = true;
    assert_fails(LINNET("pull", "test/tiny"), 1, "linnet: test/tiny: http://127.0.0.1");
    hub.redirects = false;
    hub.shifts_range = true;
    assert_fails(LINNET("pull", "test/tiny", "--part-bytes", "50000"), 1, "sends another part");
    hub.shifts_range = false;
    hub.sends_more = true;
    assert_fails(LINNET("pull", "test/tiny", "--part-bytes", "50000"), 1,
                 "sends more than it was asked for");
    assert_false(is_there(SNAPSHOT));
    hub_stop(&hub);
    assert_fails(LINNET("pull", "test/tiny"), 1, "http://127.0.0.1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        HUB_TEST(test_folder),        HUB_TEST(test_gguf),     HUB_TEST(test_hf),
        HUB_TEST(test_cut),           HUB_TEST(test_resume),   HUB_TEST(test_wrong_hash),
        HUB_TEST(test_full_disk),     HUB_TEST(test_token),    HUB_TEST(test_hostile_listings),
        HUB_TEST(test_hostile_files), HUB_TEST(test_nameless),
#undef HUB_TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
