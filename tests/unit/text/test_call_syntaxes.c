/* Calls in the syntaxes of many models, and their reasoning, fed whole and cut anywhere. */
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "unit/text/pieces.h"

static ln_parameter_type type_of(void *user, const char *tool, const char *parameter) {
    (void)user;
    if (strcmp(tool, "typed") != 0)
        return LN_PARAMETER_UNKNOWN;
    if (strchr(parameter, '\n') != NULL) /* within a value */
        return strcmp(parameter, "list\nitem\ntext") == 0 ? LN_PARAMETER_TEXT
                                                          : LN_PARAMETER_UNKNOWN;
    return strcmp(parameter, "text") == 0 ? LN_PARAMETER_TEXT : LN_PARAMETER_OTHER;
}

static char *parse(const char *syntax, const char *format, const char *text, size_t step) {
    record r = {.kind = 0};
    ln_chat_text chat;
    ln_error err = {0};
    size_t n_bytes = strlen(text);
    ln_strbuf_init(&r.text);
    ln_chat_text_init(&chat, ln_call_syntax_find(syntax), ln_reasoning_find(format), false, keep,
                      &r);
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
    return ln_strbuf_take(&r.text);
}

#define MM  "]<]minimax[>["
#define BAR "\xef\xbd\x9c"
#define DSML                                                                                       \
    "\xef\xbd\x9c"                                                                                 \
    "DSML"                                                                                         \
    "\xef\xbd\x9c"

