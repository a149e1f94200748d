/* Calls of tools: the syntax that a model was taught (text/chat/calls/call_syntax.h), around what
 * each tool's schema allows. */
#include <string.h>

#include "base/json/value.h"
#include "grammar/json_rules.h"
#include "grammar/language.h"
#include "grammar/sources.h"
#include "grammar/tool_arguments.h"
#include "text/chat/reasoning.h"

typedef struct tools_reader {
    ln_grammar_builder *builder;
    ln_json_rules rules;
    const ln_call_syntax *syntax;
    json_t *root;
    const char *wanted; /* NULL: any tool */
    ln_expr *calls;     /* a choice */
    size_t n_tools;
} tools_reader;

static ln_expr *marked(tools_reader *t, const char *text) {
    return ln_tool_text(t->builder, t->syntax, text);
}

/* A line break that models write or not. */
static ln_expr *line(tools_reader *t, const char *text) {
    ln_grammar_builder *b = t->builder;
    return text != NULL ? ln_expr_optional(b, ln_expr_text(b, text)) : ln_expr_empty(b);
}

/* {"name": NAME, "arguments": ARGUMENTS} */
static ln_expr *json_call(tools_reader *t, const char *name, ln_expr *arguments) {
    ln_grammar_builder *b = t->builder;
    json_t *string = json_string(name);
    char *text = ln_json_dump(b, string);
    ln_expr *expr =
        t->syntax->keyed
            ? ln_expr_sequence(b, ln_expr_text(b, "{"), ln_expr_text(b, text != NULL ? text : ""),
                               ln_expr_text(b, ": "), arguments, ln_expr_text(b, "}"), NULL)
            : ln_expr_sequence(b, ln_expr_text(b, "{\""), ln_expr_text(b, t->syntax->name_key),
                               ln_expr_text(b, "\": "), ln_expr_text(b, text != NULL ? text : ""),
                               ln_expr_text(b, ", \""), ln_expr_text(b, t->syntax->arguments_key),
                               ln_expr_text(b, "\": "), arguments, ln_expr_text(b, "}"), NULL);
    free(text);
    json_decref(string);
    return expr;
}

/* The name, then arguments in JSON; DeepSeek V3 has a type before it, and a fence. */
static ln_expr *named_call(tools_reader *t, const char *name, ln_expr *arguments) {
    ln_grammar_builder *b = t->builder;
    const ln_call_syntax *s = t->syntax;
    const ln_range digits = {'0', '9'}, letters[] = {{'-', '-'}, {'0', '9'}, {'a', 'z'}};
    if (s->type != NULL)
        return ln_expr_sequence(b, marked(t, s->call), ln_expr_text(b, s->type),
                                marked(t, s->name_end), ln_expr_text(b, name),
                                ln_expr_text(b, "\n```json\n"), arguments, ln_expr_text(b, "\n```"),
                                marked(t, s->call_end), NULL);
    ln_expr *number = ln_expr_empty(b), *id = ln_expr_empty(b);
    if (s->counts)
        number =
            ln_expr_sequence(b, ln_expr_text(b, ":"),
                             ln_expr_repeat(b, ln_expr_chars(b, &digits, 1, false), 1, 3), NULL);
    if (s->id_end != NULL)
        id = ln_expr_sequence(b, ln_expr_repeat(b, ln_expr_chars(b, letters, 3, false), 1, 40),
                              marked(t, s->id_end), NULL);
    return ln_expr_sequence(b, marked(t, s->call), id, marked(t, s->prefix), ln_expr_text(b, name),
                            number, marked(t, s->name_end), arguments, marked(t, s->call_end),
                            NULL);
}

static ln_expr *harmony_call(tools_reader *t, const char *name, ln_expr *arguments) {
    ln_grammar_builder *b = t->builder;
    return ln_expr_sequence(b, marked(t, "<|channel|>commentary to=functions."),
                            ln_expr_text(b, name), marked(t, " <|constrain|>json<|message|>"),
                            arguments, ln_expr_optional(b, marked(t, "<|call|>")), NULL);
}

