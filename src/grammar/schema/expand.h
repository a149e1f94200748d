/* The parts of expansion, for the files expand*.c: what is decided of a value, and what is not. */
#ifndef LN_GRAMMAR_SCHEMA_EXPAND_H
#define LN_GRAMMAR_SCHEMA_EXPAND_H

#include "grammar/schema/schema.h"

/* A schema to be looked at yet. */
typedef struct task {
    json_t *schema;
    bool negated;
    const ln_scope *scope;
    const struct task *from; /* the schema that it is part of here, NULL: none */
    const struct task *next;
} task;

/* One way to decide: schemas, and an atom, that then hold. */
typedef struct way {
    unsigned types;
    const task *tasks;
    const ln_atom *atom, *other;
    const struct way *next;
} way;

typedef struct choice {
    const way *ways;
    size_t n;
    const struct choice *next;
} choice;

/* What is decided so far. */
typedef struct branch {
    unsigned types;
    const task *pending, *seen;
    const ln_atom *atoms; /* the last first */
    const choice *choices;
    json_t *values;
    bool has_values, is_dead;
    unsigned depth;
} branch;

typedef struct expander {
    ln_schema *schema;
    const task *current; /* that is looked at */
    const ln_shape *shapes;
    size_t n_shapes, max_shapes;
    bool is_rough; /* alternatives of `not` and oneOf are left out: more values, never fewer */
    bool is_full;
} expander;

const task *ln_expand_task(expander *e, const task *next, json_t *schema, bool negated,
                           const ln_scope *scope);
void ln_expand_push(expander *e, branch *b, json_t *schema, bool negated, const ln_scope *scope);
ln_atom *ln_expand_atom(expander *e, ln_atom atom);
void ln_expand_add_atom(expander *e, branch *b, ln_atom atom);

choice *ln_expand_choice(expander *e, branch *b);
void ln_expand_way(expander *e, choice *c, way w);
/* A way that an atom holds, of values of these types. */
void ln_expand_atom_way(expander *e, choice *c, unsigned types, ln_atom atom);
void ln_expand_schema_way(expander *e, choice *c, json_t *schema, bool negated,
                          const ln_scope *scope);

/* Adds what an object schema says to a branch: where it holds (expand_holds.c), where it does not
 * (expand_fails.c). */
void ln_expand_holds(expander *e, branch *b, json_t *schema, const ln_scope *scope);
void ln_expand_fails(expander *e, branch *b, json_t *schema);

#endif
