/* What a grammar is made of, for this folder. */
#ifndef LN_GRAMMAR_GRAMMAR_STATE_H
#define LN_GRAMMAR_GRAMMAR_STATE_H

#include <stdatomic.h>

#include "grammar/automaton.h"
#include "grammar/dense.h"
#include "grammar/grammar.h"
#include "text/chat/tool_syntax.h"

struct ln_grammar {
    atomic_uint references;
    uint64_t number; /* among those of a masker; 0: not met by one yet */
    ln_program program;
    ln_automaton automaton;
    ln_dense dense;
};

/* Any source. */
ln_status ln_grammar_read(ln_grammar_builder *builder, linnet_grammar_kind kind, const char *text,
                          size_t n_bytes);
/* The sources: each adds rules and sets the root. Errors as ln_grammar_compile.
 */
ln_status ln_grammar_read_gbnf(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_regex(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_choice(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_json(ln_grammar_builder *builder);
ln_status ln_grammar_read_tools(ln_grammar_builder *builder, const char *text, size_t n_bytes);
ln_status ln_grammar_read_schema(ln_grammar_builder *builder, const char *text, size_t n_bytes);

/* Text that a vocabulary may have as one special token. */
ln_expr *ln_expr_marker(ln_grammar_builder *builder, const char *text);
/* Lets reasoning come before the root. */
void ln_grammar_add_reasoning(ln_grammar_builder *builder, linnet_reasoning reasoning);

#endif
