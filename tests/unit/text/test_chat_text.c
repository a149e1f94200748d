/* What chat models say, taken apart: each message whole, byte by byte, and in
 * pieces of some bytes, always the same. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "text/chat/chat_text.h"

/* The pieces as text: content as it is, <R:reasoning>, <C:name>, <A:arguments>.
 */
typedef struct record {
    ln_strbuf text;
    int kind;
} record;

static void keep(void *user, const ln_chat_piece *piece) {
    static const char *const opens[] = {"", "<R:", "<C:", "<A:"};
    record *r = user;
    bool is_new = r->kind != (int)piece->kind || piece->kind == LN_PIECE_CALL;
    assert_true(piece->n_bytes > 0);
    if (is_new && r->kind > 0)
        ln_strbuf_putc(&r->text, '>');
    if (is_new)
        ln_strbuf_puts(&r->text, opens[piece->kind]);
    ln_strbuf_append(&r->text, piece->text, piece->n_bytes);
    r->kind = (int)piece->kind;
}

static char *parse(const char *syntax, bool is_thinking, const char *text, size_t step) {
    record r = {.kind = 0};
    ln_chat_text chat;
    ln_error err = {0};
    size_t n_bytes = strlen(text);
    ln_strbuf_init(&r.text);
    ln_chat_text_init(&chat, syntax != NULL ? ln_call_syntax_find(syntax) : NULL,
                      ln_reasoning_think(), is_thinking, keep, &r);
    for (size_t at = 0; at < n_bytes; at += step)
        assert_int_equal(
            ln_chat_text_feed(&chat, text + at, n_bytes - at < step ? n_bytes - at : step, &err),
            LINNET_OK);
    assert_int_equal(ln_chat_text_finish(&chat, &err), LINNET_OK);
    ln_chat_text_free(&chat);
    if (r.kind > 0)
        ln_strbuf_putc(&r.text, '>');
    ln_strbuf_puts(&r.text, "");
    char *result = ln_strbuf_take(&r.text);
    assert_non_null(result);
    return result;
}

#define BAR         "\xef\xbd\x9c"
#define LOW         "\xe2\x96\x81"
#define CALLS(what) "<" BAR "tool" LOW "calls" LOW what BAR ">"
#define CALL(what)  "<" BAR "tool" LOW "call" LOW what BAR ">"
#define SEP         "<" BAR "tool" LOW "sep" BAR ">"

static const struct {
    const char *syntax, *text, *expected;
} cases[] = {
    {NULL, "plain <tool_call> {\"a\"}", "plain <tool_call> {\"a\"}"},
    {NULL, " <think>\nhm < </th\n</think>\n\nyes", "<R:hm < </th\n>yes"},
    {NULL, "<thin air", "<thin air"},
    {NULL, "<think>no end", "<R:no end>"},
    {NULL, "\n x", "\n x"},
    {"hermes",
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"\", \"b\": "
     "[1]}}\n</tool_call>",
     "<C:f><A:{\"a\": \"}\\\"\", \"b\": [1]}>"},
    {"hermes",
     "Let me see.\n<tool_call>{\"arguments\": {\"x\": 1}, \"id\": 3, \"name\": "
     "\"g\\u00e9\"}"
     "</tool_call>\n<tool_call>{\"name\":\"h\"}</tool_call> done",
     "Let me see.\n<C:g\xc3\xa9><A:{\"x\": 1}><C:h><A:{}>done"},
    {"hermes",
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": "
     "1}\"}</tool_call>",
     "<C:f><A:{\"a\": 1}>"},
    {"hermes", "<think>a</think><tool_call>{\"name\": \"f\", \"arguments\": {}}",
     "<R:a><C:f><A:{}>"},
    {"hermes", "<tool_call>hello", "<tool_call>hello"},
    {"hermes", "<tool_call>{\"nam\": 1} x", "<tool_call>{\"nam\": 1} x"},
    {"hermes", "<tool_call>{name", "<tool_call>{name"},
    {"hermes", "<tool_call>{\"name\": \"f", "<tool_call>{\"name\": \"f"},
    {"hermes", "a <tool_ b", "a <tool_ b"},
    {"llama3", "{\"name\": \"f\", \"parameters\": {\"q\": \"x\"}}", "<C:f><A:{\"q\": \"x\"}>"},
    {"llama3",
     "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": "
     "{}}; "
     "{\"name\": \"g\", \"parameters\": {\"a\": null}}",
     "<C:f><A:{}><C:g><A:{\"a\": null}>"},
    {"llama3", "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
    {"llama3", "{\"a\": 1} and more", "{\"a\": 1} and more"},
    {"llama3", "say {\"name\": \"f\", \"parameters\": {}}", "say <C:f><A:{}>"},
    {"llama3", "say {\"name\": \"f\"}", "say {\"name\": \"f\"}"},
    {"llama3", "say {\"names\": 1}", "say {\"names\": 1}"},
    {"mistral",
     "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": []}}, {\"name\": "
     "\"g\", "
     "\"arguments\": {}, \"id\": \"abc\"}]",
     "<C:f><A:{\"a\": []}><C:g><A:{}>"},
    {"mistral", "ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{\"b\": {}}",
     "ok<C:f><A:{\"a\": 1}><C:g><A:{\"b\": {}}>"},
    {"mistral", "[TOOL_CALLS]f{\"a\": 1}", "<C:f><A:{\"a\": 1}>"},
    {"mistral", "[TOOL_CALLS][] [TOOL", "[TOOL_CALLS][] [TOOL"},
    {"deepseek",
     "Hm." CALLS("begin") CALL("begin") "function" SEP "get\n```json\n{\"a\": \"`\"}\n```" CALL(
         "end") "\n" CALL("begin") "function" SEP "put\n```json\n{}\n```" CALL("end") CALLS("end"),
     "Hm.<C:get><A:{\"a\": \"`\"}><C:put><A:{}>"},
    {"deepseek",
     "<think>\nx\n</think>\n" CALLS("begin") CALL("begin") "get" SEP "{\"a\": 1}" CALL("end")
         CALLS("end"),
     "<R:x\n><C:get><A:{\"a\": 1}>"},
    {"deepseek", CALLS("begin") "nothing", CALLS("begin") "nothing"},
};

