/* linnet chat over a pipe. */
#include <stdlib.h>
#include <string.h>

#include "cli/spawn.h"
#include "test.h"

#define DEMO TEST_SOURCE_DIR "/models/demo.gguf"

static spawn_result chat(const char *input) {
    spawn_options options = {.input = input};
    return LINNET_WITH(&options, "chat", DEMO, "--temp", "0", "--seed", "5");
}

static void test_each_line_is_a_message(void **state) {
    (void)state;
    spawn_result both = chat("What is 12 + 35?\n\nWhat is 20 + 4?\n");
    spawn_result run = LINNET("run", DEMO, "-q", "--chat", "--temp", "0", "-p", "What is 12 + 35?");
    assert_int_equal(both.status, 0);
    assert_contains(both.out, "47");
    assert_contains(both.out, "24");
    assert_memory_equal(both.out, run.out, run.out_bytes);
    spawn_free(&both);
    spawn_free(&run);
}

static void test_messages_of_many_lines(void **state) {
    (void)state;
    char *folder = temp_create();
    char input[512];
    const char *file = path_in(folder, "chat.json");
    snprintf(input, sizeof input, "a \\\nb\n\"\"\"c\n\nd\n\"\"\"\n/save %s\n", file);
    spawn_result result = chat(input);
    size_t n_bytes = 0;
    char *saved = read_file(file, &n_bytes);
    assert_contains(saved, "\"a \\nb\"");
    assert_contains(saved, "\"c\\n\\nd\\n\"");
    free(saved);
    spawn_free(&result);
    temp_remove(folder);
}

static void test_commands(void **state) {
    (void)state;
    char *folder = temp_create();
    char input[1024];
    const char *file = path_in(folder, "chat.json"), *broken = path_in(folder, "broken.json");
    write_file(broken, "[{\"role\": 1}]", 13);
    snprintf(input, sizeof input,
             "/system Be brief.\nWhat is 1 + 2?\n/save %s\n/clear\n/load %s\n/load %s\n/stats\n"
             "/retry\n/set top-k 1e9\n/set top-k 1\n/set top_k 5\n/set "
             "seed\n/set temperature 0.5\n/set\n/nothing\n/clear now\n/quit\nWho are you?\n",
             file, file, broken);
    spawn_result result = chat(input);
    assert_int_equal(result.status, 1);
    assert_contains(result.err, "3 messages\n");
    assert_contains(result.err, "role and content");
    assert_contains(result.err, "conversation  3 messages");
    assert_contains(result.err, "--top-k: '1e9' is not a whole number");
    assert_contains(result.err, "\n  top-k 1\n");
    assert_contains(result.err, "there is no option 'top_k'; /set lists them");
    assert_contains(result.err, "\n  seed 6\n"); /* /retry took the next one */
    assert_contains(result.err, "\n  top-k              1          Draw");
    assert_contains(result.err, "\n  temp 0.5\n");
    assert_null(strstr(result.err, "(null)"));
    assert_contains(result.err, "no command '/nothing'");
    assert_contains(result.err, "/clear takes no argument");
    assert_null(strstr(result.out, "demo model"));
    spawn_free(&result);
    temp_remove(folder);
}

static void test_bad_messages_are_refused(void **state) {
    (void)state;
    spawn_result result = chat("caf\xe9\nWhat is 2 + 2?\n");
    assert_int_equal(result.status, 1);
    assert_contains(result.err, "not valid UTF-8");
    assert_contains(result.out, "4");
    spawn_free(&result);
    result = LINNET("chat", TEST_SOURCE_DIR "/tests/golden/models/llama");
    assert_int_equal(result.status, 1);
    spawn_free(&result);
}

/* A context that is full is told, and the chat goes on: the oldest messages are forgotten, though
 * not for /save; a message that has no room alone is refused. */
