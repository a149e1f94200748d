/* Calls between tags, in all syntaxes, fed whole and cut anywhere. */
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "unit/text/pieces.h"

static ln_parameter_type type_of(void *user, const char *tool, const char *parameter) {
    (void)user;
    bool is_code = strcmp(tool, "f") == 0 && strcmp(parameter, "code") == 0;
    return is_code ? LN_PARAMETER_TEXT : LN_PARAMETER_UNKNOWN;
}

static char *parse(const char *syntax, const char *text, size_t step) {
    record r = {.kind = 0};
    ln_chat_text chat;
    ln_error err = {0};
    size_t n_bytes = strlen(text);
    ln_strbuf_init(&r.text);
    ln_chat_text_init(&chat, ln_call_syntax_find(syntax), ln_reasoning_think(), false, keep, &r);
    chat.type_of = type_of;
    for (size_t at = 0; at < n_bytes; at += step)
        assert_int_equal(
            ln_chat_text_feed(&chat, text + at, n_bytes - at < step ? n_bytes - at : step, &err),
            LINNET_OK);
    assert_int_equal(ln_chat_text_finish(&chat, &err), LINNET_OK);
    ln_chat_text_free(&chat);
    if (r.kind > 0)
        ln_strbuf_putc(&r.text, '>');
    ln_strbuf_puts(&r.text, "");
    return r.text.data != NULL ? ln_strbuf_take(&r.text) : strdup("");
}

typedef struct call_case {
    const char *syntax, *text, *pieces;
} call_case;

static const call_case cases[] = {
    {"qwen3_coder",
     "<think>\nhm\n</think>\n\nLook.\n<tool_call>\n<function=f>\n<parameter=city>\nRome\n"
     "</parameter>\n<parameter=n>\n12\n</parameter>\n<parameter=code>\n12\n</parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
     "<R:hm\n>Look.\n<C:f><A:{\"city\": \"Rome\", \"n\": 12, \"code\": \"12\"}><C:g><A:{}>"},
    {"qwen3_coder",
     "<tool_call><function=f><parameter=code>if a < b:\n    x = \"</para\"\n</parameter>"
     "<parameter=list>[1, {\"a\": null}]</parameter></function></tool_call> Done",
     "<C:f><A:{\"code\": \"if a < b:\\n    x = \\\"</para\\\"\", \"list\": [1, {\"a\": "
     "null}]}>Done"},
    /* the other way to write a call is understood as well */
    {"qwen3_coder", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "<C:f><A:{\"a\": 1}>"},
    {"qwen3_coder", "<tool_call>none</tool_call>", "<tool_call>none</tool_call>"},
    {"qwen3_coder", "<tool_call><function=f", "<tool_call><function=f"},
    {"qwen3_coder", "<tool_call><function=></function>", "<tool_call><function=></function>"},
    {"qwen3_coder", "<tool_call></tool_call>x", "<tool_call></tool_call>x"},
    {"qwen3_coder", "<tool_call><function=f><parameter=a>1</parameter>oops",
     "<C:f><A:{\"a\": 1}>oops"},
    {"qwen3_coder", "<tool_call><function=f><parameter=>1</parameter>",
     "<C:f><A:{}>>1</parameter>"},
    {"qwen3_coder", "<tool_call><function=f></function><function=g></function></tool_call>",
     "<C:f><A:{}><C:g><A:{}>"},
    {"seed_oss",
     "<seed:tool_call>\n<function=f>\n<parameter=a>true</parameter>\n</function>\n"
     "</seed:tool_call>",
     "<C:f><A:{\"a\": true}>"},
    {"minimax",
     "Hm <minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">b c</parameter>\n"
     "<parameter name=\"d\">{\"e\": 1}</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
     "</minimax:tool_call>",
     "Hm <C:f><A:{\"a\": \"b c\", \"d\": {\"e\": 1}}><C:g><A:{}>"},
    {"glm4",
     "<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>n</arg_key>\n"
     "<arg_value>2.5</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
     "<C:f><A:{\"city\": \"Rome\", \"n\": 2.5}><C:g><A:{}>"},
    {"glm4",
     "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"
     "<tool_call>g</tool_call>end",
     "<C:f><A:{\"a\": 1}><C:g><A:{}>end"},
    {"glm4", "a < b and <tool_calls", "a < b and <tool_calls"},
};

static void says_the_same_however_it_comes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 120; step += step < 9 ? 1 : 11) {
            char *pieces = parse(cases[i].syntax, cases[i].text, step);
            if (strcmp(pieces, cases[i].pieces) != 0)
                fail_msg("%s\nin steps of %zu gives\n%s\nand not\n%s", cases[i].text, step, pieces,
                         cases[i].pieces);
            free(pieces);
        }
}

static void finds_the_syntax_of_a_template(void **state) {
    (void)state;
    static const struct {
        const char *text, *name;
    } templates[] = {
        {"...<tool_call>\n<function=example>\n<parameter=a>...", "qwen3_coder"},
        {"{{ '<tool_call>' + name }}<arg_key>{{ k }}</arg_key><arg_value>", "glm4"},
        {"<seed:tool_call> <function= <parameter=", "seed_oss"},
        {"<minimax:tool_call>\n<invoke name=\"a\"><parameter name=\"b\">", "minimax"},
        {"<tool_call>{\"name\": ...}</tool_call>", "hermes"},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const ln_call_syntax *found =
            ln_call_syntax_detect(templates[i].text, strlen(templates[i].text));
        assert_true((found == NULL) == (templates[i].name == NULL));
        if (found != NULL)
            assert_string_equal(found->name, templates[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_the_same_however_it_comes),
                                       cmocka_unit_test(finds_the_syntax_of_a_template)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
