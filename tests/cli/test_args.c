/* Arguments: help, version, usage errors. No model is needed for any of them. */
#include <string.h>

#include "cli/spawn.h"
#include "test.h"

static const char *const commands[] = {"run",        "inspect",  "plan",  "tokenize",
                                       "detokenize", "template", "logits"};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Exit status 2, nothing on stdout, and a first line on stderr that holds both texts. */
static void assert_usage_error(spawn_result result, const char *prefix, const char *cause) {
    char *line_end = strchr(result.err, '\n');
    assert_non_null(line_end);
    *line_end = '\0';
    if (strncmp(result.err, prefix, strlen(prefix)) != 0 || !strstr(result.err, cause))
        fail_msg("'%s' does not begin with '%s' or lacks '%s'", result.err, prefix, cause);
    assert_int_equal(result.status, 2);
    assert_string_equal(result.out, "");
    if (line_end[1] != '\0')
        assert_ptr_equal(strstr(line_end + 1, "Try `linnet"), line_end + 1);
    spawn_free(&result);
}

static void test_help_lists_every_command(void **state) {
    (void)state;
    spawn_result result = LINNET("--help");
    assert_int_equal(result.status, 0);
    assert_string_equal(result.err, "");
    for (size_t i = 0; i < N_COMMANDS; i++)
        assert_non_null(strstr(result.out, commands[i]));
    spawn_free(&result);
}

static void test_help_of_every_command(void **state) {
    (void)state;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        spawn_result result = LINNET(commands[i], "--help");
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: linnet %s [OPTION...]", commands[i]);
        assert_int_equal(result.status, 0);
        assert_string_equal(result.err, "");
        assert_ptr_equal(strstr(result.out, usage), result.out);
        spawn_free(&result);
    }
}

static void test_engine_options_are_everywhere(void **state) {
    (void)state;
    static const char *const with_engine[] = {"run", "plan", "logits"};
    static const char *const options[] = {
        "--precision", "--backend", "--gpu-layers", "--kv-type",
        "--ctx",       "--threads", "--max-seqs",   "--quantize-on-load"};
    for (size_t i = 0; i < sizeof with_engine / sizeof *with_engine; i++) {
        spawn_result result = LINNET(with_engine[i], "--help");
        for (size_t j = 0; j < sizeof options / sizeof *options; j++)
            if (!strstr(result.out, options[j]))
                fail_msg("%s lacks %s", with_engine[i], options[j]);
        assert_non_null(strstr(result.out, "linnet help engine"));
        assert_null(strstr(result.out, "--long-prefill-tokens"));
        spawn_free(&result);
    }
    spawn_result all = LINNET("help", "engine");
    assert_int_equal(all.status, 0);
    for (size_t j = 0; j < sizeof options / sizeof *options; j++)
        assert_non_null(strstr(all.out, options[j]));
    assert_non_null(strstr(all.out, "--long-prefill-tokens"));
    spawn_free(&all);
}

/* Both commands succeed and print the same to stdout. */
static void assert_same(spawn_result one, spawn_result other) {
    assert_int_equal(one.status, 0);
    assert_int_equal(other.status, 0);
    assert_string_equal(one.err, "");
    assert_string_equal(one.out, other.out);
    spawn_free(&one);
    spawn_free(&other);
}

static void test_ways_to_ask_for_help(void **state) {
    (void)state;
    assert_same(LINNET("-h"), LINNET("--help"));
    assert_same(LINNET("help"), LINNET("--help"));
    assert_same(LINNET("help", "help"), LINNET("--help"));
    assert_same(LINNET("help", "run"), LINNET("run", "--help"));
    assert_same(LINNET("help", "quantize"), LINNET("quantize", "--help"));
    assert_same(LINNET("run", "some-model", "-h"), LINNET("run", "--help"));
    assert_same(LINNET("-v"), LINNET("--version"));
    assert_usage_error(LINNET("help", "fly"), "linnet: help: ", "no command 'fly'");
    assert_usage_error(LINNET("help", "run", "chat"), "linnet: help: ", "'chat'");
}

static void test_version(void **state) {
    (void)state;
    spawn_result result = LINNET("--version");
    assert_int_equal(result.status, 0);
    assert_string_equal(result.out, "linnet " LINNET_VERSION "\n");
    spawn_free(&result);
}

