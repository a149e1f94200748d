#include "text/chat/calls/call_syntax.h"

#include <string.h>

/* DeepSeek's tokens have a wide bar and a low block in them. */
#define BAR         "\xef\xbd\x9c"
#define LOW         "\xe2\x96\x81"
#define CALLS(what) "<" BAR "tool" LOW "calls" LOW what BAR ">"
#define CALL(what)  "<" BAR "tool" LOW "call" LOW what BAR ">"
#define SEP         "<" BAR "tool" LOW "sep" BAR ">"
#define STEP(what)  "<" BAR what BAR ">"
#define HY(what)    "<" what ":opensource>"
#define DSML        BAR "DSML" BAR
#define MM          "]<]minimax[>["

#define JSON_KEYS .name_key = "name", .arguments_key = "arguments"

static const ln_call_syntax syntaxes[] = {
    {"hermes", LN_CALLS_JSON, "<tool_call>", "</tool_call>", JSON_KEYS, .once = true, .line = "\n",
     .between = "\n"},
    {"llama3", LN_CALLS_JSON, "<|python_tag|>", .also = {"{\"name\"", "{ \"name\""}, .bare = true,
     .name_key = "name", .arguments_key = "parameters", .between = "; "},
    {"mistral", LN_CALLS_JSON, "[TOOL_CALLS]", .name_end = "[ARGS]", JSON_KEYS, .in_list = true,
     .between = ", "},
    {"mistral_args", LN_CALLS_NAMED, "[TOOL_CALLS]", .name_end = "[ARGS]", .once = true},
    {"deepseek", LN_CALLS_NAMED, CALLS("begin"), CALLS("end"), .call = CALL("begin"),
     .call_end = CALL("end"), .name_end = SEP, .type = "function", .between = "\n"},
    {"deepseek_v31", LN_CALLS_NAMED, CALLS("begin"), CALLS("end"), .call = CALL("begin"),
     .call_end = CALL("end"), .name_end = SEP},
    {"deepseek_v32", LN_CALLS_TAGGED, "<" DSML "function_calls>", "</" DSML "function_calls>",
     .also = {"<" DSML "invoke name=\""}, .call = "<" DSML "invoke name=\"", .name_end = "\">",
     .key = "<" DSML "parameter name=\"", .key_end = ">", .value_end = "</" DSML "parameter>",
     .call_end = "</" DSML "invoke>", .flag = "\" string=\"", .line = "\n", .ends_thinking = true},
    {"deepseek_v4", LN_CALLS_TAGGED, "<" DSML "tool_calls>", "</" DSML "tool_calls>",
     .also = {"<" DSML "invoke name=\""}, .call = "<" DSML "invoke name=\"", .name_end = "\">",
     .key = "<" DSML "parameter name=\"", .key_end = ">", .value_end = "</" DSML "parameter>",
     .call_end = "</" DSML "invoke>", .flag = "\" string=\"", .line = "\n", .ends_thinking = true},
    {"kimi_k2", LN_CALLS_NAMED, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
     .also = {"<|tool_call_section_begin|>", "<|tool_call_begin|>"}, .call = "<|tool_call_begin|>",
     .call_end = "<|tool_call_end|>", .name_end = "<|tool_call_argument_begin|>",
     .prefix = "functions.", .counts = true, .ends_thinking = true},
    {"qwen3_coder", LN_CALLS_TAGGED, "<tool_call>", "</tool_call>", .also = {"<function="},
     .call = "<function=", .name_end = ">", .key = "<parameter=", .key_end = ">",
     .value_end = "</parameter>", .call_end = "</function>", .once = true, .line = "\n",
     .value_line = "\n", .between = "\n", .ends_thinking = true},
    {"glm4", LN_CALLS_TAGGED, "<tool_call>", "</tool_call>", .name_end = "\n", .key = "<arg_key>",
     .key_end = "</arg_key>", .value = "<arg_value>", .value_end = "</arg_value>", .once = true,
     .line = "\n", .between = "\n", .ends_thinking = true},
    {"minimax", LN_CALLS_TAGGED, "<minimax:tool_call>", "</minimax:tool_call>",
     .call = "<invoke name=\"", .name_end = "\">", .key = "<parameter name=\"", .key_end = "\">",
     .value_end = "</parameter>", .call_end = "</invoke>", .line = "\n", .between = "\n"},
    {"minimax_m3", LN_CALLS_TAGGED, MM "<tool_call>", MM "</tool_call>",
     .call = MM "<invoke name=\"", .name_end = "\">", .key = MM "<", .key_end = ">",
     .call_end = MM "</invoke>", .mark = MM, .line = "\n", .nested = true},
    {"seed_oss", LN_CALLS_TAGGED, "<seed:tool_call>", "</seed:tool_call>", .call = "<function=",
     .name_end = ">", .key = "<parameter=", .key_end = ">", .value_end = "</parameter>",
     .call_end = "</function>", .once = true, .line = "\n", .between = "\n"},
    {"muse", LN_CALLS_TAGGED, "<atem:function_calls>", "</atem:function_calls>",
     .call = "<atem:invoke name=\"", .name_end = "\">", .key = "<atem:parameter name=\"",
     .key_end = "\">", .value_end = "</atem:parameter>", .call_end = "</atem:invoke>", .line = "\n",
     .address = " to=", .address_end = "<|message|>", .between = "<|eom|><|start|>assistant"},
    {"dots", LN_CALLS_TAGGED, "<dots_function_call>", "</dots_function_call>",
     .call = "<invoke name=\"", .name_end = "\">", .key = "<parameter name=\"", .key_end = "\">",
     .value_end = "</parameter>", .call_end = "</invoke>", .line = "\n", .between = "\n"},
    {"step3", LN_CALLS_TAGGED, STEP("tool_calls_begin"), STEP("tool_calls_end"),
     .call = STEP("tool_call_begin") "function" STEP("tool_sep") "<steptml:invoke name=\"",
     .name_end = "\">", .key = "<steptml:parameter name=\"", .key_end = "\">",
     .value_end = "</steptml:parameter>", .call_end = "</steptml:invoke>" STEP("tool_call_end")},
    {"hy_v3", LN_CALLS_TAGGED, "<tool_calls>", "</tool_calls>", .call = "<tool_call>",
     .name_end = "<tool_sep>", .key = "<arg_key>", .key_end = "</arg_key>", .value = "<arg_value>",
     .value_end = "</arg_value>", .call_end = "</tool_call>", .line = "\n"},
    {"hy_v3_open", LN_CALLS_TAGGED, HY("tool_calls"), HY("/tool_calls"), .call = HY("tool_call"),
     .name_end = HY("tool_sep"), .key = HY("arg_key"), .key_end = HY("/arg_key"),
     .value = HY("arg_value"), .value_end = HY("/arg_value"), .call_end = HY("/tool_call"),
     .line = "\n"},
    {"minicpm5", LN_CALLS_TAGGED, "<function name=\"", .call = "<function name=\"",
     .name_end = "\">", .key = "<param name=\"", .key_end = "\">", .value_end = "</param>",
     .call_end = "</function>", .cdata = true},
    {"kimi_k3", LN_CALLS_TAGGED, "<|open|>tools<|sep|>", "<|close|>tools<|sep|>",
     .call = "<|open|>call tool=\"", .number = "\" index=\"", .name_end = "<|sep|>",
     .key = "<|open|>argument key=\"", .flag = "\" type=\"", .flag_text = "string",
     .key_end = "<|sep|>", .value_end = "<|close|>argument<|sep|>",
     .call_end = "<|close|>call<|sep|>"},
    {"solar", LN_CALLS_NAMED, "<|tool_calls|>", .call = "<|tool_call:begin|>",
     .call_end = "<|tool_call:end|>", .id_end = "<|tool_call:name|>",
     .name_end = "<|tool_call:args|>"},
    {"apertus", LN_CALLS_JSON, "<|tools_prefix|>", "<|tools_suffix|>", .in_list = true,
     .between = ", ", .keyed = true},
    {"gigachat3", LN_CALLS_JSON, "<|function_call|>", "<|message_sep|>",
     .also = {"function call<|role_sep|>", "<|message_sep|>\n\nfunction call<|role_sep|>"},
     JSON_KEYS, .once = true},
    {"gigachat3_role", LN_CALLS_JSON, "function call<|role_sep|>", "<|message_sep|>",
     .also = {"<|message_sep|>\n\nfunction call<|role_sep|>"}, JSON_KEYS, .once = true,
     .line = "\n"},
    {"minimax_m1", LN_CALLS_JSON, "<tool_calls>", "</tool_calls>", JSON_KEYS, .line = "\n",
     .between = "\n"},
    {"xlam", LN_CALLS_JSON, "[TOOL_CALLS]", "</tool_call>", .also = {"```json", "<tool_call>"},
     .call_end = "```", JSON_KEYS, .in_list = true, .between = ", ", .bare = true},
    {"granite", LN_CALLS_JSON, "<|tool_call|>", .also = {"<tool_call>"}, JSON_KEYS, .in_list = true,
     .between = ", "},
    {"granite_fc", LN_CALLS_JSON, "<function_call>", JSON_KEYS, .once = true, .between = " "},
    {"phi4_mini", LN_CALLS_JSON, "<|tool_call|>", "<|/tool_call|>", .also = {"functools"},
     JSON_KEYS, .in_list = true, .between = ", "},
    {"firefunction", LN_CALLS_JSON, "functools", JSON_KEYS, .in_list = true, .between = ", "},
    {"hunyuan", LN_CALLS_JSON, "<tool_calls>", "</tool_calls>", JSON_KEYS, .in_list = true,
     .between = ", "},
    {"nemotron", LN_CALLS_JSON, "<TOOLCALL>", "</TOOLCALL>", JSON_KEYS, .in_list = true,
     .between = ", "},
    {"command", LN_CALLS_JSON, "<|START_ACTION|>", "<|END_ACTION|>", .name_key = "tool_name",
     .arguments_key = "parameters", .in_list = true, .between = ", "},
    {"command_r", LN_CALLS_JSON, "Action:", .call = "```json", .call_end = "```",
     .name_key = "tool_name", .arguments_key = "parameters", .in_list = true, .between = ", "},
    {"internlm2", LN_CALLS_JSON, "<|action_start|><|plugin|>", "<|action_end|>",
     .also = {"<|action_start|> <|plugin|>"}, .name_key = "name", .arguments_key = "parameters",
     .once = true},
    {"longcat", LN_CALLS_JSON, "<longcat_tool_call>", "</longcat_tool_call>", JSON_KEYS,
     .once = true, .between = "\n"},
    {"functionary", LN_CALLS_NAMED, "<function=", "</function>", .name_end = ">", .once = true},
    {"recipients", LN_CALLS_RECIPIENT, ">>>", .name_end = "\n", .between = ">>>"},
    {"gemma4", LN_CALLS_GEMMA, "<|tool_call>", "<tool_call|>", .call = "call:", .quote = "<|\"|>",
     .once = true},
    {"functiongemma", LN_CALLS_GEMMA, "<start_function_call>", "<end_function_call>",
     .call = "call:", .quote = "<escape>", .once = true},
    {"pythonic", LN_CALLS_PYTHON, "<|python_start|>", "<|python_end|>", .also = {"<|python_tag|>"},
     .in_list = true, .between = ", ", .bare = true},
    {"lfm2", LN_CALLS_PYTHON, "<|tool_call_start|>", "<|tool_call_end|>", .in_list = true,
     .between = ", "},
    {"olmo3", LN_CALLS_PYTHON, "<function_calls>", "</function_calls>", .between = "\n"},
    {"harmony", LN_CALLS_HARMONY, "<|channel|>", "<|return|>", .call = "<|start|>",
     .name_end = "<|message|>", .key_end = "<|constrain|>", .value_end = "<|end|>",
     .call_end = "<|call|>"},
};

