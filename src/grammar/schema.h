/* The translation of one JSON schema (JSON Schema 2020-12, and what older
 * drafts call the same things); for the files schema*.c. Every valid text of
 * the resulting grammar satisfies the schema; what a grammar cannot ensure is
 * refused. */
#ifndef LN_GRAMMAR_SCHEMA_H
#define LN_GRAMMAR_SCHEMA_H

#include "grammar/json_rules.h"

typedef struct ln_schema {
    ln_grammar_builder *builder;
    const ln_json_rules *rules;
    json_t *root;            /* borrowed */
    json_t *kept;            /* an array of schemas that were made from parts of others */
    json_t *rules_by_schema; /* by address in text */
    unsigned depth;
    size_t n_comparisons;
} ln_schema;

/* A value that satisfies the schema. */
ln_expr *ln_schema_read(ln_schema *s, json_t *schema);
uint32_t ln_schema_rule(ln_schema *s, json_t *schema);
/* What $ref leads to; NULL: nothing, a failure. */
json_t *ln_schema_find(ln_schema *s, json_t *reference);

/* One level deeper, until depth is less again; false: too deep, a failure. */
bool ln_schema_enter(ln_schema *s);
void ln_schema_check_keywords(ln_schema *s, json_t *schema);
/* Counts comparisons, of which a schema, which comes from a client, has so many; false: it has had
 * them, a failure. */
bool ln_schema_spend(ln_schema *s, size_t n);

/* Whether enum or const name values, and those that all keywords of the schema allow: an array that
 * the caller owns. */
bool ln_schema_get_values(ln_schema *s, json_t *schema, json_t **kept);
/* Whether both name values, and no one is among both. */
bool ln_schema_values_differ(ln_schema *s, json_t *left, json_t *right);

ln_expr *ln_schema_read_string(ln_schema *s, json_t *schema);
ln_expr *ln_schema_read_number(ln_schema *s, json_t *schema, bool is_integer);
ln_expr *ln_schema_read_object(ln_schema *s, json_t *schema);
ln_expr *ln_schema_read_array(ln_schema *s, json_t *schema);

void ln_schema_unsupported(ln_schema *s, const char *what);
void ln_schema_malformed(ln_schema *s, const char *keyword, const char *what);

/* A count such as maxItems: `otherwise` when the schema has none. */
uint32_t ln_schema_count(ln_schema *s, json_t *schema, const char *keyword, uint32_t otherwise);

#endif
