/* The translation of one JSON schema (2020-12, and what the drafts from 4 on call the same things);
 * for the files of this folder. Every text of the resulting grammar satisfies the schema; what
 * cannot be ensured is refused.
 *
 * A value is described by a set of literals: schemas that it must satisfy, or must not. A set is
 * expanded (expand.c) to shapes, whose union it is: each has no alternatives left, only types and
 * atoms. A shape becomes an expression type by type (strings.c, numbers.c, objects.c, arrays.c);
 * the values within it are sets of literals again. Each set becomes one rule (compile.c), so
 * schemas that refer to themselves end. */
#ifndef LN_GRAMMAR_SCHEMA_SCHEMA_H
#define LN_GRAMMAR_SCHEMA_SCHEMA_H

#include "grammar/json_rules.h"
#include "grammar/language.h"

/* Types of values, as bits. A number is an integer, or has a fraction. */
enum {
    LN_IS_NULL = 1,
    LN_IS_BOOLEAN = 2,
    LN_IS_OBJECT = 4,
    LN_IS_ARRAY = 8,
    LN_IS_INTEGER = 16,
    LN_IS_FRACTION = 32,
    LN_IS_STRING = 64,
    LN_IS_NUMBER = LN_IS_INTEGER | LN_IS_FRACTION,
    LN_IS_ANY = 127
};

typedef struct ln_literal {
    json_t *schema; /* borrowed, as long as the translation */
    bool negated;
} ln_literal;

typedef struct ln_literals {
    const ln_literal *items; /* [n], ascending and without any twice once they have a rule */
    size_t n;
} ln_literals;

/* Where unevaluatedProperties or unevaluatedItems stand: what is evaluated in the same place by
 * schemas within this one. */
typedef struct ln_scope {
    json_t *schema;
    const struct ln_scope *outer;
} ln_scope;

static inline bool ln_scope_is_within(const ln_scope *scope, const ln_scope *outer) {
    while (scope != NULL && scope != outer)
        scope = scope->outer;
    return scope != NULL;
}

typedef enum ln_atom_kind {
    LN_ATOM_NOT_VALUES,  /* value: an array of values that it is none of */
    LN_ATOM_PATTERN,     /* value */
    LN_ATOM_FORMAT,      /* value */
    LN_ATOM_LENGTH,      /* low to high code points */
    LN_ATOM_ABOVE,       /* a number of at least `value`; excluded: of more */
    LN_ATOM_BELOW,       /* of at most, or less */
    LN_ATOM_MULTIPLE,    /* of value */
    LN_ATOM_FIELDS,      /* properties, patternProperties, additionalProperties of schema */
    LN_ATOM_HAS,         /* the member `name` */
    LN_ATOM_LACKS,       /* no member `name` */
    LN_ATOM_MEMBER,      /* if there is a member `name`: it satisfies the literal value, negated */
    LN_ATOM_SOME_MEMBER, /* one whose name matches the pattern `name`, or which FIELDS of schema
                            leave to additionalProperties, satisfies the literal */
    LN_ATOM_NAMES,       /* names satisfy the literal */
    LN_ATOM_SOME_NAME,   /* one name does */
    LN_ATOM_MEMBERS,     /* low to high members */
    LN_ATOM_ITEMS,       /* prefixItems and items of schema */
    LN_ATOM_ITEM,        /* item `low`, if there is one, satisfies the literal */
    LN_ATOM_CONTAINS,    /* low to high items, from item `from` on, satisfy the literal */
    LN_ATOM_N_ITEMS,     /* low to high items */
    LN_ATOM_UNIQUE,      /* items differ */
    LN_ATOM_UNEVALUATED_MEMBERS, /* what the scope leaves satisfies the literal */
    LN_ATOM_UNEVALUATED_ITEMS
} ln_atom_kind;

typedef struct ln_atom {
    ln_atom_kind kind;
    bool negated, excluded;
    json_t *schema, *value;
    const char *name;
    uint32_t low, high, from;
    const ln_scope *scope; /* the innermost that it is evaluated for */
    const struct ln_atom *next;
} ln_atom;

typedef struct ln_shape {
    unsigned types;
    bool has_values;
    json_t *values;       /* the value is one of these, and has_values; borrowed */
    const ln_atom *atoms; /* in the order of the schema */
    const struct ln_shape *next;
} ln_shape;

typedef struct ln_schema {
    ln_grammar_builder *builder;
    const ln_json_rules *rules;
    json_t *root;                        /* borrowed */
    json_t *resources;                   /* URIs of parts of it, see references.c */
    json_t *own_values;                  /* an enum whose own values are looked at; NULL: none */
    json_t *kept;                        /* an array of schemas that were made here */
    json_t *known;                       /* rules and languages by what they are of */
    struct ln_schema_work *first, *last; /* rules without a body yet */
    const ln_dfa *strings;               /* all strings, each written in one way; NULL: not yet */
    const ln_dfa *numbers;               /* all numbers, each without exponent; NULL: not yet */
    bool annotates_formats;              /* a format without type "string" is an annotation */
    bool keeps_beside_ref;               /* keywords beside $ref count */
    bool is_closed; /* properties without additionalProperties allow no others */
    unsigned depth;
    size_t n_comparisons, n_shapes;
} ln_schema;

/* ---- references.c: the document ----------------------------------------------------------------
 */