enum { N_SYNTAXES = sizeof syntaxes / sizeof *syntaxes };

/* What a template that writes in a syntax has in it: all of these. The most special ones come
 * first, as a template may show parts of several. */
static const struct {
    const char *shown[3], *name;
} templates[] = {
    {{"DSML", "tool_calls>"}, "deepseek_v4"},
    {{"DSML"}, "deepseek_v32"},
    {{MM, "<mm:think>"}, "minimax_m3"},
    {{"<minimax:tool_call>", "<invoke name=\""}, "minimax"},
    {{"<|tools_prefix|>"}, "apertus"},
    {{"<tool_calls{}>", ":opensource"}, "hy_v3_open"},
    {{"<tool_sep", "<arg_key"}, "hy_v3"},
    {{"<atem:function_calls>"}, "muse"},
    {{"<dots_function_call>"}, "dots"},
    {{"<steptml:invoke"}, "step3"},
    {{"<function name=\"", "<param name=\""}, "minicpm5"},
    {{"<|open|>", "open_tag('tools')"}, "kimi_k3"},
    {{"<|tool_call:begin|>", "<|tool_call:args|>"}, "solar"},
    {{"<|function_call|>", "<|role_sep|>"}, "gigachat3"},
    {{"function call", "<|role_sep|>"}, "gigachat3_role"},
    {{"<beginning_of_sentence>", "<tool_calls>"}, "minimax_m1"},
    {{"\"tool_call_name\"", "JSON array"}, "xlam"},
    {{"<seed:tool_call>", "<function="}, "seed_oss"},
    {{"<tool_call>", "<arg_key>"}, "glm4"},
    {{"<tool_call>", "<function=", "<parameter="}, "qwen3_coder"},
    {{"<|tool_calls_section_begin|>"}, "kimi_k2"},
    {{"<|channel|>", "<|message|>"}, "harmony"},
    {{"<|tool_call>", "call:"}, "gemma4"},
    {{"<start_function_call>"}, "functiongemma"},
    {{"<|START_ACTION|>"}, "command"},
    {{"<TOOLCALL>"}, "nemotron"},
    {{"<longcat_tool_call>"}, "longcat"},
    {{"<|tool_call_start|>"}, "lfm2"},
    {{"<|tool_list_start|>"}, "lfm2"},
    {{"<function_calls>"}, "olmo3"},
    {{"<|tool_call|>", "<|start_of_role|>"}, "granite"},
    {{"<|tool|>", "<|/tool|>"}, "phi4_mini"},
    {{"<function_call>", "<|start_of_role|>"}, "granite_fc"},
    {{"<tool_calls>"}, "hunyuan"},
    {{"<tool_call>"}, "hermes"},
    {{"[TOOL_CALLS]", "[ARGS]"}, "mistral_args"},
    {{"[TOOL_CALLS]"}, "mistral"},
    {{CALLS("begin"), "```json"}, "deepseek"},
    {{CALLS("begin")}, "deepseek_v31"},
    {{"<|action_start|>"}, "internlm2"},
    {{">>>${recipient}"}, "recipients"},
    {{"functools"}, "firefunction"},
    {{"Action:", "tool_name"}, "command_r"},
    {{"<function="}, "functionary"},
    {{"<function_call>"}, "granite_fc"},
    {{"func_name1("}, "pythonic"},
    {{"<|python_tag|>"}, "llama3"},
    {{"<|start_header_id|>", "\"parameters\": "}, "llama3"},
    {{"<|header_start|>", "\"parameters\": "}, "llama3"},
};

