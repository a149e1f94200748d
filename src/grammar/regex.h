/* Regular expressions as ECMAScript, Python and Rust agree on them: no look-behind, no look-ahead
 * within groups that something follows, no references back. */
#ifndef LN_GRAMMAR_REGEX_H
#define LN_GRAMMAR_REGEX_H

#include "grammar/language.h"

/* How the code points of a match are written. */
typedef enum ln_regex_mode {
    LN_REGEX_PLAIN,  /* as they are; the expression is about all of the text */
    LN_REGEX_IN_JSON /* as in a JSON string, escaped where they must be */
} ln_regex_mode;

enum {
    LN_REGEX_IGNORE_CASE = 1, /* of ASCII letters */
    LN_REGEX_DOT_ALL = 2,
    LN_REGEX_RUST = 4 /* . is all but a new line */
};

/* Errors: ARGUMENT (malformed), UNSUPPORTED, LIMIT; at the builder. */
ln_expr *ln_regex_read(ln_grammar_builder *builder, const char *text, size_t n_bytes);

/* With flags, or'ed. */
ln_expr *ln_regex_read_flags(ln_grammar_builder *builder, const char *text, size_t n_bytes,
                             unsigned flags);

/* The JSON strings of `all`, in which the expression matches anywhere, as JSON schemas have it. */
const ln_dfa *ln_regex_language(ln_grammar_builder *builder, const char *text, size_t n_bytes,
                                const ln_dfa *all);

/* A code point of a set as a JSON string has it. */
ln_expr *ln_json_chars(ln_grammar_builder *builder, const ln_range *ranges, size_t n_ranges,
                       bool negated);

#endif