static void messages_come_apart(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step < 40; step += 3) {
            char *result = parse(cases[i].syntax, false, cases[i].text, step);
            if (strcmp(result, cases[i].expected) != 0)
                fail_msg("%s\nin steps of %zu is\n%s\nnot\n%s", cases[i].text, step, result,
                         cases[i].expected);
            free(result);
        }
    }
}

static void reasoning_that_the_prompt_began(void **state) {
    (void)state;
    char *result = parse("hermes", true, "\nso</think>\n\n<tool_call>{\"name\": \"f\"}", 1);
    assert_string_equal(result, "<R:so><C:f><A:{}>");
    free(result);
    const ln_reasoning_format *think = ln_reasoning_think();
    static const char prompt[] = "<|im_start|>assistant\n<think>\n";
    assert_int_equal(ln_reasoning_of_prompt(think, prompt, sizeof prompt - 1), LN_REASONING_OPEN);
    assert_int_equal(ln_reasoning_of_prompt(think, prompt, 10), LN_REASONING_MAY_COME);
    assert_int_equal(ln_reasoning_of_prompt(think, "<think>\n\n</think>\n\n", 19),
                     LN_REASONING_NONE);
    assert_ptr_equal(ln_reasoning_detect("{{ x.split('</think>') }}", 25), think);
    assert_null(ln_reasoning_detect(prompt, 10));
}

/* The name comes before the arguments are whole, and these in fragments. */
static void deltas_come_early(void **state) {
    (void)state;
    record r = {.kind = 0};
    ln_chat_text chat;
    ln_error err = {0};
    static const char text[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ";
    ln_strbuf_init(&r.text);
    ln_chat_text_init(&chat, ln_call_syntax_find("hermes"), NULL, false, keep, &r);
    assert_int_equal(ln_chat_text_feed(&chat, text, sizeof text - 1, &err), LINNET_OK);
    assert_string_equal(r.text.data, "<C:f><A:{\"a\": ");
    ln_chat_text_free(&chat);
    ln_strbuf_free(&r.text);
}

static void huge_calls_are_content(void **state) {
    (void)state;
    enum { N_BYTES = 300000 };
    char *text = malloc(N_BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', N_BYTES);
    memcpy(text, "<tool_call>{\"a\": \"", 18);
    text[N_BYTES] = '\0';
    char *result = parse("hermes", false, text, 1000);
    assert_string_equal(result, text);
    free(result);
    free(text);
}

static void syntaxes_of_templates(void **state) {
    (void)state;
    static const struct {
        const char *name, *syntax;
    } templates[] = {
        {"qwen3_thinking", "hermes"}, {"llama3_tools", "llama3"}, {"mistral_tools", "mistral"},
        {"deepseek", "deepseek"},     {"gemma", "none"},          {"phi", "phi4_mini"},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/golden/templates/families/%s.jinja", TEST_SOURCE_DIR,
                 templates[i].name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            fail_msg("%s is not there", path);
        char text[65536];
        size_t n_bytes = fread(text, 1, sizeof text, file);
        fclose(file);
        const ln_call_syntax *syntax = ln_call_syntax_detect(text, n_bytes);
        const char *name = syntax != NULL ? syntax->name : "none";
        if (strcmp(name, templates[i].syntax) != 0)
            fail_msg("%s: %s", templates[i].name, name);
    }
    assert_non_null(ln_call_syntax_find("mistral"));
    assert_null(ln_call_syntax_find("qwen"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_apart),   cmocka_unit_test(reasoning_that_the_prompt_began),
        cmocka_unit_test(deltas_come_early),     cmocka_unit_test(huge_calls_are_content),
        cmocka_unit_test(syntaxes_of_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
