/* Grammars in Lark's syntax, and structural tags: which texts they accept, and what is refused. */
#include "grammar_test.h"

enum { NO = 0, YES = 1, BEGINS = 2 }; /* BEGINS: the text is not complete, but may go on */

typedef struct language_case {
    const char *grammar, *text;
    int expected;
} language_case;

static void check(linnet_grammar_kind kind, const language_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ln_grammar *grammar = compile(kind, cases[i].grammar, NULL);
        size_t n_accepted, n_bytes = strlen(cases[i].text);
        bool complete;
        ln_error err = {0};
        if (ln_grammar_match(grammar, cases[i].text, n_bytes, &n_accepted, &complete, &err) !=
            LINNET_OK)
            fail_msg("%s", err.message);
        int result = n_accepted < n_bytes ? NO : complete ? YES : BEGINS;
        if (result != cases[i].expected)
            fail_msg("%s\n%s\nis %d, not %d", cases[i].grammar, cases[i].text, result,
                     cases[i].expected);
        ln_grammar_release(grammar);
    }
}

#define LARK(cases) check(LINNET_GRAMMAR_LARK, cases, sizeof(cases) / sizeof *(cases))
#define TAG(cases)  check(LINNET_GRAMMAR_STRUCTURAL_TAG, cases, sizeof(cases) / sizeof *(cases))

#define SUM                                                                                        \
    "?start: sum // left recursion\n?sum: product | sum \"+\" product | sum \"-\" product\n"       \
    "?product: atom | product \"*\" atom # and more\n\n?atom: NUMBER -> number\n"                  \
    "  | \"-\" atom\n  | \"(\" sum \")\"\n%import common.NUMBER\n%import common.WS_INLINE -> S\n"  \
    "%ignore S\n"

static void rules(void **state) {
    (void)state;
    static const language_case cases[] = {
        {SUM, "1+2*3", YES},
        {SUM, "(1 + 2) * -3.5e2-1", YES},
        {SUM, "1+", BEGINS},
        {SUM, " 1", NO},
        {SUM, "1 2", NO},
        {SUM, "((1)", BEGINS},
        {"start: x{2,3}\nx: \"a\" | \"b\" -> foo\n", "aba", YES},
        {"start: x{2,3}\nx: \"a\" | \"b\" -> foo\n", "a", BEGINS},
        {"start: \"x\"~2..3 [\"y\" \"z\"]", "xxyz", YES},
        {"start: \"x\"~2..3 [\"y\" \"z\"]", "xxy", BEGINS},
        {"start: (\"a\" | \"b\")+ \"c\"?", "abac", YES},
        {"start: list\nlist: \"[\" [item (\",\" item)*] \"]\"\nitem: list | CNAME\n"
         "%import common (CNAME, WS)\n%ignore WS\n",
         "[ [a],\n b1 ]", YES},
        {"%llguidance {\"allow_initial_skip\": true, \"skip_repetition\": \"once\"}\n"
         "start: \"a\" \"b\"\n%ignore / {1,2}/\n",
         "  a b", YES},
        {"%llguidance {\"skip_repetition\": \"once\"}\nstart: \"a\" \"b\"\n%ignore / {1,2}/\n",
         "a   b", NO},
        {"start: %json {\"type\": \"integer\"} \"x\"", "12x", YES},
        {"start: %json {\"type\": \"integer\"} \"x\"", "1.5", NO},
        {"start: \"\\u00e9\\x41\\n\"",
         "\xc3\xa9"
         "A\n",
         YES},
        {"start: <|tag|> \"a\"", "<|tag|>a", YES},
    };
    LARK(cases);
}

