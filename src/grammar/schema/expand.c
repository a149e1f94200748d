/* Sets of literals become shapes: what schemas leave open (anyOf, oneOf, if, not, ...) is decided
 * one way and the other, and each way is a shape. */
#include "grammar/schema/expand.h"

#include <string.h>

/* ---- making ------------------------------------------------------------------------------------
 */

const task *ln_expand_task(expander *e, const task *next, json_t *schema, bool negated,
                           const ln_scope *scope) {
    task *t = ln_schema_allocate(e->schema, 1, sizeof *t);
    if (t == NULL)
        return next;
    *t = (task){schema, negated, scope, e->current, next};
    return t;
}

void ln_expand_push(expander *e, branch *b, json_t *schema, bool negated, const ln_scope *scope) {
    b->pending = ln_expand_task(e, b->pending, schema, negated, scope);
}

/* The same again, with where it came from. */
static void push_again(expander *e, branch *b, const task *t) {
    task *copy = ln_schema_allocate(e->schema, 1, sizeof *copy);
    if (copy == NULL)
        return;
    *copy = *t;
    copy->next = b->pending;
    b->pending = copy;
}

ln_atom *ln_expand_atom(expander *e, ln_atom atom) {
    ln_atom *a = ln_schema_allocate(e->schema, 1, sizeof *a);
    if (a != NULL)
        *a = atom;
    return a;
}

void ln_expand_add_atom(expander *e, branch *b, ln_atom atom) {
    atom.next = b->atoms;
    const ln_atom *made = ln_expand_atom(e, atom);
    if (made != NULL)
        b->atoms = made;
}

choice *ln_expand_choice(expander *e, branch *b) {
    static choice none;
    choice *c = ln_schema_allocate(e->schema, 1, sizeof *c);
    if (c == NULL)
        return &none;
    c->next = b->choices;
    b->choices = c;
    return c;
}

void ln_expand_way(expander *e, choice *c, way w) {
    way *made = ln_schema_allocate(e->schema, 1, sizeof *made);
    if (made == NULL)
        return;
    *made = w;
    made->next = c->ways;
    c->ways = made;
    c->n++;
}

void ln_expand_atom_way(expander *e, choice *c, unsigned types, ln_atom atom) {
    ln_expand_way(e, c, (way){.types = types, .atom = ln_expand_atom(e, atom)});
}

void ln_expand_schema_way(expander *e, choice *c, json_t *schema, bool negated,
                          const ln_scope *scope) {
    ln_expand_way(
        e, c, (way){.types = LN_IS_ANY, .tasks = ln_expand_task(e, NULL, schema, negated, scope)});
}

/* ---- deciding ----------------------------------------------------------------------------------
 */

static bool has_seen(expander *e, const branch *b, const task *t) {
    for (const task *seen = b->seen; seen != NULL && ln_schema_spend(e->schema, 1);
         seen = seen->next)
        if (seen->schema == t->schema && seen->negated == t->negated && seen->scope == t->scope)
            return true;
    return false;
}

/* Whether a schema is part of itself without a value in between. */
static bool is_circular(const task *t) {
    const task *outer = t->from;
    while (outer != NULL && (outer->schema != t->schema || outer->negated != t->negated))
        outer = outer->from;
    return outer != NULL;
}

/* Looks at the next schema; one that was looked at says nothing new. */
static void take_task(expander *e, branch *b) {
    const task *t = b->pending;
    b->pending = t->next;
    if (json_is_boolean(t->schema)) {
        b->is_dead |= json_is_true(t->schema) == t->negated;
        return;
    }
    if (!json_is_object(t->schema)) {
        ln_schema_unsupported(e->schema, "a schema that is no object");
        return;
    }
    if (is_circular(t)) {
        ln_grammar_fail(e->schema->builder, LINNET_ERR_ARGUMENT,
                        "JSON schema: a schema refers to itself before anything else");
        return;
    }
    if (has_seen(e, b, t))
        return;
    b->seen = ln_expand_task(e, b->seen, t->schema, t->negated, t->scope);
    e->current = t;
    if (t->negated)
        ln_expand_fails(e, b, t->schema);
    else
        ln_expand_holds(e, b, t->schema, t->scope);
    e->current = NULL;
}

static void emit(expander *e, const branch *b) {
    ln_schema *s = e->schema;
    if (e->n_shapes == e->max_shapes) {
        e->is_full = true;
        return;
    }
    ln_shape *shape = ln_schema_allocate(s, 1, sizeof *shape);
    if (shape == NULL)
        return;
    *shape = (ln_shape){.types = b->types, .has_values = b->has_values, .values = b->values};
    for (const ln_atom *atom = b->atoms; atom != NULL; atom = atom->next) {
        ln_atom *copy = ln_expand_atom(e, *atom);
        if (copy == NULL)
            return;
        copy->next = shape->atoms;
        shape->atoms = copy;
    }
    shape->next = e->shapes;
    e->shapes = shape;
    e->n_shapes++;
}

