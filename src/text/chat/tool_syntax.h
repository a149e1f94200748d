/* How chat models write calls of tools, and that they think aloud: what a chat
 * template shows of it. */
#ifndef LN_TEXT_CHAT_TOOL_SYNTAX_H
#define LN_TEXT_CHAT_TOOL_SYNTAX_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum ln_tool_syntax {
    LN_TOOLS_NONE,    /* no calls */
    LN_TOOLS_HERMES,  /* <tool_call>{"name": ..., "arguments": ...}</tool_call> */
    LN_TOOLS_LLAMA3,  /* {"name": ..., "parameters": ...}, <|python_tag|> before it
                         or not */
    LN_TOOLS_MISTRAL, /* [TOOL_CALLS][{"name": ..., "arguments": ...}],
                         [TOOL_CALLS]name[ARGS]{...} */
    LN_TOOLS_DEEPSEEK /* <｜tool▁calls▁begin｜> ... <｜tool▁sep｜>name ... */
} ln_tool_syntax;

/* Whether an answer begins with what a model thinks aloud, between <think> and
 * </think>. */
typedef enum ln_reasoning {
    LN_REASONING_NONE = LINNET_REASONING_NONE,
    LN_REASONING_MAY_COME = LINNET_REASONING_MAY_COME, /* it may begin with <think> */
    LN_REASONING_OPEN = LINNET_REASONING_OPEN          /* the prompt ends with <think> */
} ln_reasoning;

/* The markers of DeepSeek's syntax. */
#define LN_DEEPSEEK_CALLS(what)                                                                    \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "calls\xe2\x96\x81" what "\xef\xbd\x9c>"
#define LN_DEEPSEEK_CALL(what)                                                                     \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "call\xe2\x96\x81" what "\xef\xbd\x9c>"
#define LN_DEEPSEEK_SEP "<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>"

#define LN_THINK_BEGIN "<think>"
#define LN_THINK_END   "</think>"

/* The syntax that a chat template's text speaks of. */
ln_tool_syntax ln_tool_syntax_detect(const char *chat_template, size_t n_bytes);
/* By name ("hermes", "llama3", "mistral", "deepseek", "none"); false when there
 * is none such. */
bool ln_tool_syntax_find(const char *name, ln_tool_syntax *syntax);
const char *ln_tool_syntax_name(ln_tool_syntax syntax);

/* The text that begins calls; NULL for NONE. */
const char *ln_tool_syntax_marker(ln_tool_syntax syntax);
/* All texts of the syntax that a vocabulary may have as special tokens; ends
 * with NULL. Static storage. */
const char *const *ln_tool_syntax_markers(ln_tool_syntax syntax);

/* Whether a template's model thinks aloud, */
bool ln_chat_template_reasons(const char *chat_template, size_t n_bytes);
/* and how the answer to a rendered prompt of such a model begins: within a
 * <think> that the prompt ends with, after a </think>, or perhaps with one. */
ln_reasoning ln_chat_prompt_reasoning(const char *prompt, size_t n_bytes);

#endif