static void test_commands_and_options(void **state) {
    (void)state;
    assert_usage_error(spawn(NULL, (const char *const[]){TEST_LINNET, NULL}),
                       "linnet: ", "a command is missing");
    assert_usage_error(LINNET("fly"), "linnet: ", "unknown command 'fly'");
    assert_usage_error(LINNET("--fly"), "linnet: ", "unrecognized option '--fly'");
    for (size_t i = 0; i < N_COMMANDS; i++)
        assert_usage_error(LINNET(commands[i], "--fly"), "linnet ", "unrecognized option '--fly'");
    assert_usage_error(LINNET("run", "-n"), "linnet run: ", "requires an argument");
}

static void test_missing_and_surplus_arguments(void **state) {
    (void)state;
    assert_usage_error(LINNET("inspect"), "linnet inspect: ", "MODEL is missing");
    assert_usage_error(LINNET("plan"), "linnet plan: ", "MODEL is missing");
    assert_usage_error(LINNET("logits", "--ids", "1", "--out", "x"),
                       "linnet logits: ", "MODEL is missing");
    assert_usage_error(LINNET("logits", "m", "--ids", "1"), "linnet logits: ", "--out is missing");
    assert_usage_error(LINNET("logits", "m", "--out", "x"), "linnet logits: ", "--ids is missing");
    assert_usage_error(LINNET("tokenize", "m", "--text", "a", "--file", "b"),
                       "linnet tokenize: ", "TEXT and --file exclude each other");
    assert_usage_error(LINNET("tokenize", "m", "a", "--file", "b"),
                       "linnet tokenize: ", "TEXT and --file exclude each other");
    assert_usage_error(LINNET("tokenize", "m", "a", "b"),
                       "linnet tokenize: ", "unexpected argument 'b'");
    assert_usage_error(LINNET("embed", "m", "a", "--ids", "1"),
                       "linnet embed: ", "one of TEXT, --file and --ids is needed");
    assert_usage_error(LINNET("bench"), "linnet bench: ", "--shape NAME makes one");
    assert_usage_error(LINNET("detokenize", "m"), "linnet detokenize: ", "--ids is missing");
    assert_usage_error(LINNET("template", "m"), "linnet template: ", "--context is missing");
    assert_usage_error(LINNET("run", "m", "n"),
                       "linnet run: ", "unexpected argument 'n'; a prompt is given with -p");
    spawn_result result = LINNET("run", "Tell me a joke");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "cannot open Tell me a joke: "));
    assert_non_null(strstr(result.err, "a prompt is given with -p"));
    spawn_free(&result);
    assert_usage_error(LINNET("run", "-p", "a", "-f", "b"), "linnet run: ", "exclude each other");
    assert_usage_error(LINNET("run", "-p", "a", "--ids", "1"),
                       "linnet run: ", "exclude each other");
    assert_usage_error(LINNET("run", "--chat", "--ids", "1"), "linnet run: ", "exclude each other");
    assert_usage_error(LINNET("run", "-p", "a", "--system", "s"),
                       "linnet run: ", "--system needs --chat");
}