/* Takes the open choice with the fewest ways out of the branch. */
static const choice *take_choice(expander *e, branch *b) {
    const choice *best = b->choices, *others = NULL;
    for (const choice *c = b->choices; c != NULL; c = c->next)
        if (c->n < best->n)
            best = c;
    for (const choice *c = b->choices; c != NULL; c = c->next) {
        choice *copy = c != best ? ln_schema_allocate(e->schema, 1, sizeof *copy) : NULL;
        if (copy == NULL)
            continue;
        *copy = *c;
        copy->next = others;
        others = copy;
    }
    b->choices = others;
    return best;
}

static void explore(expander *e, branch b) {
    ln_schema *s = e->schema;
    while (b.pending != NULL && !b.is_dead && b.types != 0 && s->builder->status == LINNET_OK)
        take_task(e, &b);
    if (b.is_dead || b.types == 0 || s->builder->status != LINNET_OK || e->is_full)
        return;
    if (b.has_values || b.choices == NULL) { /* values are held against all of the set */
        emit(e, &b);
        return;
    }
    if (++s->n_shapes > 1 << 17 || b.depth > 200) {
        e->is_full = true;
        return;
    }
    const choice *c = take_choice(e, &b);
    for (const way *w = c->ways; w != NULL && !e->is_full; w = w->next) {
        branch next = b;
        next.depth++;
        next.types &= w->types;
        if (w->atom != NULL)
            ln_expand_add_atom(e, &next, *w->atom);
        if (w->other != NULL)
            ln_expand_add_atom(e, &next, *w->other);
        for (const task *t = w->tasks; t != NULL; t = t->next)
            push_again(e, &next, t);
        explore(e, next);
    }
}

static const ln_shape *in_order(const ln_shape *shapes) {
    const ln_shape *first = NULL;
    while (shapes != NULL) {
        ln_shape *shape = (ln_shape *)(uintptr_t)shapes;
        shapes = shape->next;
        shape->next = first;
        first = shape;
    }
    return first;
}

static void expand(expander *e, ln_literals set, unsigned types) {
    branch b = {.types = types};
    for (size_t i = set.n; i-- > 0;)
        ln_expand_push(e, &b, set.items[i].schema, set.items[i].negated, NULL);
    explore(e, b);
}

const ln_shape *ln_schema_expand(ln_schema *s, ln_literals set, unsigned types) {
    expander e = {.schema = s, .max_shapes = 1024};
    expand(&e, set, types);
    if (e.is_full)
        ln_grammar_fail(s->builder, LINNET_ERR_LIMIT,
                        "JSON schema: anyOf, oneOf, not and if leave more cases than are possible");
    return in_order(e.shapes);
}

/* ---- what nothing satisfies --------------------------------------------------------------------
 */

/* The set of what a shape says of a member. */
static bool is_member_empty(ln_schema *s, const ln_shape *shape, const char *name) {
    ln_literal_list list = {0};
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next) {
        json_t *properties = json_object_get(atom->schema, "properties");
        json_t *own = json_object_get(properties, name);
        if (atom->kind == LN_ATOM_LACKS && strcmp(atom->name, name) == 0)
            return true;
        if (atom->kind == LN_ATOM_MEMBER && strcmp(atom->name, name) == 0)
            ln_schema_add_literal(s, &list, atom->value, atom->negated);
        if (atom->kind != LN_ATOM_FIELDS)
            continue;
        if (own != NULL)
            ln_schema_add_literal(s, &list, own, false);
        else if (json_object_get(atom->schema, "patternProperties") == NULL &&
                 ln_schema_additional(s, atom->schema) != NULL)
            ln_schema_add_literal(s, &list, ln_schema_additional(s, atom->schema), false);
    }
    return list.n > 0 && ln_schema_is_empty(s, ln_schema_get_literals(&list));
}

static bool is_shape_empty(ln_schema *s, ln_literals set, const ln_shape *shape) {
    unsigned types = shape->types;
    if (shape->has_values) {
        size_t i;
        json_t *value;
        json_array_foreach(shape->values, i, value) {
            if ((types & ln_schema_type_of(value)) != 0 && ln_schema_hold_all(s, set, value))
                return false;
        }
        return true;
    }
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next)
        if ((types & LN_IS_OBJECT) != 0 && atom->kind == LN_ATOM_HAS &&
            is_member_empty(s, shape, atom->name))
            types &= ~(unsigned)LN_IS_OBJECT;
    return types == 0;
}

bool ln_schema_is_empty(ln_schema *s, ln_literals set) {
    expander e = {.schema = s, .max_shapes = 64, .is_rough = true};
    if (s->depth > 12 || !ln_schema_enter(s))
        return false;
    expand(&e, set, LN_IS_ANY);
    bool is_empty = !e.is_full && s->builder->status == LINNET_OK;
    for (const ln_shape *shape = e.shapes; shape != NULL && is_empty; shape = shape->next)
        is_empty = is_shape_empty(s, set, shape);
    s->depth--;
    return is_empty;
}