static void test_full_context(void **state) {
    (void)state;
    char *folder = temp_create(), input[1024];
    const char *file = path_in(folder, "chat.json");
    snprintf(
        input, sizeof input, "Tell me a story.\n2+3=\n%s\n/save %s\n1+1=\n",
        "Tell me a long story of a bird and a king and a small fox and a mouse that lived in a "
        "forest near the sea, and of all that they ever said.",
        file);
    spawn_options options = {.input = input};
    spawn_result result =
        LINNET_WITH(&options, "chat", DEMO, "--temp", "0", "-c", "32", "--system", "Be brief.");
    assert_int_equal(result.status, 1);
    assert_contains(result.err, "warning: the answer ends where the context of 32 tokens is full");
    assert_contains(result.err, "the model no longer sees the first 2 messages");
    assert_contains(result.err, "too many for the context of 32; --ctx N");
    assert_contains(result.out, "\n5\n2\n");
    size_t n_bytes;
    char *saved = read_file(file, &n_bytes);
    assert_contains(saved, "Be brief.");
    assert_contains(saved, "Tell me a story.");
    assert_contains(saved, "2+3=");
    free(saved);
    spawn_free(&result);
    temp_remove(folder);
}

/* What is forgotten changes the answer as if it had not been said. */
static void test_forgotten_messages(void **state) {
    (void)state;
    static const char story[] = "Tell me a story.\n", last[] = "Tell me of a fox.\n";
    char input[256];
    snprintf(input, sizeof input, "%s%s", story, last);
    spawn_options both = {.input = input}, alone = {.input = last};
    spawn_result slid =
        LINNET_WITH(&both, "chat", DEMO, "--temp", "0", "-c", "64", "-n", "30", "-t", "1");
    spawn_result fresh =
        LINNET_WITH(&alone, "chat", DEMO, "--temp", "0", "-c", "64", "-n", "30", "-t", "1");
    assert_contains(slid.err, "no longer sees the first 2 messages");
    assert_null(strstr(fresh.err, "no longer sees"));
    assert_true(slid.out_bytes > fresh.out_bytes);
    assert_string_equal(slid.out + slid.out_bytes - fresh.out_bytes, fresh.out);
    spawn_free(&slid);
    spawn_free(&fresh);
}

/* Names that other programs have for the commands. */
static void test_aliases(void **state) {
    (void)state;
    static const char *const ends[] = {"/bye", "/exit"};
    for (size_t i = 0; i < 2; i++) {
        char input[64];
        snprintf(input, sizeof input, "1+1=\n/regen\n/?\n%s\n2+3=\n", ends[i]);
        spawn_result result = chat(input);
        assert_int_equal(result.status, 0);
        assert_string_equal(result.out, "2\n2\n");
        assert_contains(result.err, "/save FILE");
        spawn_free(&result);
    }
}

/* A template of one's own takes the place of the model's: here it asks something else. */
static void test_chat_template(void **state) {
    (void)state;
    static const char other[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ '2+3=' if m.role "
        "== 'user' else m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n{##}";
    char *folder = temp_create();
    const char *file = path_in(folder, "other.jinja"), *broken = path_in(folder, "broken.jinja");
    write_file(file, other, sizeof other - 1);
    write_file(broken, "{% for", 6);
    spawn_options options = {.input = "1+1=\n"};
    spawn_result result =
        LINNET_WITH(&options, "chat", DEMO, "--temp", "0", "--chat-template", file);
    assert_string_equal(result.out, "5\n");
    spawn_free(&result);
    result =
        LINNET("run", DEMO, "-q", "--chat", "--temp", "0", "-p", "1+1=", "--chat-template", file);
    assert_string_equal(result.out, "5");
    spawn_free(&result);
    static const char *const commands[] = {"chat", "serve"};
    for (size_t i = 0; i < 2; i++) {
        result = LINNET(commands[i], DEMO, "--chat-template", broken);
        assert_int_equal(result.status, 1);
        assert_contains(result.err, "broken.jinja: chat template, line 1");
        spawn_free(&result);
    }
    result = LINNET("run", DEMO, "-p", "x", "--chat-template", file);
    assert_int_equal(result.status, 2);
    assert_contains(result.err, "--chat-template needs --chat");
    spawn_free(&result);
    temp_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_line_is_a_message),
        cmocka_unit_test(test_messages_of_many_lines),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_bad_messages_are_refused),
        cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_forgotten_messages),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_chat_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
