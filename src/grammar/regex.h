/* Regular expressions as ECMAScript, Python and Rust agree on them: no
 * look-around, no references back. */
#ifndef LN_GRAMMAR_REGEX_H
#define LN_GRAMMAR_REGEX_H

#include "grammar/expr.h"

/* How the code points of a match are written. */
typedef enum ln_regex_mode {
    LN_REGEX_PLAIN, /* as they are; the expression is about all of the text */
    /* as in a JSON string, escaped where they must be; the expression may match
     * anywhere in it, unless ^ and $ hold it, as JSON schemas have it */
    LN_REGEX_IN_JSON
} ln_regex_mode;

/* Errors: ARGUMENT (malformed), UNSUPPORTED, LIMIT; at the builder. */
ln_expr *ln_regex_read(ln_grammar_builder *builder, const char *text, size_t n_bytes,
                       ln_regex_mode mode);

/* A code point of a set as a JSON string has it. */
ln_expr *ln_json_chars(ln_grammar_builder *builder, const ln_range *ranges, size_t n_ranges,
                       bool negated);

#endif