static bool contains(const char *text, size_t n_bytes, const char *part) {
    return part == NULL || memmem(text, n_bytes, part, strlen(part)) != NULL;
}

const ln_call_syntax *ln_call_syntax_detect(const char *chat_template, size_t n_bytes) {
    if (chat_template == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (contains(chat_template, n_bytes, templates[i].shown[0]) &&
            contains(chat_template, n_bytes, templates[i].shown[1]) &&
            contains(chat_template, n_bytes, templates[i].shown[2]))
            return ln_call_syntax_find(templates[i].name);
    return NULL;
}

const ln_call_syntax *ln_call_syntax_find(const char *name) {
    for (size_t i = 0; i < N_SYNTAXES; i++)
        if (strcmp(name, syntaxes[i].name) == 0)
            return &syntaxes[i];
    return NULL;
}

const ln_call_syntax *ln_call_syntax_at(size_t index) {
    return index < N_SYNTAXES ? &syntaxes[index] : NULL;
}

size_t ln_call_syntax_markers(const ln_call_syntax *syntax,
                              const char *markers[LN_CALLS_MAX_MARKERS]) {
    const char *const all[LN_CALLS_MAX_MARKERS] = {
        syntax->begin,   syntax->end,     syntax->call,   syntax->call_end,  syntax->name_end,
        syntax->key,     syntax->key_end, syntax->value,  syntax->value_end, syntax->quote,
        syntax->also[0], syntax->also[1], syntax->id_end, syntax->mark};
    size_t n = 0;
    for (size_t i = 0; i < LN_CALLS_MAX_MARKERS; i++)
        if (all[i] != NULL && strlen(all[i]) > 1)
            markers[n++] = all[i];
    return n;
}

size_t ln_call_syntax_begins(const ln_call_syntax *syntax,
                             const char *begins[LN_CALLS_MAX_ALSO + 1]) {
    size_t n = 0;
    begins[n++] = syntax->begin;
    for (size_t i = 0; i < LN_CALLS_MAX_ALSO; i++)
        if (syntax->also[i] != NULL)
            begins[n++] = syntax->also[i];
    return n;
}
