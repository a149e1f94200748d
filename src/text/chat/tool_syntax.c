#include "text/chat/tool_syntax.h"

#include <string.h>

static const char *const names[] = {"none", "hermes", "llama3", "mistral", "deepseek"};

const char *ln_tool_syntax_name(ln_tool_syntax syntax) {
    return names[syntax];
}

bool ln_tool_syntax_find(const char *name, ln_tool_syntax *syntax) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *syntax = (ln_tool_syntax)i;
        return true;
    }
    return false;
}

static bool contains(const char *text, size_t n_bytes, const char *part) {
    return memmem(text, n_bytes, part, strlen(part)) != NULL;
}

ln_tool_syntax ln_tool_syntax_detect(const char *chat_template, size_t n_bytes) {
    if (contains(chat_template, n_bytes, "<tool_call>"))
        return LN_TOOLS_HERMES;
    if (contains(chat_template, n_bytes, "[TOOL_CALLS]"))
        return LN_TOOLS_MISTRAL;
    if (contains(chat_template, n_bytes, LN_DEEPSEEK_CALLS("begin")))
        return LN_TOOLS_DEEPSEEK;
    if (contains(chat_template, n_bytes, "<function="))
        return LN_TOOLS_NONE; /* functionary's own */
    if (contains(chat_template, n_bytes, "<|python_tag|>") ||
        (contains(chat_template, n_bytes, "<|start_header_id|>") &&
         contains(chat_template, n_bytes, "\"parameters\": ")))
        return LN_TOOLS_LLAMA3;
    return LN_TOOLS_NONE;
}

/* The first is the one that begins calls. */
const char *const *ln_tool_syntax_markers(ln_tool_syntax syntax) {
    static const char *const none[] = {NULL};
    static const char *const hermes[] = {"<tool_call>", "</tool_call>", NULL};
    static const char *const llama3[] = {"<|python_tag|>", NULL};
    static const char *const mistral[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", NULL};
    static const char *const deepseek[] = {
        LN_DEEPSEEK_CALLS("begin"), LN_DEEPSEEK_CALLS("end"), LN_DEEPSEEK_CALL("begin"),
        LN_DEEPSEEK_CALL("end"),    LN_DEEPSEEK_SEP,          NULL};
    static const char *const *const markers[] = {none, hermes, llama3, mistral, deepseek};
    return markers[syntax];
}

const char *ln_tool_syntax_marker(ln_tool_syntax syntax) {
    return ln_tool_syntax_markers(syntax)[0];
}

bool ln_chat_template_reasons(const char *chat_template, size_t n_bytes) {
    return contains(chat_template, n_bytes, LN_THINK_BEGIN) ||
           contains(chat_template, n_bytes, LN_THINK_END);
}

static bool ends_with(const char *text, size_t n_bytes, const char *part) {
    size_t n_part = strlen(part);
    return n_bytes >= n_part && memcmp(text + n_bytes - n_part, part, n_part) == 0;
}

ln_reasoning ln_chat_prompt_reasoning(const char *prompt, size_t n_bytes) {
    while (n_bytes > 0 && strchr(" \n\r\t", prompt[n_bytes - 1]) != NULL)
        n_bytes--;
    if (ends_with(prompt, n_bytes, LN_THINK_BEGIN))
        return LN_REASONING_OPEN;
    return ends_with(prompt, n_bytes, LN_THINK_END) ? LN_REASONING_NONE : LN_REASONING_MAY_COME;
}
