/* Grammars for calls of tools: what they allow is what the parser of calls
 * reads. */
#include "grammar_test.h"

#include "text/chat/chat_text.h"

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get\", "                      \
    "\"parameters\": "                                                                             \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": "                                \
    "\"string\"}}, \"required\": "                                                                 \
    "[\"city\"]}}}, {\"type\": \"function\", \"function\": {\"name\": "                            \
    "\"stop\"}}]"

typedef struct calls_read {
    char text[256];
    size_t n;
} calls_read;

static void keep(void *user, const ln_chat_piece *piece) {
    calls_read *calls = user;
    assert_true(piece->kind == LN_PIECE_CALL || piece->kind == LN_PIECE_ARGUMENTS);
    calls->n += (size_t)snprintf(calls->text + calls->n, sizeof calls->text - calls->n, "%s%.*s",
                                 piece->kind == LN_PIECE_CALL ? "/" : " ", (int)piece->n_bytes,
                                 piece->text);
}

#define BAR "\xef\xbd\x9c"
#define LOW "\xe2\x96\x81"

static void calls_are_what_the_parser_reads(void **state) {
    (void)state;
    static const struct {
        const char *source;
        const char *syntax, *text, *expected; /* NULL: refused */
    } cases[] = {
        {"{\"syntax\": \"hermes\", " TOOLS "}", "hermes",
         "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": "
         "\"x\"}}\n</tool_call>",
         "/get {\"city\": \"x\"}"},
        {"{\"syntax\": \"hermes\", " TOOLS "}", "hermes",
         "\xff<tool_call>\n{\"name\": \"get\", \"arguments\": {}", NULL},
        {"{\"syntax\": \"hermes\", \"name\": \"stop\", " TOOLS "}", "hermes",
         "<tool_call>\n{\"name\": \"get\"", NULL},
        {"{\"syntax\": \"hermes\", \"parallel\": true, " TOOLS "}", "hermes",
         "<tool_call>\n{\"name\": \"stop\", \"arguments\": "
         "{}}\n</tool_call>\n<tool_call>\n"
         "{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>",
         "/stop {}/stop {}"},
        {"{\"syntax\": \"llama3\", " TOOLS "}", "llama3",
         "{\"name\": \"get\", \"parameters\": {\"city\": \"\"}}", "/get {\"city\": \"\"}"},
        {"{\"syntax\": \"mistral\", " TOOLS "}", "mistral",
         "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"city\": \"\"}}]",
         "/get {\"city\": \"\"}"},
        {"{\"syntax\": \"deepseek\", " TOOLS "}", "deepseek",
         "<" BAR "tool" LOW "calls" LOW "begin" BAR "><" BAR "tool" LOW "call" LOW "begin" BAR
         ">function<" BAR "tool" LOW "sep" BAR ">get\n```json\n{\"city\": \"y\"}\n```<" BAR
         "tool" LOW "call" LOW "end" BAR "><" BAR "tool" LOW "calls" LOW "end" BAR ">",
         "/get {\"city\": \"y\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_grammar *grammar = compile(LINNET_GRAMMAR_TOOLS, cases[i].source, NULL);
        size_t n_bytes = strlen(cases[i].text), n_accepted;
        bool complete;
        ln_error err = {0};
        assert_int_equal(
            ln_grammar_match(grammar, cases[i].text, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        ln_grammar_release(grammar);
        if (cases[i].expected == NULL) {
            assert_true(n_accepted < n_bytes);
            continue;
        }
        if (n_accepted != n_bytes || !complete)
            fail_msg("%s: %zu of %zu", cases[i].text, n_accepted, n_bytes);
        calls_read calls = {.n = 0};
        ln_chat_text chat;
        ln_chat_text_init(&chat, ln_call_syntax_find(cases[i].syntax), NULL, false, keep, &calls);
        assert_int_equal(ln_chat_text_feed(&chat, cases[i].text, n_bytes, &err), LINNET_OK);
        assert_int_equal(ln_chat_text_finish(&chat, &err), LINNET_OK);
        ln_chat_text_free(&chat);
        assert_string_equal(calls.text, cases[i].expected);
    }
}

/* In every syntax: a text that the grammar allows, which the parser reads as these calls, and,
 * where it has a `wrong`, one that it does not. */
#define DSML                                                                                       \
    "\xef\xbd\x9c"                                                                                 \
    "DSML"                                                                                         \
    "\xef\xbd\x9c"

#define LOW                 "\xe2\x96\x81"
#define STEP(what)          "<\xef\xbd\x9c" what "\xef\xbd\x9c>"
#define DEEPSEEK(what, end) STEP("tool" LOW what LOW end)
#define DEEPSEEK_SEP        STEP("tool" LOW "sep")
#define MM                  "]<]minimax[>["
#define MUSE_CALL                                                                                  \
    " to=f<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter "            \
    "name=\"a\">x"                                                                                 \
    "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>"
#define CALL_OBJECT "{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}"

static const char tools[] =
    "\"parallel\": true, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}, "
    "\"n\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}}}]";
static const struct {
    const char *syntax, *text, *expected, *wrong;
} forced_calls[] = {
    {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>",
     "/f {\"a\": \"x\"}", "<tool_call>\n{\"name\": \"g\""},
    {"mistral_args", "[TOOL_CALLS]f[ARGS]{\"a\": \"x\"}", "/f {\"a\": \"x\"}", "[TOOL_CALLS]g"},
    {"kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
     "{\"a\": \"x\"}<|tool_call_end|><|tool_calls_section_end|>",
     "/f {\"a\": \"x\"}", "<|tool_calls_section_begin|><|tool_calls_section_end|>"},
    {"qwen3_coder",
     "<tool_call>\n<function=f>\n<parameter=a>\n< x\n</parameter>\n<parameter=n>\n3\n"
     "</parameter>\n</function>\n</tool_call>",
     "/f {\"a\": \"< x\", \"n\": 3}",
     "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>\ny"},
    {"qwen3_coder", "<tool_call><function=f><parameter=a>x</parameter></function></tool_call>",
     "/f {\"a\": \"x\"}", "<tool_call>\n<function=f>\n</function>"},
    {"glm4", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
     "/f {\"a\": \"x\"}", "<tool_call>f\n</tool_call>"},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n</invoke>"
     "\n</minimax:tool_call>",
     "/f {\"a\": \"x\"}", NULL},
    {"seed_oss",
     "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n"
     "</seed:tool_call>",
     "/f {\"a\": \"x\"}", NULL},
    {"deepseek_v32",
     "<" DSML "function_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
     "parameter name=\"a\" string=\"true\">1</" DSML "parameter>\n<" DSML
     "parameter name=\"n\" string=\"false\">1</" DSML "parameter>\n</" DSML "invoke>\n</" DSML
     "function_calls>",
     "/f {\"a\": \"1\", \"n\": 1}", NULL},
    {"command",
     "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": {\"a\": \"x\"}}]<|END_ACTION|>",
     "/f {\"a\": \"x\"}", "<|START_ACTION|>[]"},
    {"command_r", "Action:\n```json\n[{\"tool_name\": \"f\", \"parameters\": {\"a\": \"x\"}}]\n```",
     "/f {\"a\": \"x\"}", NULL},
    {"phi4_mini", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}]<|/tool_call|>",
     "/f {\"a\": \"x\"}", NULL},
    {"gemma4", "<|tool_call>call:f{a:<|\"|>x, }<|\"|>,n:2}<tool_call|>",
     "/f {\"a\": \"x, }\", \"n\": 2}", "<|tool_call>call:f{}"},
    {"pythonic", "[f(a=\"x\", n=2), f(a=\"\")]", "/f {\"a\": \"x\", \"n\": 2}/f {\"a\": \"\"}",
     "[f(n=2"},
    {"lfm2", "<|tool_call_start|>[f(a=\"x\")]<|tool_call_end|>", "/f {\"a\": \"x\"}", NULL},
    {"olmo3", "<function_calls>f(a=\"x\")\nf(a=\"y\")</function_calls>",
     "/f {\"a\": \"x\"}/f {\"a\": \"y\"}", NULL},
    {"functionary", "<function=f>{\"a\": \"x\"}</function>", "/f {\"a\": \"x\"}", NULL},
    {"harmony",
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"x\"}<|call|>",
     "/f {\"a\": \"x\"}", "<|channel|>final"},
    {"llama3", "{\"name\": \"f\", \"parameters\": {\"a\": \"x\"}}", "/f {\"a\": \"x\"}",
     "<|python_tag|>"},
    {"mistral", "[TOOL_CALLS][" CALL_OBJECT "]", "/f {\"a\": \"x\"}", "[TOOL_CALLS]" CALL_OBJECT},
    {"deepseek",
     DEEPSEEK("calls", "begin")
         DEEPSEEK("call", "begin") "function" DEEPSEEK_SEP
                                   "f\n```json\n{\"a\": \"x\"}\n```" DEEPSEEK("call", "end")
                                       DEEPSEEK("calls", "end"),
     "/f {\"a\": \"x\"}", NULL},
    {"deepseek_v31",
     DEEPSEEK("calls", "begin") DEEPSEEK("call", "begin") "f" DEEPSEEK_SEP
                                                          "{\"a\": \"x\"}" DEEPSEEK("call", "end")
                                                              DEEPSEEK("calls", "end"),
     "/f {\"a\": \"x\"}", NULL},
    {"deepseek_v4",
     "<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
     "parameter name=\"a\" string=\"true\">1</" DSML "parameter>\n</" DSML "invoke>\n</" DSML
     "tool_calls>",
     "/f {\"a\": \"1\"}", NULL},
    {"granite", "<|tool_call|>[" CALL_OBJECT "]", "/f {\"a\": \"x\"}", NULL},
    {"granite_fc", "<function_call>" CALL_OBJECT, "/f {\"a\": \"x\"}", NULL},
    {"firefunction", "functools[" CALL_OBJECT "]", "/f {\"a\": \"x\"}", NULL},
    {"hunyuan", "<tool_calls>[" CALL_OBJECT "]</tool_calls>", "/f {\"a\": \"x\"}", NULL},
    {"nemotron", "<TOOLCALL>[" CALL_OBJECT ", " CALL_OBJECT "]</TOOLCALL>",
     "/f {\"a\": \"x\"}/f {\"a\": \"x\"}", NULL},
    {"internlm2",
     "<|action_start|><|plugin|>{\"name\": \"f\", \"parameters\": {\"a\": "
     "\"x\"}}<|action_end|>",
     "/f {\"a\": \"x\"}", NULL},
    {"longcat", "<longcat_tool_call>" CALL_OBJECT "</longcat_tool_call>", "/f {\"a\": \"x\"}",
     NULL},
    {"functiongemma", "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>",
     "/f {\"a\": \"x\"}", NULL},
    {"muse", MUSE_CALL "<|eom|><|start|>assistant" MUSE_CALL, "/f {\"a\": \"x\"}/f {\"a\": \"x\"}",
     " to=g<|message|>"},
    {"recipients", "f\n{\"a\": \"x\"}>>>f\n{\"a\": \"y\"}", "/f {\"a\": \"x\"}/f {\"a\": \"y\"}",
     "all\n"},
    {"minimax_m3",
     MM "<tool_call>\n" MM "<invoke name=\"f\">" MM "<a>x" MM "</a>" MM "<n>2" MM "</n>" MM
        "</invoke>\n" MM "</tool_call>",
     "/f {\"a\": \"x\", \"n\": 2}", MM "<tool_call>\n" MM "<invoke name=\"f\">" MM "<n>x"},
    {"dots",
     "<dots_function_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n</invoke>"
     "\n</dots_function_call>",
     "/f {\"a\": \"x\"}", NULL},
    {"step3",
     STEP("tool_calls_begin") STEP("tool_call_begin") "function" STEP(
         "tool_sep") "<steptml:invoke"
                     " name=\"f\"><steptml:parameter "
                     "name=\"a\">x</steptml:parameter></steptml:invoke>" STEP("tool_call_end")
                         STEP("tool_calls_end"),
     "/f {\"a\": \"x\"}", NULL},
    {"hy_v3",
     "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n"
     "</tool_call>\n</tool_calls>",
     "/f {\"a\": \"x\"}", "<tool_calls>\n</tool_calls>"},
    {"hy_v3_open",
     "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n"
     "<arg_key:opensource>a</arg_key:opensource>\n<arg_value:opensource>x"
     "</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
     "/f {\"a\": \"x\"}", NULL},
    {"minicpm5",
     "<function name=\"f\"><param name=\"a\">x</param><param name=\"n\">2</param></function>",
     "/f {\"a\": \"x\", \"n\": 2}", "<function name=\"f\"></function>"},
    {"kimi_k3",
     "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
     "type=\"string\"<|sep|>1<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"number\""
     "<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "/f {\"a\": \"1\", \"n\": 2}", NULL},
    {"solar",
     "<|tool_calls|><|tool_call:begin|>c0-1<|tool_call:name|>f<|tool_call:args|>{\"a\": \"x\"}"
     "<|tool_call:end|>",
     "/f {\"a\": \"x\"}", "<|tool_calls|><|tool_call:begin|><|tool_call:name|>"},
    {"apertus", "<|tools_prefix|>[{\"f\": {\"a\": \"x\"}}]<|tools_suffix|>", "/f {\"a\": \"x\"}",
     "<|tools_prefix|>[{\"g\""},
    {"gigachat3", "<|function_call|>" CALL_OBJECT "<|message_sep|>", "/f {\"a\": \"x\"}", NULL},
    {"gigachat3_role", "function call<|role_sep|>\n" CALL_OBJECT "\n<|message_sep|>",
     "/f {\"a\": \"x\"}", NULL},
    {"minimax_m1", "<tool_calls>\n" CALL_OBJECT "\n</tool_calls>", "/f {\"a\": \"x\"}", NULL},
    {"xlam", "[" CALL_OBJECT "]", "/f {\"a\": \"x\"}", NULL},
};

static void every_syntax_can_be_forced(void **state) {
    (void)state;
    for (size_t k = 0, i; ln_call_syntax_at(k) != NULL; k++) { /* none is left out */
        for (i = 0; i < sizeof forced_calls / sizeof *forced_calls; i++)
            if (strcmp(forced_calls[i].syntax, ln_call_syntax_at(k)->name) == 0)
                break;
        if (i == sizeof forced_calls / sizeof *forced_calls)
            fail_msg("there is no case of %s", ln_call_syntax_at(k)->name);
    }
    for (size_t i = 0; i < sizeof forced_calls / sizeof *forced_calls; i++) {
        char source[1024];
        size_t n_accepted, n_bytes = strlen(forced_calls[i].text);
        bool complete;
        ln_error err = {0};
        const ln_reasoning_format *format = ln_reasoning_find(forced_calls[i].syntax);
        snprintf(source, sizeof source, "{\"syntax\": \"%s\", %s}", forced_calls[i].syntax, tools);
        ln_grammar *grammar = compile(LINNET_GRAMMAR_TOOLS, source, NULL);
        assert_int_equal(
            ln_grammar_match(grammar, forced_calls[i].text, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        if (n_accepted != n_bytes || !complete)
            fail_msg("%s: %s: %zu of %zu", forced_calls[i].syntax, forced_calls[i].text, n_accepted,
                     n_bytes);
        if (forced_calls[i].wrong != NULL) {
            assert_int_equal(ln_grammar_match(grammar, forced_calls[i].wrong,
                                              strlen(forced_calls[i].wrong), &n_accepted, &complete,
                                              &err),
                             LINNET_OK);
            assert_true(n_accepted < strlen(forced_calls[i].wrong));
        }
        ln_grammar_release(grammar);
        calls_read calls = {.n = 0};
        ln_chat_text chat;
        ln_chat_text_init(&chat, ln_call_syntax_find(forced_calls[i].syntax),
                          format != NULL && format->messages != LN_MESSAGES_NONE ? format : NULL,
                          false, keep, &calls);
        assert_int_equal(ln_chat_text_feed(&chat, forced_calls[i].text, n_bytes, &err), LINNET_OK);
        assert_int_equal(ln_chat_text_finish(&chat, &err), LINNET_OK);
        ln_chat_text_free(&chat);
        assert_string_equal(calls.text, forced_calls[i].expected);
    }
}

/* A value of elements, as its schema says. */
static void forces_nested_values(void **state) {
    (void)state;
    static const char source[] =
        "{\"syntax\": \"minimax_m3\", \"tools\": [{\"function\": {\"name\": \"f\", \"parameters\": "
        "{\"type\": \"object\", \"required\": [\"o\"], \"properties\": {\"o\": {\"type\": "
        "\"object\", "
        "\"required\": [\"l\"], \"properties\": {\"l\": {\"type\": \"array\", \"maxItems\": 2, "
        "\"items\": {\"type\": \"string\"}}}}}}}}]}";
#define BEGIN  MM "<tool_call>" MM "<invoke name=\"f\">" MM "<o>"
#define ITEM   MM "<item>a" MM "</item>"
#define END(o) o MM "</invoke>" MM "</tool_call>"
    static const struct {
        const char *text;
        bool fits;
    } texts[] = {
        {BEGIN MM "<l>" ITEM ITEM MM "</l>" END(MM "</o>"), true},
        {BEGIN MM "<l>" MM "</l>" END(MM "</o>"), true},
        {BEGIN END(MM "</o>"), false},
        {BEGIN MM "<l>" ITEM ITEM ITEM, false},
        {BEGIN MM "<l>a", false},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ln_grammar *grammar = compile(LINNET_GRAMMAR_TOOLS, source, NULL);
        size_t n_bytes = strlen(texts[i].text), n_accepted;
        bool complete;
        ln_error err = {0};
        assert_int_equal(
            ln_grammar_match(grammar, texts[i].text, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        assert_int_equal(n_accepted == n_bytes, texts[i].fits);
        ln_grammar_release(grammar);
    }
}

/* The text of a custom tool holds its grammar in every form: as it is, or escaped as in JSON. */
static void custom_tools_have_grammars(void **state) {
    (void)state;
#define QUOTED  "(\\\"b\\n)"
#define PLAIN   "(\"b\n)"
#define CALL(t) "{\"name\": \"f\", \"arguments\": {\"input\": \"" t "\"}}"
    static const char lark[] = "start: \\\"(\\\" start \\\")\\\" | /\\\"[ab]\\\\n/";
    static const char gbnf[] =
        "root ::= \\\"(\\\" root \\\")\\\" | \\\"\\\\\\\"\\\" [ab] \\\"\\\\n\\\"";
    static const char regex[] = "[(][\\\"][ab]\\n[)]";
    static const struct {
        const char *syntax, *text, *wrong;
    } cases[] = {
        {"hermes", "<tool_call>\n" CALL("(" QUOTED ")") "\n</tool_call>",
         "<tool_call>\n" CALL("(" QUOTED)},
        {"hermes", "<tool_call>\n" CALL(QUOTED) "\n</tool_call>", "<tool_call>\n" CALL(PLAIN)},
        {"mistral_args", "[TOOL_CALLS]f[ARGS]{\"input\": \"" QUOTED "\"}",
         "[TOOL_CALLS]f[ARGS]{\"input\": \"c"},
        {"pythonic", "[f(input=\"" QUOTED "\")]", "[f(input=\"\\\"c"},
        {"gemma4", "<|tool_call>call:f{input:<|\"|>" PLAIN "<|\"|>}<tool_call|>",
         "<|tool_call>call:f{input:<|\"|>" QUOTED},
        {"qwen3_coder",
         "<tool_call>\n<function=f>\n<parameter=input>\n" PLAIN
         "\n</parameter>\n</function>\n</tool_call>",
         "<tool_call>\n<function=f>\n<parameter=input>\nb"},
    };
    for (size_t i = 0; i < 3 * (sizeof cases / sizeof *cases); i++) {
        const char *definitions[] = {lark, gbnf, regex}, *names[] = {"lark", "gbnf", "regex"};
        size_t k = i / 3;
        if (i % 3 == 2 && k == 0) /* which nests */
            continue;
        char source[1024];
        bool complete;
        size_t n_accepted, n_bytes = strlen(cases[k].text);
        ln_error err = {0};
        snprintf(
            source, sizeof source,
            "{\"syntax\": \"%s\", \"custom\": [\"f\"], \"tools\": [{\"function\": {\"name\": "
            "\"f\", "
            "\"parameters\": {\"type\": \"object\", \"required\": [\"input\"], \"properties\": "
            "{\"input\": {\"type\": \"string\", \"grammar\": {\"syntax\": \"%s\", \"definition\": "
            "\"%s\"}}}}}}]}",
            cases[k].syntax, names[i % 3], definitions[i % 3]);
        ln_grammar *grammar = compile(LINNET_GRAMMAR_TOOLS, source, NULL);
        assert_int_equal(
            ln_grammar_match(grammar, cases[k].text, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        if (n_accepted != n_bytes || !complete)
            fail_msg("%s: %s: %zu of %zu", names[i % 3], cases[k].text, n_accepted, n_bytes);
        n_bytes = strlen(cases[k].wrong);
        assert_int_equal(
            ln_grammar_match(grammar, cases[k].wrong, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        assert_true(n_accepted < n_bytes);
        ln_grammar_release(grammar);
    }
}

/* Calls that need not come: text without any, or text and a call whose input holds the grammar. */
static void free_answers_bind_calls(void **state) {
    (void)state;
    static const struct {
        const char *syntax, *text;
        bool fits;
    } cases[] = {
        {"hermes", "", true},
        {"hermes", "No <tool, {\"name\": 1}.", true},
        {"hermes", "<tool_call>\n" CALL("ab") "\n</tool_call>", true},
        {"hermes", "Well.\n<tool_call>\n" CALL("ab") "\n</tool_call>", true},
        {"hermes", "Well.\n<tool_call>\n" CALL("ac") "\n</tool_call>", false},
        {"hermes", "<tool_call> is a tag", false},
        {"llama3", "{\"name\": \"f\", \"parameters\": {\"input\": \"ab\"}}", true},
        {"llama3", "{\"name\": \"f\", \"parameters\": {\"input\": \"c\"}}", false},
        {"llama3", "{\"n\": 1}", true},
        {"pythonic", "[f(input=\"ab\")]", true},
        {"pythonic", "[f(input=\"c\")]", false},
        {"pythonic", "[1] says so", true},
        {"mistral_args", "Hm[TOOL_CALLS]f[ARGS]{\"input\": \"ab\"}", true},
        {"mistral_args", "Hm[TOOL_CALLS]f[ARGS]{\"input\": \"c\"}", false},
        {"harmony", "<|channel|>final<|message|>Well.", true},
        {"harmony",
         "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.f <|constrain|>json<|message|>{\"input\": \"ab\"}<|call|>",
         true},
        {"harmony",
         "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"input\": \"c\"}",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[512];
        bool complete;
        size_t n_accepted, n_bytes = strlen(cases[i].text);
        ln_error err = {0};
        snprintf(
            source, sizeof source,
            "{\"syntax\": \"%s\", \"free\": true, \"custom\": [\"f\"], \"tools\": [{\"function\": "
            "{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"required\": "
            "[\"input\"], \"properties\": {\"input\": {\"type\": \"string\", \"grammar\": "
            "{\"syntax\": \"regex\", \"definition\": \"a+b\"}}}}}}]}",
            cases[i].syntax);
        ln_grammar *grammar = compile(LINNET_GRAMMAR_TOOLS, source, NULL);
        assert_int_equal(
            ln_grammar_match(grammar, cases[i].text, n_bytes, &n_accepted, &complete, &err),
            LINNET_OK);
        if (cases[i].fits != (n_accepted == n_bytes && complete))
            fail_msg("%s: %s: %zu of %zu", cases[i].syntax, cases[i].text, n_accepted, n_bytes);
        ln_grammar_release(grammar);
    }
}

/* Characters of JSON within a JSON string count as before. */
static void custom_tools_count_characters(void **state) {
    (void)state;
    static const char source[] =
        "{\"syntax\": \"hermes\", \"custom\": [\"f\"], \"tools\": [{\"function\": {\"name\": "
        "\"f\", "
        "\"parameters\": {\"type\": \"object\", \"required\": [\"input\"], \"properties\": "
        "{\"input\": {\"type\": \"string\", \"grammar\": {\"syntax\": \"lark\", \"definition\": "
        "\"start: %json {\\\"type\\\": \\\"string\\\", \\\"minLength\\\": 2, \\\"maxLength\\\": "
        "2}\"}}}}}}]}";
    static const struct {
        const char *text;
        bool fits;
    } texts[] = {
        {CALL("\\\"a\\\\n\\\""), true},     {CALL("\\\"a\\\\u0041\\\""), true},
        {CALL("\\\"\\\\n\\\\n\\\""), true}, {CALL("\\\"abc\\\""), false},
        {CALL("\\\"a\\\""), false},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ln_grammar *grammar = compile(LINNET_GRAMMAR_TOOLS, source, NULL);
        char text[256];
        bool complete;
        size_t n_accepted;
        ln_error err = {0};
        int n = snprintf(text, sizeof text, "<tool_call>\n%s\n</tool_call>", texts[i].text);
        assert_int_equal(ln_grammar_match(grammar, text, (size_t)n, &n_accepted, &complete, &err),
                         LINNET_OK);
        if ((n_accepted == (size_t)n && complete) != texts[i].fits)
            fail_msg("%s: %zu of %d", text, n_accepted, n);
        ln_grammar_release(grammar);
    }
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "syntax"},
        {"{\"syntax\": \"none\"}", "syntax"},
        {"{\"syntax\": \"hermes\"}", "no tool"},
        {"{\"syntax\": \"hermes\", \"name\": \"put\", " TOOLS "}", "no tool put"},
        {"{\"syntax\": \"hermes\", \"tools\": [{}]}", "no name"},
        {"{\"syntax\": \"hermes\", \"tools\": [{\"name\": \"f\", \"parameters\": "
         "{\"not\": 1}}]}",
         "no object"},
        {"[", "tools, line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_grammar *grammar;
        ln_error err = {0};
        const ln_grammar_source source = {
            .kind = LINNET_GRAMMAR_TOOLS, .text = cases[i].text, .n_bytes = strlen(cases[i].text)};
        assert_int_not_equal(ln_grammar_compile(&source, NULL, &grammar, &err), LINNET_OK);
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].text, err.message);
    }
}

/* A special token is no ordinary text, and the other way round. */
static void special_tokens_are_marked(void **state) {
    (void)state;
    ln_masker masker;
    void *memory = make_masker(&masker);
    uint32_t node = 1;
    assert_int_equal(masker.trie.depth[node], 1);
    size_t n_marked = 0;
    for (node = 1; node < masker.trie.n_nodes; node = masker.trie.end[node])
        n_marked += masker.trie.byte[node] == 0xff;
    assert_int_equal(n_marked, 1);
    node = masker.trie.n_nodes - 1; /* <|end|> is last, and the ordinary \xff is not there */
    assert_int_equal(masker.trie.token[node], TEST_SPECIAL);
    assert_int_equal(masker.trie.depth[node], 8);
    assert_int_equal(masker.trie.token[node - 7], -1);
    free(memory);
}

/* What comes before </think> is any text; what comes after it is the grammar's. */
static void reasoning_comes_first(void **state) {
    (void)state;
    static const struct {
        linnet_reasoning reasoning;
        const char *text;
        bool is_complete;
    } cases[] = {
        {LINNET_REASONING_OPEN, "yes < no <<\xc3\xa9 </thin </think </</think>\n\n42", true},
        {LINNET_REASONING_OPEN, "</think>7", true},
        {LINNET_REASONING_OPEN, "\xff</think>7", true}, /* as one token */
        {LINNET_REASONING_OPEN, "42", false},
        {LINNET_REASONING_OPEN, "a</think>", false},
        {LINNET_REASONING_MAY_COME, "<think>\nhm</think>\n42", true},
        {LINNET_REASONING_MAY_COME, "42", true},
        {LINNET_REASONING_MAY_COME, "<think>\nhm", false},
    };
    static const char *const wrong[] = {"hm</think> 4", "hm</think>\n\n\n4", "hm</think>x"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases + 3; i++) {
        ln_error err = {0};
        bool is_wrong = i >= sizeof cases / sizeof *cases, is_complete;
        const char *text = is_wrong ? wrong[i - sizeof cases / sizeof *cases] : cases[i].text;
        size_t n_accepted;
        ln_grammar *grammar = compile_after(is_wrong ? LINNET_REASONING_OPEN : cases[i].reasoning,
                                            LINNET_GRAMMAR_REGEX, "[0-9]+", NULL);
        assert_int_equal(
            ln_grammar_match(grammar, text, strlen(text), &n_accepted, &is_complete, &err),
            LINNET_OK);
        if ((n_accepted < strlen(text)) != is_wrong ||
            (!is_wrong && is_complete != cases[i].is_complete))
            fail_msg("%s: %zu bytes, complete %d", text, n_accepted, is_complete);
        ln_grammar_release(grammar);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_what_the_parser_reads),
        cmocka_unit_test(every_syntax_can_be_forced),
        cmocka_unit_test(forces_nested_values),
        cmocka_unit_test(custom_tools_have_grammars),
        cmocka_unit_test(free_answers_bind_calls),
        cmocka_unit_test(custom_tools_count_characters),
        cmocka_unit_test(refusals),
        cmocka_unit_test(special_tokens_are_marked),
        cmocka_unit_test(reasoning_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