static const struct {
    const char *syntax, *format, *text, *pieces;
} cases[] = {
    {"kimi_k2", "think",
     "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
     "<|tool_call_argument_begin|>{\"a\": \"<b>\"}<|tool_call_end|><|tool_call_begin|>functions.g:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "I look.<C:f><A:{\"a\": \"<b>\"}><C:g><A:{}>"},
    {"kimi_k2", "think",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
     "{\"a\": <|tool_call_end|><|tool_call_begin|>g:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "<C:f><A:{\"a\": ><C:g><A:{}>"},
    {"kimi_k2", "think", "<|tool_calls_section_begin|>none", "<|tool_calls_section_begin|>none"},
    {"deepseek_v32", "think",
     "<think>hm</think>\n\n<" DSML "function_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
     "parameter name=\"a\" string=\"true\">12</" DSML "parameter>\n<" DSML
     "parameter name=\"b\" string=\"false\">[1, 2]</" DSML "parameter>\n</" DSML "invoke>\n</" DSML
     "function_calls>",
     "<R:hm><C:f><A:{\"a\": \"12\", \"b\": [1, 2]}>"},
    {"deepseek_v4", "think",
     "<" DSML "invoke name=\"typed\"><" DSML "parameter name=\"n\" string=\"true\">4</" DSML
     "parameter></" DSML "invoke>",
     "<C:typed><A:{\"n\": 4}>"},
    {"qwen3_coder", "think",
     "<function=typed>\n<parameter=text>\nTrue\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n"
     "<parameter=map>\n{'a': None}\n</parameter>\n</function>",
     "<C:typed><A:{\"text\": \"True\", \"on\": true, \"map\": {\"a\": null}}>"},
    {"qwen3_coder", "think",
     "<tool_call>\n<function=f>\n<parameter=a>\nx\n<parameter=b>\ny\n</function>\n</tool_call>",
     "<C:f><A:{\"a\": \"x\", \"b\": \"y\"}>"},
    {"minimax", "think",
     "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">b\n</parameter></invoke>"
     "</minimax:tool_call>",
     "<C:f><A:{\"a\": \"b\\n\"}>"},
    {"gemma4", "gemma",
     "<|channel>thought\nhm\n<channel|>Yes. <|tool_call>call:f{a:<|\"|>}, x<|\"|>,n:1.50,"
     "o:{p:[true,<|\"|>q<|\"|>]}}<tool_call|><|tool_call>call:g{}<tool_call|>",
     "<R:hm\n>Yes. <C:f><A:{\"a\": \"}, x\", \"n\": 1.50, \"o\": {\"p\": [true, \"q\"]}}><C:g>"
     "<A:{}>"},
    {"gemma4", "gemma", "<|tool_call>call:f{a:<|\"|>x", "<|tool_call>call:f{a:<|\"|>x"},
    {"functiongemma", "think",
     "<start_function_call>call:f{city:<escape>Rome<escape>}<end_function_call>",
     "<C:f><A:{\"city\": \"Rome\"}>"},
    {"pythonic", "think", "[f(a=1, b='it\\'s', c=[True, None, {'k': (1, 2)}]), g()]",
     "<C:f><A:{\"a\": 1, \"b\": \"it's\", \"c\": [true, null, {\"k\": [1, 2]}]}><C:g><A:{}>"},
    {"pythonic", "think", "[1, 2] and [f(a=1)]", "[1, 2] and [f(a=1)]"},
    {"pythonic", "think", "[f(a=b)]", "[f(a=b)]"},
    {"pythonic", "think", "[f(a=\"\\u00e9\\x41\")",
     "<C:f><A:{\"a\": \"\xc3\xa9"
     "A\"}>"},
    {"lfm2", "think", "<|tool_call_start|>[f(n=007)]<|tool_call_end|>Done.",
     "<C:f><A:{\"n\": 7}>Done."},
    {"lfm2", "think", "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {}}]<|tool_call_end|>",
     "<C:f><A:{}>"},
    {"olmo3", "think", "<function_calls>\nf(a=1)\ng(b=\"x\")\n</function_calls>",
     "<C:f><A:{\"a\": 1}><C:g><A:{\"b\": \"x\"}>"},
    {"llama3", "think", "<|python_tag|>brave_search.call(query=\"cats\")",
     "<C:brave_search><A:{\"query\": \"cats\"}>"},
    {"llama3", "think", "<|python_tag|>print(1)", "<|python_tag|>print(1)"},
    {"mistral", "mistral", "[THINK]so[/THINK]ok[TOOL_CALLS]f[ARGS]{\"a\": [1]}[TOOL_CALLS]g{}",
     "<R:so>ok<C:f><A:{\"a\": [1]}><C:g><A:{}>"},
    {"mistral_args", "mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]",
     "<C:f><A:{}>"},
    {"deepseek_v31", "think",
     "<\xef\xbd\x9ctool\xe2\x96\x81"
     "calls\xe2\x96\x81"
     "begin\xef\xbd\x9c><\xef\xbd\x9ctool"
     "\xe2\x96\x81"
     "call\xe2\x96\x81"
     "begin\xef\xbd\x9c>f<\xef\xbd\x9ctool\xe2\x96\x81"
     "sep\xef\xbd\x9c>{\"a\": 1}<\xef\xbd\x9ctool\xe2\x96\x81"
     "call\xe2\x96\x81"
     "end\xef\xbd\x9c>"
     "<\xef\xbd\x9ctool\xe2\x96\x81"
     "calls\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     "<C:f><A:{\"a\": 1}>"},
    {"granite", "granite",
     "Here is my thought process:hm Here is my response:<|tool_call|>[{\"name\": \"f\", "
     "\"arguments\": {\"a\": 1}}, {\"arguments\": {}, \"name\": \"g\"}]",
     "<R:hm ><C:f><A:{\"a\": 1}><C:g><A:{}>"},
    {"phi4_mini", "think", "functools[{\"name\": \"f\", \"arguments\": {}}]", "<C:f><A:{}>"},
    {"hunyuan", "answer",
     "<think>x</think>\n<answer>yes<tool_calls>[{\"name\": \"f\", \"arguments\": {}}]</tool_calls>"
     "</answer>",
     "<R:x>yes<C:f><A:{}>"},
    {"hunyuan", "think",
     "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n"
     "</tool_calls>",
     "<C:f><A:{}><C:g><A:{}>"},
    {"nemotron", "think", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>",
     "<C:f><A:{}>"},
    {"seed_oss", "seed",
     "<seed:think>a</seed:think><seed:tool_call><function=f><parameter=b>1</parameter></function>"
     "</seed:tool_call>",
     "<R:a><C:f><A:{\"b\": 1}>"},
    {"command", "command",
     "<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", "
     "\"tool_name\": \"f\", \"parameters\": {\"b\": 1}}\n]<|END_ACTION|>",
     "<R:a><C:f><A:{\"b\": 1}>"},
    {"command", "command", "<|START_RESPONSE|>yes<|END_RESPONSE|>", "yes"},
    {"command_r", "think", "Action:```json\n[{\"tool_name\": \"f\", \"parameters\": {}}]```",
     "<C:f><A:{}>"},
    {"internlm2", "think",
     "ok<|action_start|><|plugin|>{\"name\": \"f\", \"parameters\": {}}<|action_end|>",
     "ok<C:f><A:{}>"},
    {"functionary", "think", "<function=f>{\"a\": 1}</function>", "<C:f><A:{\"a\": 1}>"},
    {"harmony", "harmony",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>"
     "I look.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
     "<|message|>{\"a\": 1}<|call|>",
     "<R:hm>I look.<C:f><A:{\"a\": 1}>"},
    {"harmony", "harmony", " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
     "<C:f><A:{}>"},
    {"harmony", "harmony", "<|channel|>final<|message|>yes <|x<|return|>", "yes <|x"},
    {"harmony", "harmony", "plain", "plain"},
    {"hy_v3", "think",
     "Look.<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n"
     "</tool_call>\n<tool_call>g<tool_sep>\n</tool_call>\n</tool_calls>",
     "Look.<C:f><A:{\"a\": \"x\"}><C:g><A:{}>"},
    {"hy_v3_open", "hunyuan",
     "<think:opensource>hm</think:opensource><tool_calls:opensource><tool_call:opensource>f"
     "<tool_sep:opensource><arg_key:opensource>a</arg_key:opensource><arg_value:opensource>1"
     "</arg_value:opensource></tool_call:opensource></tool_calls:opensource>",
     "<R:hm><C:f><A:{\"a\": 1}>"},
    {"muse", "think",
     "<atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"a\">x y"
     "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
     "<C:f><A:{\"a\": \"x y\"}>"},
    {"dots", "think",
     "<dots_function_call>\n<invoke name=\"f\">\n<parameter name=\"a\">[1]</parameter>\n</invoke>\n"
     "</dots_function_call>",
     "<C:f><A:{\"a\": [1]}>"},
    {"dots", "think",
     "<dots_function_call>{\"name\": \"f\", \"arguments\": {}}</dots_function_call>",
     "<C:f><A:{}>"},
    {"step3", "think",
     "<" BAR "tool_calls_begin" BAR "><" BAR "tool_call_begin" BAR ">function<" BAR "tool_sep" BAR
     "><steptml:invoke name=\"f\"><steptml:parameter name=\"a\">x</steptml:parameter>"
     "</steptml:invoke><" BAR "tool_call_end" BAR "><" BAR "tool_calls_end" BAR ">",
     "<C:f><A:{\"a\": \"x\"}>"},
    {"minicpm5", "think",
     "Now <function name=\"f\"><param name=\"a\"><![CDATA[x</param>]]></param><param name=\"b\">2"
     "</param></function> and <function name=\"g\"></function>",
     "Now <C:f><A:{\"a\": \"x</param>\", \"b\": 2}>and <C:g><A:{}>"},
    {"minicpm5", "think", "<function name=\"f", "<function name=\"f"},
    {"kimi_k3", "kimi_k3",
     "<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>ok<|close|>response<|sep|>"
     "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
     "type=\"string\"<|sep|>1<|close|>argument<|sep|><|open|>argument key=\"b\" type=\"number\""
     "<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message"
     "<|sep|>",
     "<R:hm>ok<C:f><A:{\"a\": \"1\", \"b\": 2}>"},
    {"solar", "think",
     "<|tool_calls|><|tool_call:begin|>a1b2<|tool_call:name|>f<|tool_call:args|>{\"a\": 1}"
     "<|tool_call:end|><|tool_call:begin|>c3<|tool_call:name|>g<|tool_call:args|>{}<|tool_call:end|"
     ">",
     "<C:f><A:{\"a\": 1}><C:g><A:{}>"},
    {"apertus", "think",
     "<|tools_prefix|>[{\"f\": {\"name\": [1]}}, {\"g\": {}}]<|tools_suffix|>Done.",
     "<C:f><A:{\"name\": [1]}><C:g><A:{}>Done."},
    {"gigachat3", "think", "<|function_call|>{\"name\": \"f\", \"arguments\": {}}<|message_sep|>",
     "<C:f><A:{}>"},
    {"gigachat3_role", "think",
     "I look.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
     "I look.<C:f><A:{}>"},
    {"minimax_m1", "think", "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_calls>",
     "<C:f><A:{}>"},
    {"xlam", "think", "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "<C:f><A:{\"a\": 1}>"},
    {"xlam", "think", "So: ```json\n[{\"name\": \"f\", \"arguments\": {}}]\n```",
     "So: <C:f><A:{}>"},
    {"qwen3_coder", "think",
     "<think>First <tool_call>no, <tool_call><function=f>\n</function></tool_call>So.",
     "<R:First <tool_call>no, ><C:f><A:{}>So."},
    {"glm4", "think",
     "<think>a<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>",
     "<R:a><C:f><A:{\"k\": \"v\"}>"},
    {"kimi_k2", "think", "<think>a<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}",
     "<R:a><C:f><A:{}>"},
    {"hermes", "think", "<think>a<tool_call>{\"name\": \"f\"}</tool_call></think>b",
     "<R:a<tool_call>{\"name\": \"f\"}</tool_call>>b"},
    {"hermes", "think", "</think>\n\nb", "b"},
    {"gemma4", "gemma", "<|channel>thought\n<channel|>yes<channel|>", "yes"},
    {"hermes", "apriel",
     "Here are my reasoning steps:\nhm\n[BEGIN FINAL RESPONSE]\nyes\n[END FINAL RESPONSE]",
     "<R:hm\n>yes\n"},
    {"hermes", "think", " \n<tool_call>{\"name\": \"f\"}</tool_call>", "<C:f><A:{}>"},
    {"gemma4", "gemma", "<|channel><|channel>thought\n<channel|>yes", "yes"},
    {"kimi_k3", "kimi_k3",
     "<|open|>think<|sep|>hm<|open|>response<|sep|>ok<|close|>response<|sep|>", "<R:hm>ok"},
    {"minimax_m3", "minimax_m3",
     "<mm:think>hm</mm:think>Look." MM "<tool_call>\n" MM "<invoke name=\"f\">" MM "<a>x y" MM
     "</a>" MM "<n>-14" MM "</n>" MM "</invoke>\n" MM "<invoke name=\"g\">" MM "</invoke>\n" MM
     "</tool_call>Done",
     "<R:hm>Look.<C:f><A:{\"a\": \"x y\", \"n\": -14}><C:g><A:{}>Done"},
    {"minimax_m3", "minimax_m3",
     MM "<tool_call>" MM "<invoke name=\"typed\">" MM "<list>\n" MM "<item>" MM "<text>1" MM
        "</text>" MM "</item>" MM "<item>b" MM "</item>" MM "</list>" MM "<map>" MM "<map>" MM
        "<on>true" MM "</on>" MM "</map>" MM "</map>" MM "<text>" MM "<b>c" MM "</b>" MM
        "</text>" MM "</invoke>" MM "</tool_call>",
     "<C:typed><A:{\"list\": [{\"text\": \"1\"}, \"b\"], \"map\": {\"map\": {\"on\": true}}, "
     "\"text\": \"" MM "<b>c" MM "</b>\"}>"},
    {"minimax_m3", "minimax_m3",
     MM "<tool_call>" MM "<invoke name=\"f\">" MM "<a>" MM "<b>1" MM "</c>" MM "</a>" MM
        "</invoke>" MM "</tool_call>",
     "<C:f><A:{\"a\": \"" MM "<b>1" MM "</c>\"}>"},
    {"muse", "muse",
     " to=self<|message|>I think of <atem:function_calls>.<|eom|><|start|>assistant to=user"
     "<|message|>I look.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n"
     "<atem:invoke name=\"f\">\n<atem:parameter name=\"a\">1</atem:parameter>\n</atem:invoke>\n"
     "</atem:function_calls><|eom|><|start|>assistant to=g<|message|><atem:function_calls>"
     "<atem:invoke name=\"g\"></atem:invoke></atem:function_calls><|eot|>",
     "<R:I think of <atem:function_calls>.>I look.<C:f><A:{\"a\": 1}><C:g><A:{}>"},
    {"muse", "muse", " to=user<|message|>Say <atem:function_calls><|eot|>",
     "Say <atem:function_calls>"},
    {"muse", "muse", "to be plain", "to be plain"},
    {"muse", "muse",
     "<|message|>Hm.<|eom|><|start|>assistant to=developer<|message|>a note<|eom|><|start|>"
     "assistant to=commentary<|message|>I look.<|start|>assistant to=user<|message|>Yes.<|eot|>",
     "<R:Hm.>I look.Yes."},
    {"minimax_m3", "minimax_m3",
     MM "<tool_call>" MM "<invoke name=\"f\">" MM "<a>" MM "<b>1" MM "</b>" MM "<c>2" MM "</c>" MM
        "<b>3" MM "</b>" MM "</a>" MM "</invoke>" MM "</tool_call>",
     "<C:f><A:{\"a\": {\"b\": [1, 3], \"c\": 2}}>"},
    {"recipients", "recipients", "all\nI look. >>> 1\n>>>f\n{\"a\": \"x\"}>>>g\n{}",
     "I look. >>> 1\n<C:f><A:{\"a\": \"x\"}><C:g><A:{}>"},
    {"recipients", "recipients", "f\n{\"a\": \">>> 1 >>>g\"}>>>g\n{}",
     "<C:f><A:{\"a\": \">>> 1 >>>g\"}><C:g><A:{}>"},
    {"recipients", "recipients", "Hello\nworld", "Hello\nworld"},
    {"recipients", "recipients", "Hello", "Hello"},
    {"none", "recipients", "all\nHello", "Hello"},
    {"none", "recipients", "f\n{}", "f\n{}"},
};

static void says_the_same_however_it_comes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 120; step += step < 9 ? 1 : 11) {
            char *pieces = parse(cases[i].syntax, cases[i].format, cases[i].text, step);
            if (strcmp(pieces, cases[i].pieces) != 0)
                fail_msg("%s: %s\nin steps of %zu gives\n%s\nand not\n%s", cases[i].syntax,
                         cases[i].text, step, pieces, cases[i].pieces);
            free(pieces);
        }
}

static void finds_what_a_template_shows(void **state) {
    (void)state;
    static const struct {
        const char *text, *syntax, *format;
    } templates[] = {
        {"<|channel|>analysis<|message|>", "harmony", "harmony"},
        {"<|tool_call>call:{{ name }} <|channel>thought", "gemma4", "gemma"},
        {"[TOOL_CALLS]name[ARGS] [THINK]", "mistral_args", "mistral"},
        {"<|START_ACTION|> <|START_THINKING|>", "command", "command"},
        {"{{ 'DSML' }}function_calls> </think>", "deepseek_v32", "think"},
        {"<|tool_calls_section_begin|>", "kimi_k2", NULL},
        {"<|header_start|> {\"name\": \"parameters\": }", "llama3", NULL},
        {"<|start_header_id|> [func_name1(params_name1=", "pythonic", NULL},
        {"'<tool_calls{}>' '<think{}>' ':opensource' <tool_sep <arg_key", "hy_v3_open", "hunyuan"},
        {"<tool_sep> <arg_key> <tool_calls>", "hy_v3", NULL},
        {"<|tools_prefix|>", "apertus", NULL},
        {"<|open|> open_tag('tools') open_tag('think')", "kimi_k3", "kimi_k3"},
        {"<function name=\"f\"><param name=\"a\"> </think>", "minicpm5", "think"},
        {"<|tool_call:begin|> <|tool_call:args|>", "solar", NULL},
        {"function call <|role_sep|>", "gigachat3_role", NULL},
        {"<|function_call|> <|role_sep|>", "gigachat3", NULL},
        {"<beginning_of_sentence> <tool_calls>", "minimax_m1", NULL},
        {"]<]minimax[>[<tool_call> <mm:think> <invoke name=\"", "minimax_m3", "minimax_m3"},
        {"<atem:function_calls> to=self<|message|>", "muse", "muse"},
        {">>>${recipient} <function=", "recipients", "recipients"},
        {"<tool_calls> Here are my reasoning steps: [BEGIN FINAL RESPONSE]", "hunyuan", "apriel"},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        size_t n_bytes = strlen(templates[i].text);
        const ln_reasoning_format *format = ln_reasoning_detect(templates[i].text, n_bytes);
        assert_string_equal(ln_call_syntax_detect(templates[i].text, n_bytes)->name,
                            templates[i].syntax);
        assert_string_equal(format != NULL ? format->name : "",
                            templates[i].format != NULL ? templates[i].format : "");
    }
    for (size_t i = 0; ln_call_syntax_at(i) != NULL; i++)
        assert_ptr_equal(ln_call_syntax_find(ln_call_syntax_at(i)->name), ln_call_syntax_at(i));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_the_same_however_it_comes),
                                       cmocka_unit_test(finds_what_a_template_shows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