static void terminals(void **state) {
    (void)state;
#define CALLS                                                                                      \
    "start: (foo | bar)* /[^<]*/\nFREE: /(.|\\n)*/\nfoo_head[lazy]: FREE \"<function\"\n"          \
    "foo: foo_head \"=foo>\" %json {\"type\": \"boolean\"} \"</function>\"\n"                      \
    "bar_head[lazy]: FREE \"<function\"\nbar: bar_head \"=bar>\" /[0-9]+/ \"</function>\"\n"
    static const language_case cases[] = {
        {"start: /[a-z]+/ & ~/foo/", "food", YES},
        {"start: S\nS: /[a-z]+/ & ~/foo/", "foo", BEGINS},
        {"start: \"Ab\"i /c/i", "aBC", YES},
        {"start: \"a\"..\"c\"", "d", NO},
        {"start: /a.c/", "a\rc", YES},
        {"start: /a.c/", "a\n", NO},
        {"start: /a.c/s", "a\nc", YES},
        {"start: /\\// \"/\"", "//", YES},
        {"start[lazy]: /.*;/", "ab;", YES},
        {"start[lazy]: /.*;/", "a;b", NO},
        {"start: a \"c\"\na[suffix=\";\"]: /.*/", "ab;c", YES},
        {"start: a \"c\"\na[suffix=\";\"]: /.*/", "a;b", NO},
        {"start: a \"<e>\"\na[capture, stop=\"<e>\"]: /.*/", "b<e>", YES},
        {"start: a \"<e>\"\na[capture, stop=\"<e>\"]: /.*/", "b<e>x", NO},
        {"start: %regex {\"substring_words\": \"foo bar baz\"}", "bar baz", YES},
        {"start: %regex {\"substring_words\": \"foo bar baz\"}", "ba", BEGINS},
        {"start: %regex {\"substring_words\": \"foo bar baz\"}", "bax", NO},
        {"start: %regex {\"substring_chunks\": [\"ab\", \"c\"]}", "abc", YES},
        {"start: INT\nINT: \"-\"? DIGIT+\nDIGIT: /[0-9]/", "-12", YES},
        {"start: ESCAPED_STRING\n%import common.ESCAPED_STRING", "\"a\\\"b\"", YES},
        {"start: C_COMMENT\n%import common.C_COMMENT", "/* a * b **/", YES},
        {CALLS, "a<function=foo>true</function>b", YES},
        {CALLS, "<function=bar>12</function>x<function=foo>", BEGINS},
        {CALLS, "a<function=baz", NO},
    };
    LARK(cases);
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        linnet_grammar_kind kind;
        const char *text;
        ln_status status;
        const char *message;
    } cases[] = {
        {LINNET_GRAMMAR_LARK, "", LINNET_ERR_ARGUMENT, "start"},
        {LINNET_GRAMMAR_LARK, "start: x", LINNET_ERR_ARGUMENT, "\"x\""},
        {LINNET_GRAMMAR_LARK, "start: \"a", LINNET_ERR_ARGUMENT, "line 1"},
        {LINNET_GRAMMAR_LARK, "start: (\"a\"", LINNET_ERR_ARGUMENT, "group"},
        {LINNET_GRAMMAR_LARK, "start: \"a\"\nstart: \"b\"", LINNET_ERR_ARGUMENT, "twice"},
        {LINNET_GRAMMAR_LARK, "start: A\nA: B\nB: A \"x\"", LINNET_ERR_ARGUMENT, "itself"},
        {LINNET_GRAMMAR_LARK, "start: A\nA: b\nb: \"x\"", LINNET_ERR_ARGUMENT, "the rule b"},
        {LINNET_GRAMMAR_LARK, "start: A\nA: %json {}", LINNET_ERR_ARGUMENT, "only rules"},
        {LINNET_GRAMMAR_LARK, "start: <[7]>", LINNET_ERR_UNSUPPORTED, "number"},
        {LINNET_GRAMMAR_LARK, "start: a::b", LINNET_ERR_UNSUPPORTED, "parameters"},
        {LINNET_GRAMMAR_LARK, "start[max_tokens=3]: /a/", LINNET_ERR_UNSUPPORTED, "option"},
        {LINNET_GRAMMAR_LARK, "start: %json {\"a\"", LINNET_ERR_ARGUMENT, "JSON"},
        {LINNET_GRAMMAR_LARK, "%import python.X\nstart: X", LINNET_ERR_UNSUPPORTED, "import"},
        {LINNET_GRAMMAR_LARK, "%import common.X\nstart: X", LINNET_ERR_ARGUMENT, "common"},
        {LINNET_GRAMMAR_LARK, "start: start \"a\"", LINNET_ERR_ARGUMENT, "no text"},
        {LINNET_GRAMMAR_STRUCTURAL_TAG, "{}", LINNET_ERR_ARGUMENT, "type"},
        {LINNET_GRAMMAR_STRUCTURAL_TAG, "{\"type\": \"bogus\"}", LINNET_ERR_UNSUPPORTED, "bogus"},
        {LINNET_GRAMMAR_STRUCTURAL_TAG, "{\"type\": \"any_text\", \"max_tokens\": 3}",
         LINNET_ERR_UNSUPPORTED, "max_tokens"},
        {LINNET_GRAMMAR_STRUCTURAL_TAG,
         "{\"type\": \"triggered_tags\", \"triggers\": [\"<a\"], \"tags\": [{\"begin\": \"<b>\", "
         "\"content\": {\"type\": \"any_text\"}, \"end\": \"e\"}]}",
         LINNET_ERR_ARGUMENT, "no trigger"},
        {LINNET_GRAMMAR_STRUCTURAL_TAG,
         "{\"type\": \"json_schema\", \"json_schema\": {}, \"style\": \"qwen_xml\"}",
         LINNET_ERR_UNSUPPORTED, "style"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_grammar *grammar = NULL;
        ln_error err = {0};
        const ln_grammar_source source = {
            .kind = cases[i].kind, .text = cases[i].text, .n_bytes = strlen(cases[i].text)};
        ln_status status = ln_grammar_compile(&source, NULL, &grammar, &err);
        if (status != cases[i].status || strstr(err.message, cases[i].message) == NULL)
            fail_msg("%s: %d, \"%s\"", cases[i].text, (int)status, err.message);
    }
}