/* Arguments one by one. */
static ln_expr *written_call(tools_reader *t, const char *name, json_t *schema, bool is_custom) {
    ln_grammar_builder *b = t->builder;
    const ln_call_syntax *s = t->syntax;
    const char *open = "(", *close = ")";
    ln_expr *arguments = ln_tool_arguments(b, &t->rules, s, schema, is_custom);
    if (s->form == LN_CALLS_GEMMA)
        open = "{", close = "}";
    ln_expr *number = ln_expr_empty(b);
    const ln_range digits = {'0', '9'};
    if (s->number != NULL)
        number = ln_expr_sequence(b, ln_expr_text(b, s->number),
                                  ln_expr_repeat(b, ln_expr_chars(b, &digits, 1, false), 1, 3),
                                  ln_expr_text(b, "\""), NULL);
    if (s->address != NULL)
        return ln_expr_sequence(b, ln_expr_text(b, s->address), ln_expr_text(b, name),
                                marked(t, s->address_end), marked(t, s->begin), line(t, s->line),
                                marked(t, s->call), ln_expr_text(b, name), marked(t, s->name_end),
                                line(t, s->line), arguments, marked(t, s->call_end),
                                line(t, s->line), marked(t, s->end), NULL);
    if (s->form == LN_CALLS_TAGGED)
        return ln_expr_sequence(b, marked(t, s->call), ln_expr_text(b, name), number,
                                marked(t, s->name_end), line(t, s->line), arguments,
                                marked(t, s->call_end),
                                line(t, s->call_end != NULL ? s->line : NULL), NULL);
    return ln_expr_sequence(b, marked(t, s->call), ln_expr_text(b, name), ln_expr_text(b, open),
                            arguments, ln_expr_text(b, close), NULL);
}

/* Whether the tool is one whose input is free text. */
static bool is_custom(const tools_reader *t, const char *name) {
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(t->root, "custom"), i, item) {
        if (ln_json_is(item, name))
            return true;
    }
    return false;
}

/* Arguments in JSON; those of a custom tool are its input alone. */
static ln_expr *json_arguments(tools_reader *t, const char *name, json_t *schema) {
    ln_grammar_builder *b = t->builder;
    const json_t *input = json_object_get(json_object_get(schema, "properties"), "input");
    const json_t *grammar = is_custom(t, name) ? json_object_get(input, "grammar") : NULL;
    if (grammar != NULL)
        return ln_expr_sequence(b, ln_expr_text(b, "{\"input\": \""),
                                ln_tool_input(b, grammar, true), ln_expr_text(b, "\"}"), NULL);
    uint32_t rule = t->rules.object;
    if (json_is_object(schema))
        rule = ln_schema_add(b, &t->rules, schema, true);
    return b->status == LINNET_OK ? ln_expr_rule(b, rule) : ln_expr_empty(b);
}

static ln_expr *read_call(tools_reader *t, const char *name, json_t *schema) {
    ln_grammar_builder *b = t->builder;
    ln_call_form form = t->syntax->form;
    if (form == LN_CALLS_TAGGED || form == LN_CALLS_PYTHON || form == LN_CALLS_GEMMA)
        return written_call(t, name, schema, is_custom(t, name));
    ln_expr *arguments = json_arguments(t, name, schema);
    if (b->status != LINNET_OK)
        return ln_expr_empty(b);
    if (form == LN_CALLS_NAMED)
        return named_call(t, name, arguments);
    if (form == LN_CALLS_HARMONY)
        return harmony_call(t, name, arguments);
    if (form == LN_CALLS_RECIPIENT)
        return ln_expr_sequence(b, ln_expr_text(b, name), ln_expr_text(b, t->syntax->name_end),
                                arguments, NULL);
    return json_call(t, name, arguments);
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
    if (name == NULL || !is_plain_name(name)) {
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT, "tools: a tool has no name, or not a plain one");
        return;
    }
    if (t->wanted != NULL && strcmp(t->wanted, name) != 0)
        return;
    t->n_tools++;
    ln_expr *call = read_call(t, name, json_object_get(function, "parameters"));
    if (b->status == LINNET_OK)
        ln_expr_add(b, t->calls, call);
}