/* Finds the URIs that the parts of the document have. */
void ln_schema_index(ln_schema *s);
/* What $ref of `schema` (or $dynamicRef, $recursiveRef) leads to; NULL: nothing, a failure. */
json_t *ln_schema_follow(ln_schema *s, json_t *schema, const char *keyword);
/* Whether a schema has such a reference, and what it leads to. */
bool ln_schema_get_reference(ln_schema *s, json_t *schema, json_t **target);

/* ---- keywords.c ------------------------------------------------------------------------------ */

unsigned ln_schema_type_bits(ln_schema *s, const char *name);
/* The types that a schema's keyword `type` leaves. */
unsigned ln_schema_types(ln_schema *s, json_t *schema);
unsigned ln_schema_type_of(const json_t *value);
/* The member of an object, checked: 'o' an object, 'a' an array, 's' a string; NULL: there is none,
 * or a failure. */
json_t *ln_schema_get(ln_schema *s, json_t *schema, const char *keyword, char type);
/* A count such as maxItems: `otherwise` when the schema has none. */
uint32_t ln_schema_count(ln_schema *s, json_t *schema, const char *keyword, uint32_t otherwise);
/* The format that binds a schema's strings; NULL: none. */
json_t *ln_schema_get_format(const ln_schema *s, json_t *schema);
/* prefixItems, or items as an array; NULL: none. */
json_t *ln_schema_prefix(ln_schema *s, json_t *schema);
/* The schema of the items after these; NULL: none. */
json_t *ln_schema_items(ln_schema *s, json_t *schema);
/* The schema of members that properties and patternProperties do not name; NULL: none. */
json_t *ln_schema_additional(ln_schema *s, json_t *schema);
/* Calls `take` for each schema of additionalProperties' kind that the name falls to. */
void ln_schema_match_name(ln_schema *s, json_t *schema, const char *name,
                          void (*take)(void *context, json_t *child), void *context);

void ln_schema_unsupported(ln_schema *s, const char *what);
/* Fails for a number of enum or const that may be an integer of more than 63 bits: JSON that was
 * parsed has those as real numbers, so another would be written. */
void ln_schema_check_exact(ln_schema *s, const json_t *value);
void ln_schema_malformed(ln_schema *s, const char *keyword, const char *what);
/* Counts comparisons, of which a schema, which comes from a client, has so many; false: it has had
 * them, a failure. */
bool ln_schema_spend(ln_schema *s, size_t n);
/* One level deeper, until depth is less again; false: too deep, a failure. */
bool ln_schema_enter(ln_schema *s);
/* A new schema lives as long as the translation; NULL stays NULL, a failure. */
json_t *ln_schema_keep(ln_schema *s, json_t *schema);
void *ln_schema_allocate(ln_schema *s, size_t count, size_t item_bytes);

/* ---- values.c: what values satisfy ----------------------------------------------------------- */

bool ln_schema_holds(ln_schema *s, json_t *schema, json_t *value);
bool ln_schema_hold_all(ln_schema *s, ln_literals set, json_t *value);
/* As schemas compare values: 1 and 1.0 are the same number. */
bool ln_schema_are_equal(ln_schema *s, json_t *a, json_t *b);
int ln_schema_compare_numbers(const json_t *a, const json_t *b);
bool ln_schema_is_multiple(json_t *value, json_t *of);

/* ---- expand.c -------------------------------------------------------------------------------- */

/* The shapes that the set is the union of, among values of `types`. */
const ln_shape *ln_schema_expand(ln_schema *s, ln_literals set, unsigned types);
/* Whether surely no value satisfies the set. */
bool ln_schema_is_empty(ln_schema *s, ln_literals set);

/* ---- compile.c ------------------------------------------------------------------------------- */

/* The rule of the values that satisfy the set. */
uint32_t ln_schema_rule(ln_schema *s, ln_literals set);
/* The schema that one object or array alone satisfies. */
json_t *ln_schema_describe(ln_schema *s, json_t *value);
/* The texts of one value. */
ln_expr *ln_schema_value(ln_schema *s, json_t *value);

/* A list of literals that grows in the arena. */
typedef struct ln_literal_list {
    ln_literal *items;
    size_t n, capacity;
} ln_literal_list;
void ln_schema_add_literal(ln_schema *s, ln_literal_list *list, json_t *schema, bool negated);
ln_literals ln_schema_get_literals(const ln_literal_list *list);

/* ---- one type of a shape --------------------------------------------------------------------- */

ln_expr *ln_schema_read_string(ln_schema *s, const ln_shape *shape);
/* The strings of a set, written in one way each. */
const ln_dfa *ln_schema_strings(ln_schema *s, ln_literals set);
const ln_dfa *ln_schema_all_strings(ln_schema *s);
const ln_dfa *ln_schema_pattern(ln_schema *s, const char *pattern);
/* NULL: the format says nothing here. */
const ln_dfa *ln_schema_format(ln_schema *s, const char *name);
/* The language of the strings among values. */
const ln_dfa *ln_schema_list_strings(ln_schema *s, json_t *values);
/* A string in the one way in which languages have it, with its quotes; owned. */
char *ln_schema_write_string(ln_schema *s, const char *string, size_t *n_bytes);
bool ln_schema_string_is_in(ln_schema *s, const ln_dfa *language, const char *string);

ln_expr *ln_schema_read_number(ln_schema *s, const ln_shape *shape);
ln_expr *ln_schema_read_object(ln_schema *s, const ln_shape *shape);
ln_expr *ln_schema_read_array(ln_schema *s, const ln_shape *shape);

#endif
