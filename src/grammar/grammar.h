/* Structured output: a grammar says which tokens may come next.
 *
 * A source (JSON, a JSON schema, a regular expression, a choice, GBNF, calls of
 * tools) is translated to rules (expr.h), these to an automaton over bytes
 * (program.h), which runs over a token's bytes (automaton.h). The tokens that a
 * state allows are found by walking the vocabulary's trie (token_trie.h) and
 * kept as a mask (masker.h). */
#ifndef LN_GRAMMAR_GRAMMAR_H
#define LN_GRAMMAR_GRAMMAR_H

#include "base/error.h"
#include "grammar/token_trie.h"

typedef struct ln_grammar ln_grammar;

typedef struct ln_grammar_source {
    linnet_grammar_kind kind;
    const char *text; /* [n_bytes] in UTF-8; nothing for LINNET_GRAMMAR_JSON */
    size_t n_bytes;
    linnet_reasoning reasoning; /* that comes before it */
    unsigned json_form;         /* linnet_json_form */
} ln_grammar_source;

/* Compiles a source, in time and memory that are bounded whatever it is. `trie`: the vocabulary
 * that it will mask, which outlives it, for tables that make its masks quick; NULL: none. Errors:
 * ARGUMENT (malformed, never satisfied), UNSUPPORTED (naming what), LIMIT, NOMEM. */
ln_status ln_grammar_compile(const ln_grammar_source *source, const ln_token_trie *trie,
                             ln_grammar **grammar, ln_error *err);

/* Whether rules look like Lark's, `name: ...', and not like GBNF's, `name ::= ...'. */
bool ln_grammar_is_lark(const char *text, size_t n_bytes);

/* Compiles what most grammars of a vocabulary have in common, strings, and lets those that are
 * compiled for it from now on share its tables. The caller releases it after them. */
ln_status ln_grammar_share(ln_token_trie *trie, ln_grammar **common, ln_error *err);

/* A grammar may be shared; one thread at a time masks with it. Compiling gives
 * the first reference. */
ln_grammar *ln_grammar_retain(ln_grammar *grammar);
void ln_grammar_release(ln_grammar *grammar); /* NULL is fine */

/* Where a sequence stands: a plain value that may be copied, kept and gone back
 * to. Zeroed: before the first token of output. */
typedef struct ln_grammar_state {
    uint32_t state, generation;
    size_t n_tokens; /* of output that it has seen */
} ln_grammar_state;

/* For tests and checkers: how many of the bytes the grammar accepts, all or as
 * far as the first that no text of the grammar has there; *complete: the text
 * may end after them. */
ln_status ln_grammar_match(ln_grammar *grammar, const char *bytes, size_t n_bytes,
                           size_t *n_accepted, bool *complete, ln_error *err);

#endif