/* One call or more, with what comes around and between them. */
static ln_expr *frame(tools_reader *t, uint32_t call, bool parallel) {
    ln_grammar_builder *b = t->builder;
    const ln_call_syntax *s = t->syntax;
    bool is_framed = s->address != NULL || s->form == LN_CALLS_RECIPIENT; /* call by call */
    bool has_frame = !s->bare && s->form != LN_CALLS_HARMONY && !is_framed;
    ln_expr *one = ln_expr_rule(b, call), *other = ln_expr_rule(b, call);
    if (s->form == LN_CALLS_HARMONY)
        return one; /* a turn ends with its call */
    ln_expr *between = marked(t, s->between);
    if (s->once && has_frame) {
        const char *around = s->form == LN_CALLS_JSON || s->call != NULL ? s->line : NULL;
        one = ln_expr_sequence(b, marked(t, s->begin), line(t, around), one,
                               line(t, s->form == LN_CALLS_JSON ? s->line : NULL),
                               marked(t, s->end), NULL);
        other = ln_expr_sequence(b, marked(t, s->begin), line(t, around), other,
                                 line(t, s->form == LN_CALLS_JSON ? s->line : NULL),
                                 marked(t, s->end), NULL);
    }
    ln_expr *more = ln_expr_sequence(b, s->once ? line(t, s->between) : between, other, NULL);
    ln_expr *calls =
        ln_expr_sequence(b, one, ln_expr_repeat(b, more, 0, parallel ? LN_NO_LIMIT : 0), NULL);
    if (s->in_list)
        calls = ln_expr_sequence(b, ln_expr_text(b, "["), calls, ln_expr_text(b, "]"), NULL);
    if (!has_frame || s->once)
        return calls;
    bool is_fenced = s->form == LN_CALLS_JSON && s->call != NULL;
    ln_expr *space = ln_expr_optional(b, ln_expr_text(b, is_fenced ? "\n" : " "));
    bool has_line = s->form != LN_CALLS_JSON || s->line != NULL;
    ln_expr *before = has_line ? line(t, s->line) : space;
    ln_expr *after = line(t, s->form == LN_CALLS_JSON ? s->line : NULL);
    if (is_fenced)
        calls = ln_expr_sequence(b, ln_expr_text(b, s->call), ln_expr_text(b, "\n"), calls,
                                 ln_expr_text(b, "\n"), ln_expr_text(b, s->call_end), NULL);
    bool is_own = s->call != NULL && strcmp(s->begin, s->call) == 0;
    return ln_expr_sequence(b, marked(t, is_own ? NULL : s->begin), before, calls, after,
                            marked(t, s->end), NULL);
}

/* What begins a call in a syntax whose calls may stand there without `begin`. */
static void add_bare_begins(tools_reader *t, ln_expr *begins) {
    ln_grammar_builder *b = t->builder;
    const json_t *tool;
    size_t i;
    if (t->syntax->form == LN_CALLS_JSON)
        ln_expr_add(b, begins,
                    ln_expr_sequence(b, ln_expr_text(b, "{\""),
                                     ln_expr_text(b, t->syntax->name_key), ln_expr_text(b, "\""),
                                     NULL));
    json_array_foreach(json_object_get(t->root, "tools"), i, tool) {
        const json_t *function = json_object_get(tool, "function");
        const json_t *name = json_object_get(function != NULL ? function : tool, "name");
        if (t->syntax->form == LN_CALLS_PYTHON)
            ln_expr_add(b, begins,
                        ln_expr_sequence(b, ln_expr_text(b, "["),
                                         ln_expr_text(b, json_string_value(name)),
                                         ln_expr_text(b, "("), NULL));
    }
}

