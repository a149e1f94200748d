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

static char *parse(ln_tool_syntax syntax, bool is_thinking, const char *text, size_t step) {
    record r = {.kind = 0};
    ln_chat_text chat;
    ln_error err = {0};
    size_t n_bytes = strlen(text);
    ln_strbuf_init(&r.text);
    ln_chat_text_init(&chat, syntax, true, is_thinking, keep, &r);
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
    ln_tool_syntax syntax;
    const char *text, *expected;
} cases[] = {
    {LN_TOOLS_NONE, "plain <tool_call> {\"a\"}", "plain <tool_call> {\"a\"}"},
    {LN_TOOLS_NONE, " <think>\nhm < </th\n</think>\n\nyes", "<R:hm < </th\n>yes"},
    {LN_TOOLS_NONE, "<thin air", "<thin air"},
    {LN_TOOLS_NONE, "<think>no end", "<R:no end>"},
    {LN_TOOLS_NONE, "\n x", "\n x"},
    {LN_TOOLS_HERMES,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"\", \"b\": "
     "[1]}}\n</tool_call>",
     "<C:f><A:{\"a\": \"}\\\"\", \"b\": [1]}>"},
    {LN_TOOLS_HERMES,
     "Let me see.\n<tool_call>{\"arguments\": {\"x\": 1}, \"id\": 3, \"name\": "
     "\"g\\u00e9\"}"
     "</tool_call>\n<tool_call>{\"name\":\"h\"}</tool_call> done",
     "Let me see.\n<C:g\xc3\xa9><A:{\"x\": 1}><C:h><A:{}>done"},
    {LN_TOOLS_HERMES,
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": "
     "1}\"}</tool_call>",
     "<C:f><A:{\"a\": 1}>"},
    {LN_TOOLS_HERMES, "<think>a</think><tool_call>{\"name\": \"f\", \"arguments\": {}}",
     "<R:a><C:f><A:{}>"},
    {LN_TOOLS_HERMES, "<tool_call>hello", "<tool_call>hello"},
    {LN_TOOLS_HERMES, "<tool_call>{\"nam\": 1} x", "<tool_call>{\"nam\": 1} x"},
    {LN_TOOLS_HERMES, "<tool_call>{name", "<tool_call>{name"},
    {LN_TOOLS_HERMES, "<tool_call>{\"name\": \"f", "<tool_call>{\"name\": \"f"},
    {LN_TOOLS_HERMES, "a <tool_ b", "a <tool_ b"},
    {LN_TOOLS_LLAMA3, "{\"name\": \"f\", \"parameters\": {\"q\": \"x\"}}",
     "<C:f><A:{\"q\": \"x\"}>"},
    {LN_TOOLS_LLAMA3,
     "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": "
     "{}}; "
     "{\"name\": \"g\", \"parameters\": {\"a\": null}}",
     "<C:f><A:{}><C:g><A:{\"a\": null}>"},
    {LN_TOOLS_LLAMA3, "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
    {LN_TOOLS_LLAMA3, "{\"a\": 1} and more", "{\"a\": 1} and more"},
    {LN_TOOLS_LLAMA3, "say {\"name\": \"f\", \"parameters\": {}}",
     "say {\"name\": \"f\", \"parameters\": {}}"},
    {LN_TOOLS_MISTRAL,
     "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": []}}, {\"name\": "
     "\"g\", "
     "\"arguments\": {}, \"id\": \"abc\"}]",
     "<C:f><A:{\"a\": []}><C:g><A:{}>"},
    {LN_TOOLS_MISTRAL, "ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{\"b\": {}}",
     "ok<C:f><A:{\"a\": 1}><C:g><A:{\"b\": {}}>"},
    {LN_TOOLS_MISTRAL, "[TOOL_CALLS]f{\"a\": 1}", "<C:f><A:{\"a\": 1}>"},
    {LN_TOOLS_MISTRAL, "[TOOL_CALLS][] [TOOL", "[TOOL_CALLS]] [TOOL"},
    {LN_TOOLS_DEEPSEEK,
     "Hm." CALLS("begin") CALL("begin") "function" SEP "get\n```json\n{\"a\": \"`\"}\n```" CALL(
         "end") "\n" CALL("begin") "function" SEP "put\n```json\n{}\n```" CALL("end") CALLS("end"),
     "Hm.<C:get><A:{\"a\": \"`\"}><C:put><A:{}>"},
    {LN_TOOLS_DEEPSEEK,
     "<think>\nx\n</think>\n" CALLS("begin") CALL("begin") "get" SEP "{\"a\": 1}" CALL("end")
         CALLS("end"),
     "<R:x\n><C:get><A:{\"a\": 1}>"},
    {LN_TOOLS_DEEPSEEK, CALLS("begin") "nothing", "nothing"},
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
    char *result = parse(LN_TOOLS_HERMES, true, "\nso</think>\n\n<tool_call>{\"name\": \"f\"}", 1);
    assert_string_equal(result, "<R:so><C:f><A:{}>");
    free(result);
    static const char prompt[] = "<|im_start|>assistant\n<think>\n";
    assert_int_equal(ln_chat_prompt_reasoning(prompt, sizeof prompt - 1), LN_REASONING_OPEN);
    assert_int_equal(ln_chat_prompt_reasoning(prompt, 10), LN_REASONING_MAY_COME);
    assert_int_equal(ln_chat_prompt_reasoning("<think>\n\n</think>\n\n", 19), LN_REASONING_NONE);
    assert_true(ln_chat_template_reasons("{{ x.split('</think>') }}", 25));
    assert_false(ln_chat_template_reasons(prompt, 10));
}

/* The name comes before the arguments are whole, and these in fragments. */
static void deltas_come_early(void **state) {
    (void)state;
    record r = {.kind = 0};
    ln_chat_text chat;
    ln_error err = {0};
    static const char text[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ";
    ln_strbuf_init(&r.text);
    ln_chat_text_init(&chat, LN_TOOLS_HERMES, false, false, keep, &r);
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
    char *result = parse(LN_TOOLS_HERMES, false, text, 1000);
    assert_string_equal(result, text);
    free(result);
    free(text);
}

static void syntaxes_of_templates(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ln_tool_syntax syntax;
    } templates[] = {
        {"qwen3_thinking", LN_TOOLS_HERMES},
        {"llama3_tools", LN_TOOLS_LLAMA3},
        {"mistral_tools", LN_TOOLS_MISTRAL},
        {"deepseek", LN_TOOLS_DEEPSEEK},
        {"gemma", LN_TOOLS_NONE},
        {"phi", LN_TOOLS_NONE},
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
        ln_tool_syntax syntax = ln_tool_syntax_detect(text, n_bytes);
        if (syntax != templates[i].syntax)
            fail_msg("%s: %s", templates[i].name, ln_tool_syntax_name(syntax));
    }
    ln_tool_syntax found;
    assert_true(ln_tool_syntax_find("mistral", &found));
    assert_int_equal(found, LN_TOOLS_MISTRAL);
    assert_false(ln_tool_syntax_find("qwen", &found));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_apart),   cmocka_unit_test(reasoning_that_the_prompt_began),
        cmocka_unit_test(deltas_come_early),     cmocka_unit_test(huge_calls_are_content),
        cmocka_unit_test(syntaxes_of_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
