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

/* Text that a vocabulary may have as one special token. */
ln_expr *ln_expr_marker(ln_grammar_builder *builder, const char *text);
/* Lets reasoning come before the root. */
void ln_grammar_add_reasoning(ln_grammar_builder *builder, linnet_reasoning reasoning);

#endif