static void knows_lark_from_gbnf(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_lark;
    } cases[] = {{"start: \"a\"", true},      {"# x\n%ignore /a/\nstart: x", true},
                 {"?start : x", true},        {"// y\nstart[lazy]: x", true},
                 {"root ::= \"a\"", false},   {"# c\nroot   ::= x", false},
                 {"a-b ::= \"x: y\"", false}, {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ln_grammar_is_lark(cases[i].text, strlen(cases[i].text)) != cases[i].is_lark)
            fail_msg("%s", cases[i].text);
}

/* ---- structural tags ---------------------------------------------------------------------------
 */

#define CITY                                                                                       \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":["          \
    "\"city\"]}"
#define TAG_OF(name)                                                                               \
    "{\"type\":\"tag\",\"begin\":\"<function=" name                                                \
    ">\",\"content\":{\"type\":\"json_schema\",\"json_schema\":" CITY "},\"end\":\"</function>\"}"
#define FORMAT(fields) "{\"type\":\"structural_tag\",\"format\":{" fields "}}"
#define TRIGGERED(more)                                                                            \
    FORMAT("\"type\":\"triggered_tags\",\"triggers\":[\"<function=\"],\"tags\":[" TAG_OF(          \
        "a") "," TAG_OF("b") "]" more)
#define CALL(name) "<function=" name ">{\"city\": \"x\"}</function>"

static void triggered_tags(void **state) {
    (void)state;
#define OLD                                                                                        \
    "{\"type\":\"structural_tag\",\"structures\":[{\"begin\":\"<function=a>\",\"schema\":" CITY    \
    ",\"end\":\"</function>\"}],\"triggers\":[\"<function=\"]}"
    static const language_case cases[] = {
        {OLD, "", YES},
        {OLD, "hi <function=a>{\"city\": \"x\"}</function> there", YES},
        {OLD, "hi <function=b", NO},
        {OLD, "hi <function=a>{}", NO},
        {OLD, "hi <function", YES},
        {TRIGGERED(""), CALL("a") "x<" CALL("b"), YES},
        {TRIGGERED(""), "x <function=c", NO},
        {TRIGGERED(",\"at_least_one\":true"), "x", NO},
        {TRIGGERED(",\"at_least_one\":true"), CALL("b") "x", YES},
        {TRIGGERED(",\"at_least_one\":true"), "", BEGINS},
        {TRIGGERED(",\"stop_after_first\":true"), CALL("b") "x", NO},
        {TRIGGERED(",\"stop_after_first\":true"), "y" CALL("b"), YES},
        {TRIGGERED(",\"excludes\":[\"foo\"]"), "fo", YES},
        {TRIGGERED(",\"excludes\":[\"foo\"]"), "a foo", NO},
    };
    TAG(cases);
}

