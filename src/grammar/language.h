/* Regular languages as deterministic automata, for what expressions cannot say: both of two, one
 * but not the other. They live in the builder's arena. After a failure, which is the builder's, the
 * empty language is returned. */
#ifndef LN_GRAMMAR_LANGUAGE_H
#define LN_GRAMMAR_LANGUAGE_H

#include "grammar/dfa.h"

/* What an expression without rules matches. LIMIT when it would be too large. */
const ln_dfa *ln_language_of(ln_grammar_builder *builder, const ln_expr *expr);

const ln_dfa *ln_language_and(ln_grammar_builder *builder, const ln_dfa *a, const ln_dfa *b);
const ln_dfa *ln_language_minus(ln_grammar_builder *builder, const ln_dfa *a, const ln_dfa *b);
/* Those of from `min` to `max` characters, where the automaton counts them; max may be
 * LN_NO_LIMIT. */
const ln_dfa *ln_language_of_length(ln_grammar_builder *builder, const ln_dfa *a, uint32_t min,
                                    uint32_t max);

bool ln_language_is_empty(const ln_dfa *a);
bool ln_language_has(const ln_dfa *a, const char *bytes, size_t n_bytes);
/* Whether each beginning that at most `max` characters can complete also has completions of all
 * greater lengths, so that a terminal may count for itself. */
bool ln_language_is_stretchable(ln_grammar_builder *builder, const ln_dfa *a);

ln_expr *ln_language_expr(ln_grammar_builder *builder, const ln_dfa *a);

#endif
