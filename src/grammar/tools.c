/* Calls of tools: the syntax that a model was taught, around what each tool's
 * schema allows. */
#include <string.h>

#include "grammar/json_rules.h"
#include "grammar/sources.h"
#include "text/chat/tool_syntax.h"

typedef struct tools_reader {
    ln_grammar_builder *builder;
    ln_json_rules rules;
    ln_tool_syntax syntax;
    json_t *root;
    const char *wanted; /* NULL: any tool */
    ln_expr *calls;     /* a choice */
    size_t n_tools;
} tools_reader;

/* {"name": NAME, "arguments": ARGUMENTS} */
static ln_expr *call_object(tools_reader *t, const char *name, const char *key,
                            ln_expr *arguments) {
    ln_grammar_builder *b = t->builder;
    json_t *string = json_string(name);
    char *text = ln_json_dump(b, string);
    ln_expr *expr = ln_expr_sequence(b, ln_expr_text(b, "{\"name\": "),
                                     ln_expr_text(b, text != NULL ? text : ""),
                                     ln_expr_text(b, key), arguments, ln_expr_text(b, "}"), NULL);
    free(text);
    json_decref(string);
    return expr;
}

static ln_expr *read_call(tools_reader *t, const char *name, ln_expr *arguments) {
    ln_grammar_builder *b = t->builder;
    switch (t->syntax) {
    case LN_TOOLS_HERMES:
        return ln_expr_sequence(b, ln_expr_marker(b, "<tool_call>"), ln_expr_text(b, "\n"),
                                call_object(t, name, ", \"arguments\": ", arguments),
                                ln_expr_text(b, "\n"), ln_expr_marker(b, "</tool_call>"), NULL);
    case LN_TOOLS_DEEPSEEK:
        return ln_expr_sequence(b, ln_expr_marker(b, LN_DEEPSEEK_CALL("begin")),
                                ln_expr_text(b, "function"), ln_expr_marker(b, LN_DEEPSEEK_SEP),
                                ln_expr_text(b, name), ln_expr_text(b, "\n```json\n"), arguments,
                                ln_expr_text(b, "\n```"),
                                ln_expr_marker(b, LN_DEEPSEEK_CALL("end")), NULL);
    case LN_TOOLS_LLAMA3: return call_object(t, name, ", \"parameters\": ", arguments);
    case LN_TOOLS_MISTRAL:
    case LN_TOOLS_NONE:
    default: return call_object(t, name, ", \"arguments\": ", arguments);
    }
}

/* A name in a syntax that does not quote it. */
static bool is_plain_name(const char *name) {
    return name[0] != '\0' && strpbrk(name, "\n\r`{[<") == NULL;
}

static void read_tool(tools_reader *t, json_t *tool) {
    ln_grammar_builder *b = t->builder;
    json_t *function = json_object_get(tool, "function");
    function = function != NULL ? function : tool;
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *parameters = json_object_get(function, "parameters");
    if (name == NULL || !is_plain_name(name)) {
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT, "tools: a tool has no name, or not a plain one");
        return;
    }
    if (t->wanted != NULL && strcmp(t->wanted, name) != 0)
        return;
    t->n_tools++;
    uint32_t arguments = t->rules.object;
    if (parameters != NULL && !json_is_null(parameters))
        arguments = ln_schema_add(b, &t->rules, parameters, true);
    if (b->status == LINNET_OK)
        ln_expr_add(b, t->calls, read_call(t, name, ln_expr_rule(b, arguments)));
}

/* One call or more, with what comes around and between them. */
static ln_expr *frame(tools_reader *t, uint32_t call, bool parallel) {
    ln_grammar_builder *b = t->builder;
    const char *between = t->syntax == LN_TOOLS_LLAMA3 ? "; " : "\n";
    if (t->syntax == LN_TOOLS_MISTRAL)
        between = ", ";
    ln_expr *more = ln_expr_sequence(b, ln_expr_text(b, between), ln_expr_rule(b, call), NULL);
    ln_expr *calls = ln_expr_sequence(b, ln_expr_rule(b, call),
                                      ln_expr_repeat(b, more, 0, parallel ? LN_NO_LIMIT : 0), NULL);
    if (t->syntax == LN_TOOLS_MISTRAL)
        return ln_expr_sequence(b, ln_expr_marker(b, "[TOOL_CALLS]"),
                                ln_expr_optional(b, ln_expr_text(b, " ")), ln_expr_text(b, "["),
                                calls, ln_expr_text(b, "]"), NULL);
    if (t->syntax == LN_TOOLS_DEEPSEEK)
        return ln_expr_sequence(b, ln_expr_marker(b, LN_DEEPSEEK_CALLS("begin")), calls,
                                ln_expr_marker(b, LN_DEEPSEEK_CALLS("end")), NULL);
    return calls;
}

static void read_tools(tools_reader *t) {
    ln_grammar_builder *b = t->builder;
    json_t *tools = json_object_get(t->root, "tools"), *tool;
    const char *syntax = json_string_value(json_object_get(t->root, "syntax"));
    size_t i;
    t->wanted = json_string_value(json_object_get(t->root, "name"));
    t->calls = ln_expr_list(b, LN_EXPR_CHOICE);
    ln_json_rules_add(b, &t->rules);
    if (syntax == NULL || !ln_tool_syntax_find(syntax, &t->syntax) || t->syntax == LN_TOOLS_NONE) {
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT,
                        "tools: the syntax is none of hermes, llama3, mistral and deepseek");
        return;
    }
    json_array_foreach(tools, i, tool) {
        read_tool(t, tool);
    }
    if (t->n_tools == 0)
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT, "tools: there is no tool%s%.80s",
                        t->wanted != NULL ? " " : "", t->wanted != NULL ? t->wanted : "");
    if (b->status != LINNET_OK)
        return;
    uint32_t call = ln_json_rule(b, "a call", t->calls);
    bool parallel = json_is_true(json_object_get(t->root, "parallel"));
    b->root = ln_json_rule(b, "calls", frame(t, call, parallel));
}

ln_status ln_grammar_read_tools(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    tools_reader t = {.builder = builder};
    t.root = ln_grammar_parse_json(builder, text, n_bytes, "tools");
    if (t.root != NULL)
        read_tools(&t);
    json_decref(t.root);
    return builder->status;
}