/* Text in which no call begins. */
static ln_expr *text_without_calls(tools_reader *t) {
    ln_grammar_builder *b = t->builder;
    const char *texts[LN_CALLS_MAX_ALSO + 1];
    size_t n_texts = ln_call_syntax_begins(t->syntax, texts);
    ln_expr *begins = ln_expr_list(b, LN_EXPR_CHOICE);
    for (size_t i = 0; i < n_texts; i++)
        ln_expr_add(b, begins, ln_expr_text(b, texts[i]));
    if (t->syntax->bare)
        add_bare_begins(t, begins);
    ln_expr *with = ln_expr_sequence(b, ln_expr_any(b, 0, LN_NO_LIMIT), begins,
                                     ln_expr_any(b, 0, LN_NO_LIMIT), NULL);
    const ln_dfa *text = ln_language_minus(b, ln_language_of(b, ln_expr_any(b, 0, LN_NO_LIMIT)),
                                           ln_language_of(b, with));
    return ln_expr_rule(b,
                        ln_rule_add_terminal(b, "text without calls", ln_language_expr(b, text)));
}

/* Messages that others follow, then one of text, or the call. */
static ln_expr *harmony_turn(tools_reader *t, ln_expr *call) {
    ln_grammar_builder *b = t->builder;
    ln_expr *channel =
        ln_expr_choice(b, ln_expr_text(b, "analysis"), ln_expr_text(b, "commentary"), NULL);
    ln_expr *message =
        ln_expr_sequence(b, marked(t, "<|channel|>"), channel, marked(t, "<|message|>"),
                         ln_expr_text_without(b, "<|end|>", 0, LN_NO_LIMIT),
                         marked(t, "<|end|><|start|>assistant"), NULL);
    ln_expr *text = ln_expr_sequence(b, marked(t, "<|channel|>final<|message|>"),
                                     ln_expr_text_without(b, "<|end|>", 0, LN_NO_LIMIT), NULL);
    return ln_expr_sequence(b, ln_expr_repeat(b, message, 0, LN_NO_LIMIT),
                            ln_expr_choice(b, text, call, NULL), NULL);
}

/* An answer that need not call: text, and calls behind it; bare calls are all of an answer. */
static ln_expr *free_answer(tools_reader *t, ln_expr *calls) {
    ln_grammar_builder *b = t->builder;
    if (t->syntax->form == LN_CALLS_HARMONY)
        return harmony_turn(t, calls);
    ln_expr *text = text_without_calls(t);
    if (t->syntax->bare)
        return ln_expr_choice(b, text, calls, NULL);
    return ln_expr_sequence(b, text, ln_expr_optional(b, calls), NULL);
}

static void read_tools(tools_reader *t) {
    ln_grammar_builder *b = t->builder;
    json_t *tools = json_object_get(t->root, "tools"), *tool;
    const char *syntax = json_string_value(json_object_get(t->root, "syntax"));
    size_t i;
    t->wanted = json_string_value(json_object_get(t->root, "name"));
    t->calls = ln_expr_list(b, LN_EXPR_CHOICE);
    ln_json_rules_add(b, &t->rules);
    t->syntax = syntax != NULL ? ln_call_syntax_find(syntax) : NULL;
    if (t->syntax == NULL) {
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT,
                        "tools: the syntax '%.40s' is none that is known, as hermes is",
                        syntax != NULL ? syntax : "");
        return;
    }
    const char *format = json_string_value(json_object_get(t->root, "reasoning_format"));
    b->reasoning_format = format != NULL ? ln_reasoning_find(format) : NULL;
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
    ln_expr *calls = frame(t, call, parallel);
    if (b->status == LINNET_OK && json_is_true(json_object_get(t->root, "free")))
        calls = free_answer(t, calls);
    b->root = ln_json_rule(b, "calls", calls);
}

ln_status ln_grammar_read_tools(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    tools_reader t = {.builder = builder};
    t.root = ln_grammar_parse_json(builder, text, n_bytes, "tools");
    if (t.root != NULL)
        read_tools(&t);
    json_decref(t.root);
    return builder->status;
}
