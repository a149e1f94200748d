/* Rules of JSON's own grammar, which schemas and tool calls refer to.
 *
 * The texts are JSON as RFC 8259 has it, less what serves nobody in an answer:
 * white space stands after { [ , : and before } ], as at most one space or one
 * new line with its indentation; numbers have at most 40 digits before and 17
 * after the point, exponents two. */
#ifndef LN_GRAMMAR_JSON_RULES_H
#define LN_GRAMMAR_JSON_RULES_H

#include <jansson.h>

#include "grammar/expr.h"

enum { LN_JSON_MAX_DIGITS = 40 };

typedef struct ln_json_rules {
    ln_expr *string_body; /* of the rule `string`; it counts characters */
    uint32_t space, string, number, integer, value, object, array;
} ln_json_rules;

void ln_json_rules_add(ln_grammar_builder *builder, ln_json_rules *rules);

/* A structural rule with this body. */
uint32_t ln_json_rule(ln_grammar_builder *builder, const char *name, ln_expr *body);

/* The text of a value without white space; NULL: a failure, at the builder.
 * Owned (free). */
char *ln_json_dump(ln_grammar_builder *builder, const json_t *value);

/* Numbers from `low` to `high` (strings, NULL: none, such as "-12.5"), the
 * bounds themselves unless they are excluded. */
typedef struct ln_number_bounds {
    const char *low, *high;
    bool excludes_low, excludes_high;
    bool is_long; /* LN_JSON_MAX_DIGITS before the point, otherwise 18 */
} ln_number_bounds;
ln_expr *ln_json_integer(ln_grammar_builder *builder, const ln_number_bounds *bounds);
ln_expr *ln_json_number(ln_grammar_builder *builder, const ln_number_bounds *bounds);

/* Adds rules for a schema and returns its rule; `is_closed`: where it has `properties` without
 * `additionalProperties`, there are no others. Errors: at the builder, UNSUPPORTED naming the
 * keyword. */
uint32_t ln_schema_add(ln_grammar_builder *builder, const ln_json_rules *rules, json_t *schema,
                       bool is_closed);

/* How a JSON string has a character that it must escape: the bytes, [returned] and a NUL; 0: as it
 * is. */
enum { LN_JSON_MAX_ESCAPE = 8 };
size_t ln_json_escape_char(uint32_t c, char escape[LN_JSON_MAX_ESCAPE]);
/* Makes the texts of the rules from `first` on what they are within a JSON string. U+0000 cannot
 * come there. */
void ln_json_escape_rules(ln_grammar_builder *builder, size_t first);

/* Parses a JSON document; NULL: a failure, at the builder. Owned (json_decref).
 */
json_t *ln_grammar_parse_json(ln_grammar_builder *builder, const char *text, size_t n_bytes,
                              const char *what);

#endif
