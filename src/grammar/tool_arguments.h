/* Arguments of calls that are written one by one, outside of JSON. */
#ifndef LN_GRAMMAR_TOOL_ARGUMENTS_H
#define LN_GRAMMAR_TOOL_ARGUMENTS_H

#include "grammar/json_rules.h"
#include "text/chat/calls/call_syntax.h"

/* What the schema's properties allow, in their order, in a syntax of the form TAGGED, PYTHON or
 * GEMMA. Texts that stand there as they are have the length that the schema says, or are of its
 * enum; `pattern` and `format` say nothing about them. Other properties than those named never
 * come. Of a custom tool a property may have such a `grammar` (below). Errors: at the builder. */
ln_expr *ln_tool_arguments(ln_grammar_builder *builder, const ln_json_rules *rules,
                           const ln_call_syntax *syntax, const json_t *schema, bool is_custom);

/* The text that a grammar of a custom tool allows, {"syntax": "lark", "regex" or "gbnf",
 * "definition": ...}, as it is or as it stands in a JSON string. */
ln_expr *ln_tool_input(ln_grammar_builder *builder, const json_t *grammar, bool in_json);

/* A text of the syntax, whose mark and tags may be special tokens. NULL: nothing. */
ln_expr *ln_tool_text(ln_grammar_builder *builder, const ln_call_syntax *syntax, const char *text);

#endif