static void test_bad_values(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"--temp", "warm", "'warm' is not a number from 0 to 100"},
        {"--temp", "-1", "'-1' is not a number from 0 to 100"},
        {"--temp", "nan", "'nan' is not a number from 0 to 100"},
        {"--temp", "1e999", "'1e999' is not a number from 0 to 100"},
        {"--temp", "0x1", "'0x1' is not a number from 0 to 100"},
        {"--temp", "", "'' is not a number from 0 to 100"},
        {"--top-k", "40.5", "'40.5' is not a whole number from 0 to 2147483647"},
        {"--top-k", "2147483648", "'2147483648' is not a whole number from 0 to 2147483647"},
        {"--top-p", "1.1", "'1.1' is not a number from 0 to 1"},
        {"--min-p", "2", "'2' is not a number from 0 to 1"},
        {"--repeat-penalty", "0", "'0' is not a number from 0.01 to 100"},
        {"--repeat-last-n", "x", "'x' is not a whole number from 0 to 2147483647"},
        {"--frequency-penalty", "1,5", "'1,5' is not a number from -100 to 100"},
        {"--presence-penalty", "1 ", "'1 ' is not a number from -100 to 100"},
        {"--seed", "-1", "'-1' is not a whole number from 0 to 18446744073709551615"},
        {"--seed", "18446744073709551616",
         "'18446744073709551616' is not a whole number from 0 to 18446744073709551615"},
        {"-n", "0", "'0' is not a whole number from 1 to 2147483647"},
        {"-n", "5x", "'5x' is not a whole number from 1 to 2147483647"},
        {"--ctx", "0", "'0' is not a whole number from 1 to 2147483647"},
        {"--ctx", "2k", "'2k' is not a whole number from 1 to 2147483647"},
        {"--max-batch-tokens", "0", "'0' is not a whole number from 1 to 2147483647"},
        {"--ids", "-5", "'-5' is not a whole number from 0 to 2147483647"},
        {"--ids", "4294967301", "'4294967301' is not a whole number from 0 to 2147483647"},
        {"--threads", "0", "'0' is not a whole number from 1 to 1024"},
        {"--max-seqs", "0", "'0' is not a whole number from 1 to 65536"},
        {"--ids", "5,,9", "'' is not a whole number from 0 to 2147483647"},
        {"--ids", "5,9,", "'' is not a whole number from 0 to 2147483647"},
        {"--ids", "5, 9", "' 9' is not a whole number from 0 to 2147483647"},
        {"--stop", "", "the text is empty"},
        {"--precision", "exactly", "'exactly' is not fast or exact"},
        {"--kv-type", "f64", "'f64' is not f32, f16, bf16, q8_0 or fp8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "linnet run: %s: ", bad[i][0]);
        assert_usage_error(LINNET("run", bad[i][0], bad[i][1]), prefix, bad[i][2]);
    }
    static const char *const sizes[][2] = {
        {"1X", "such as 800M"},  {"1.5", "such as 800M"}, {"-1G", "such as 800M"},
        {"24 ", "such as 800M"}, {"", "such as 800M"},    {"9000000T", "is not from 0 to"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_usage_error(LINNET("plan", "m", "--swap-bytes", sizes[i][0]),
                           "linnet plan: --swap-bytes: ", sizes[i][1]);
    assert_usage_error(LINNET("plan", "m", "--disk-rate=2G"), "linnet plan: --disk-rate ",
                       "--experts-from-disk");
    assert_usage_error(LINNET("serve", "--memory", "24 "),
                       "linnet serve: --memory: ", "is not a number of bytes");
    assert_usage_error(LINNET("serve", "--served-name", ""),
                       "linnet serve: --served-name: ", "the name is empty");
}

/* Options of llama.cpp and vLLM, by the names that they have here. */
static void test_options_of_peers(void **state) {
    (void)state;
    static const char *const options[][2] = {{"--ctx-size", "called --ctx\n"},
                                             {"--max-model-len=100", "called --ctx\n"},
                                             {"--served-model-name=x", "called --served-name\n"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        spawn_result result = LINNET("serve", "m", options[i][0]);
        assert_int_equal(result.status, 2);
        assert_non_null(strstr(result.err, options[i][1]));
        spawn_free(&result);
    }
    assert_usage_error(LINNET("serve", "m", "--ctx-sizes=1"),
                       "linnet serve: ", "unrecognized option '--ctx-sizes=1'");
    assert_usage_error(LINNET("run", "--", "--ctx-size", "n"),
                       "linnet run: ", "unexpected argument");
    /* values of options are none */
    assert_usage_error(LINNET("run", "-p", "--alias", "--stop", "--predict", "--ctx=0"),
                       "linnet run: --ctx: ", "'0' is not");
    assert_usage_error(LINNET("run", "-qp", "--alias", "--sto", "--predict", "--ctx=0"),
                       "linnet run: --ctx: ", "'0' is not");
    spawn_result behind = LINNET("run", "-px", "-q", "--temp=1", "--alias");
    assert_int_equal(behind.status, 2);
    assert_non_null(strstr(behind.err, "called --served-name\n"));
    spawn_free(&behind);
}

/* Options that would change nothing. */
static void test_options_without_effect(void **state) {
    (void)state;
    static const char *const forms[] = {"--json-order=written", "--json-whitespace=compact",
                                        "--json-strict", "--grammar-type=lark"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        assert_usage_error(LINNET("run", "m", "-p", "a", forms[i]), "linnet: --", "none is given");
    static const char *const origins[] = {
        "chat.example",          "https://", "https://chat.example/",   "https://Chat.example",
        "https://a.b,https://c", "",         "https://a.b https://c.d", "://a.b",
    };
    static const char *const of_several[][2] = {
        {"--memory", "4G"}, {"--gpu-memory", "4G"}, {"--keep-alive", "300"}};
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        assert_usage_error(LINNET("serve", "--cors", origins[i]),
                           "linnet serve: --cors: ", "as https://chat.example");
    static const char *const good[] = {"*",
                                       "null",
                                       "https://a.b:8443",
                                       "http://[::1]:80",
                                       "http://web_1:3000",
                                       "chrome-extension://abc"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) /* the second one is refused */
        assert_usage_error(LINNET("serve", "--cors", good[i], "--cors", "null"),
                           "linnet serve: ", "--cors is given twice");
    for (size_t i = 0; i < sizeof of_several / sizeof *of_several; i++) {
        assert_usage_error(LINNET("serve", "m.gguf", of_several[i][0], of_several[i][1]),
                           "linnet serve: ", "only with a server of several models");
        assert_usage_error(LINNET("serve", "-m", "m.gguf", of_several[i][0], of_several[i][1]),
                           "linnet serve: ", "only with a server of several models");
    }
}

/* A misspelt path is said at the start, and not to the first client that asks for it. */
static void test_missing_of_several(void **state) {
    (void)state;
    static const char demo[] = TEST_SOURCE_DIR "/models/demo.gguf";
    static const char inside[] = TEST_SOURCE_DIR "/models/demo.gguf/a.gguf";
    assert_status(LINNET("serve", "--port=0", demo, "none.gguf"), 1,
                  "cannot open none.gguf: No such file or directory");
    assert_status(LINNET("serve", "--port=0", demo, inside), 1,
                  "/models/demo.gguf/a.gguf: Not a directory");
}

/* What the output must be is read before the model, which is not there. */
static void test_bad_grammars(void **state) {
    (void)state;
    assert_usage_error(LINNET("run", "m", "--regex", "("), "linnet: --regex: ", "byte 1");
    assert_usage_error(LINNET("run", "m", "--choice", "yes"),
                       "linnet: --choice: ", "it takes a JSON array such as '[\"yes\", \"no\"]'");
    assert_usage_error(LINNET("run", "m", "--choice", "[]"), "linnet: --choice: ", "array");
    assert_usage_error(LINNET("run", "m", "--json-schema", "{\"not\": 1}"),
                       "linnet: --json-schema: JSON schema: ", "no object is not supported");
    assert_usage_error(LINNET("run", "m", "--json-schema", "false"), "linnet: --json-schema: ", "");
    char *folder = temp_create(), prefix[512];
    const char *file = path_in(folder, "a.gbnf");
    write_file(file, "root ::= other\n", 15);
    snprintf(prefix, sizeof prefix, "linnet: --grammar: %s: there is no rule", file);
    assert_usage_error(LINNET("run", "m", "--grammar", file), prefix, "\"other\"");
    temp_remove(folder);
}

static void test_bad_times(void **state) {
    (void)state;
    static const char *const bad[] = {"2026-02-30T00:00:00",  "2026-11-20",
                                      "2026-11-20T09:30:05Z", "2026-11-20 09:30:05",
                                      "2026-1-2T03:04:05",    ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_usage_error(LINNET("template", "m", "--context", "c", "--now", bad[i]),
                           "linnet template: ", "is not a time such as");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_lists_every_command),
        cmocka_unit_test(test_help_of_every_command),
        cmocka_unit_test(test_engine_options_are_everywhere),
        cmocka_unit_test(test_ways_to_ask_for_help),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_commands_and_options),
        cmocka_unit_test(test_missing_and_surplus_arguments),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_bad_grammars),
        cmocka_unit_test(test_options_of_peers),
        cmocka_unit_test(test_options_without_effect),
        cmocka_unit_test(test_missing_of_several),
        cmocka_unit_test(test_bad_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
