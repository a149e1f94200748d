/* The sources of grammars, and what stands before one. */
#ifndef LN_GRAMMAR_SOURCES_H
#define LN_GRAMMAR_SOURCES_H

#include "grammar/expr.h"

/* Each reads one kind of source: adds its rules and sets the root. Errors as ln_grammar_compile. */
ln_status ln_grammar_read_gbnf(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_regex(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_choice(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_json(ln_grammar_builder *builder);
ln_status ln_grammar_read_tools(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_lark(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_structural_tag(ln_grammar_builder *builder, const char *text,
                                         size_t n_bytes);
ln_status ln_grammar_read_schema(ln_grammar_builder *builder, const char *text, size_t n_bytes);

/* Text that a vocabulary may have as one special token, */
ln_expr *ln_expr_marker(ln_grammar_builder *builder, const char *text);
/* or with such in it: each <...> and [...]. NULL and "" are nothing. */
ln_expr *ln_expr_marked_text(ln_grammar_builder *builder, const char *text);
/* Any text of `min` to `max` characters (LN_NO_LIMIT: any number) without one that is not "". */
ln_expr *ln_expr_text_without(ln_grammar_builder *builder, const char *excluded, uint32_t min,
                              uint32_t max);
/* Lets reasoning come before the root; format NULL: <think>. */
void ln_grammar_add_reasoning(ln_grammar_builder *builder, linnet_reasoning reasoning,
                              const struct ln_reasoning_format *format);

#endif