static void other_formats(void **state) {
    (void)state;
#define THINK                                                                                      \
    FORMAT("\"type\":\"sequence\",\"elements\":[{\"type\":\"tag\",\"begin\":\"<think>\","          \
           "\"content\":{\"type\":\"any_text\"},\"end\":\"</think>\"},{\"type\":\"json_schema\","  \
           "\"json_schema\":{\"type\":\"boolean\"}}]")
#define SEPARATED                                                                                  \
    FORMAT("\"type\":\"tags_with_separator\",\"tags\":[" TAG_OF("a") "],\"separator\":\",\"")
#define PARTS                                                                                      \
    FORMAT("\"type\":\"or\",\"elements\":[{\"type\":\"const_string\",\"value\":\"no\"},{"          \
           "\"type\":\"regex\",\"pattern\":\"[0-9]{2}\"},{\"type\":\"grammar\",\"grammar\":"       \
           "\"root ::= \\\"x\\\" root?\"},{\"type\":\"repeat\",\"min\":1,\"max\":2,\"content\":{"  \
           "\"type\":\"const_string\",\"value\":\"ab\"}}]")
#define DISPATCH                                                                                   \
    FORMAT("\"type\":\"dispatch\",\"rules\":[[\"<a>\",{\"type\":\"const_string\",\"value\":"       \
           "\"1\"}]],\"loop\":false")
    static const language_case cases[] = {
        {THINK, "<think>a < b</think>true", YES},
        {THINK, "<think>a</think> ", NO},
        {SEPARATED, CALL("a") "," CALL("a"), YES},
        {SEPARATED, CALL("a") CALL("a"), NO},
        {PARTS, "no", YES},
        {PARTS, "12", YES},
        {PARTS, "xx", YES},
        {PARTS, "abab", YES},
        {PARTS, "abababa", NO},
        {DISPATCH, "x<a>1", YES},
        {DISPATCH, "x<a>2", NO},
        {DISPATCH, "x<a>1y", NO},
        {FORMAT("\"type\":\"any_text\",\"max_chars\":2"),
         "\xc3\xa9"
         "b",
         YES},
        {FORMAT("\"type\":\"any_text\",\"max_chars\":2"), "abc", NO},
        {FORMAT("\"type\":\"tag\",\"begin\":\"B\",\"content\":{\"type\":\"any_text\"},\"end\":["
                "\"E1\",\"E2\"]"),
         "BxE2", YES},
        {FORMAT("\"type\":\"token\",\"token\":\"<|x|>\""), "<|x|>", YES},
    };
    TAG(cases);
}

/* ---- how JSON is written -----------------------------------------------------------------------
 */

static void forms_of_json(void **state) {
    (void)state;
#define TWO                                                                                        \
    "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{\"type\":\"integer\"}},\"required\":["   \
    "\"a\"]}"
    static const struct {
        unsigned form;
        const char *text;
        int expected;
    } cases[] = {
        {0, "{\"a\": 1, \"b\":2}", YES},
        {0, "{\"c\": 1, \"a\": 1}", YES},
        {LINNET_JSON_COMPACT, "{\"a\":1,\"b\":[1,2]}", YES},
        {LINNET_JSON_COMPACT, "{\"a\": ", NO},
        {LINNET_JSON_COMPACT, "{ ", NO},
        {LINNET_JSON_ORDERED, "{\"b\": 2, \"a\": 1, \"c\": 3}", YES},
        {LINNET_JSON_ORDERED, "{\"a\": 1, \"b\"", NO},
        {LINNET_JSON_ORDERED, "{\"a\": 1}", YES},
        {LINNET_JSON_ORDERED, "{\"c\"", NO},
        {LINNET_JSON_CLOSED, "{\"a\": 1, \"c", NO},
        {LINNET_JSON_CLOSED, "{\"a\": 1, \"b\": {\"c\": 2}}", YES},
        {LINNET_JSON_CLOSED | LINNET_JSON_ORDERED | LINNET_JSON_COMPACT, "{\"b\":1,\"a\":2}", YES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ln_grammar_source source = {.kind = LINNET_GRAMMAR_JSON_SCHEMA,
                                          .text = TWO,
                                          .n_bytes = sizeof TWO - 1,
                                          .json_form = cases[i].form};
        ln_grammar *grammar;
        size_t n_accepted, n_bytes = strlen(cases[i].text);
        bool complete;
        ln_error err = {0};
        assert_int_equal(ln_grammar_compile(&source, NULL, &grammar, &err), LINNET_OK);
        assert_int_equal(
            ln_grammar_match(grammar, cases[i].text, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        if ((n_accepted == n_bytes) != (cases[i].expected != NO) ||
            complete != (cases[i].expected == YES))
            fail_msg("form %u, %s: %zu bytes", cases[i].form, cases[i].text, n_accepted);
        ln_grammar_release(grammar);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),          cmocka_unit_test(terminals),
        cmocka_unit_test(refuses),        cmocka_unit_test(knows_lark_from_gbnf),
        cmocka_unit_test(triggered_tags), cmocka_unit_test(other_formats),
        cmocka_unit_test(forms_of_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
