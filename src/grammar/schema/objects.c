/* Objects: named members in the order of the schema, then others. */
#include <stdlib.h>
#include <string.h>

#include "grammar/schema/members.h"

typedef struct object_reader {
    ln_members members;
    ln_schema *schema;
    uint32_t min, max;    /* members */
    uint32_t cap;         /* as far as they are counted */
    uint32_t *named;      /* [n_named] rules */
    uint32_t other, last; /* rules of a member that is not named, and of the last of such */
    bool has_others, needs_last;
} object_reader;

static ln_expr *separated(ln_schema *s, bool is_first, uint32_t rule) {
    ln_grammar_builder *b = s->builder;
    ln_expr *list = ln_expr_list(b, LN_EXPR_SEQUENCE);
    if (!is_first) {
        ln_expr_add(b, list, ln_expr_text(b, ","));
        ln_expr_add(b, list, ln_expr_rule(b, s->rules->space));
    }
    ln_expr_add(b, list, ln_expr_rule(b, rule));
    return list;
}

/* ---- members that are not named ----------------------------------------------------------------
 */

static ln_expr *read_class(object_reader *o, const ln_key_class *c, const ln_atom *some) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    ln_literal_list set = {0};
    uint32_t key = s->rules->string;
    const ln_dfa *names = c->names;
    for (size_t i = 0; i < c->set.n; i++)
        ln_schema_add_literal(s, &set, c->set.items[i].schema, c->set.items[i].negated);
    if (some != NULL && some->kind == LN_ATOM_SOME_MEMBER)
        ln_schema_add_literal(s, &set, some->value, some->negated);
    if (some != NULL && some->kind == LN_ATOM_SOME_NAME) {
        const ln_literal literal = {some->value, some->negated};
        names = ln_language_and(b, names != NULL ? names : ln_schema_all_strings(s),
                                ln_schema_strings(s, (ln_literals){&literal, 1}));
    }
    if (names != NULL)
        key = ln_rule_add_terminal(b, "the name of a property", ln_language_expr(b, names));
    return ln_expr_sequence(b, ln_expr_rule(b, key), ln_expr_text(b, ":"),
                            ln_expr_rule(b, s->rules->space),
                            ln_expr_rule(b, ln_schema_rule(s, ln_schema_get_literals(&set))), NULL);
}

/* `some`: the last of them is one that it speaks of. */
static void read_others(object_reader *o, const ln_atom *some) {
    ln_grammar_builder *b = o->schema->builder;
    ln_expr *any = ln_expr_list(b, LN_EXPR_CHOICE), *last = ln_expr_list(b, LN_EXPR_CHOICE);
    ln_members_classify(&o->members);
    for (size_t i = 0; i < o->members.n_classes && b->status == LINNET_OK; i++) {
        const ln_key_class *c = &o->members.classes[i];
        ln_expr_add(b, any, read_class(o, c, NULL));
        if (some != NULL &&
            (some->kind == LN_ATOM_SOME_NAME || ln_members_speaks_of_class(&o->members, some, c)))
            ln_expr_add(b, last, read_class(o, c, some));
    }
    o->has_others = o->members.n_classes > 0;
    o->needs_last = some != NULL;
    o->other = ln_json_rule(b, "a property that is not named", any);
    o->last = ln_json_rule(b, "a property that some must be like", last);
}

/* Members that are not named, after `before` others. More than one that must be there could have
 * the same name twice, and would not count. */
static ln_expr *add_others(object_reader *o, uint32_t before) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    uint32_t min = o->min > before ? o->min - before : 0;
    uint32_t max = o->max == LN_NO_LIMIT ? LN_NO_LIMIT : o->max - before;
    if (o->needs_last && max > 0) {
        ln_expr *all = ln_expr_list(b, LN_EXPR_SEQUENCE);
        bool is_first = before == 0;
        ln_expr *only = separated(s, is_first, o->last);
        if (max == 1)
            return only;
        ln_expr *more =
            ln_expr_repeat(b, separated(s, false, o->other), 0, max == LN_NO_LIMIT ? max : max - 2);
        ln_expr_add(b, all, separated(s, is_first, o->other));
        ln_expr_add(b, all, more);
        ln_expr_add(b, all, separated(s, false, o->last));
        return min > 1 ? all : ln_expr_choice(b, only, all, NULL);
    }
    if (o->needs_last || min > 1 || (min > 0 && (!o->has_others || max == 0)))
        return ln_expr_list(b, LN_EXPR_CHOICE);
    if (!o->has_others || max == 0)
        return ln_expr_empty(b);
    if (before > 0)
        return ln_expr_repeat(b, separated(s, false, o->other), min, max);
    ln_expr *more =
        ln_expr_repeat(b, separated(s, false, o->other), 0, max == LN_NO_LIMIT ? max : max - 1);
    ln_expr *some = ln_expr_sequence(b, separated(s, true, o->other), more, NULL);
    return min > 0 ? some : ln_expr_optional(b, some);
}

/* ---- named members -----------------------------------------------------------------------------
 */

static void read_named(object_reader *o) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    o->named = ln_schema_allocate(s, o->members.n_named, sizeof *o->named);
    for (size_t i = 0; i < o->members.n_named && b->status == LINNET_OK; i++) {
        const ln_named *named = &o->members.named[i];
        size_t n_bytes = 0;
        if (named->is_forbidden)
            continue;
        char *key = ln_schema_write_string(s, named->name, &n_bytes);
        ln_expr *member = ln_expr_sequence(
            b, ln_expr_bytes(b, key != NULL ? key : "", n_bytes), ln_expr_text(b, ":"),
            ln_expr_rule(b, s->rules->space),
            ln_expr_rule(b, ln_schema_rule(s, ln_members_of_name(&o->members, named->name))), NULL);
        free(key);
        o->named[i] = ln_json_rule(b, "a property", member);
    }
}

/* The members in the order of the schema, from the last one back: rules[n] is what may come from
 * there on when there are n members yet, counted up to the cap. A property that may be missing is
 * passed over. */
static uint32_t chain_members(object_reader *o) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    ln_expr *space = ln_expr_rule(b, s->rules->space);
    uint32_t n_rules = o->cap + 1;
    uint32_t *rules = ln_schema_allocate(s, n_rules, sizeof *rules);
    if ((uint64_t)n_rules * (o->members.n_named + 1) > LN_GRAMMAR_MAX_RULES / 2)
        ln_schema_unsupported(s, "minProperties or maxProperties of so many properties");
    for (uint32_t n = 0; n < n_rules && b->status == LINNET_OK; n++)
        rules[n] = ln_json_rule(b, "members", add_others(o, n));
    for (size_t i = o->members.n_named; i-- > 0 && b->status == LINNET_OK;) {
        const ln_named *named = &o->members.named[i];
        if (named->is_forbidden)
            continue;
        for (uint32_t n = 0; n < n_rules; n++) {
            uint32_t after = n < o->cap ? n + 1 : n;
            ln_expr *here = ln_expr_list(b, LN_EXPR_CHOICE);
            if (n < o->max)
                ln_expr_add(b, here,
                            ln_expr_sequence(b, separated(s, n == 0, o->named[i]),
                                             ln_expr_rule(b, rules[after]), NULL));
            if (!named->is_required)
                ln_expr_add(b, here, ln_expr_rule(b, rules[n]));
            /* rules[n + 1] is not read again in this round */
            rules[n] = ln_json_rule(b, "members", here);
        }
    }
    if (b->status != LINNET_OK)
        return 0;
    return ln_json_rule(b, "members", ln_expr_sequence(b, space, ln_expr_rule(b, rules[0]), NULL));
}

/* ---- members in any order ----------------------------------------------------------------------
 */

/* The key of a named member as it is written. */
typedef struct key_text {
    char *text; /* owned */
    size_t n_bytes, named;
} key_text;

static int compare_keys(const void *a, const void *b) {
    const key_text *left = a, *right = b;
    size_t n_bytes = left->n_bytes < right->n_bytes ? left->n_bytes : right->n_bytes;
    int order = memcmp(left->text, right->text, n_bytes);
    return order != 0 ? order : (left->n_bytes > right->n_bytes) - (left->n_bytes < right->n_bytes);
}

/* Members low to high - 1, of which `at` bytes of the key were read: what their keys begin with
 * alike is there once. Each ends with a quote, so none begins another. */
static ln_expr *read_keys(object_reader *o, const ln_object *object, const key_text *keys,
                          uint32_t low, uint32_t high, size_t at) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    const key_text *first = &keys[low], *last = &keys[high - 1];
    size_t end = at;
    while (end < first->n_bytes && (high - low == 1 || first->text[end] == last->text[end]))
        end++;
    ln_expr *list = ln_expr_sequence(b, ln_expr_guard(b, object, LN_GUARD_ANY, low, high),
                                     ln_expr_bytes(b, first->text + at, end - at), NULL);
    if (high - low == 1) {
        ln_expr_add(b, list, ln_expr_guard(b, object, LN_GUARD_TAKE, low, 0));
        ln_expr_add(b, list, ln_expr_text(b, ":"));
        ln_expr_add(b, list, ln_expr_rule(b, s->rules->space));
        ln_expr_add(b, list, ln_expr_rule(b, object->rules[low]));
        return list;
    }
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    for (uint32_t begin = low, next; begin < high && b->status == LINNET_OK; begin = next) {
        next = begin + 1;
        while (next < high && keys[next].text[end] == keys[begin].text[end])
            next++;
        ln_expr_add(b, choice, read_keys(o, object, keys, begin, next, end));
    }
    ln_expr_add(b, list, choice);
    return list;
}

static ln_object *make_object(object_reader *o, key_text *keys) {
    ln_schema *s = o->schema;
    ln_object *object = ln_schema_allocate(s, 1, sizeof *object);
    uint32_t *rules = ln_schema_allocate(s, o->members.n_named, sizeof *rules), n = 0;
    if (object == NULL || rules == NULL)
        return NULL;
    for (size_t i = 0; i < o->members.n_named; i++) {
        const ln_named *named = &o->members.named[i];
        if (named->is_forbidden)
            continue;
        keys[n].text = ln_schema_write_string(s, named->name, &keys[n].n_bytes);
        keys[n].named = i;
        n += keys[n].text != NULL;
    }
    if (n > 0)
        qsort(keys, n, sizeof *keys, compare_keys);
    *object = (ln_object){.n_named = n,
                          .min = o->min,
                          .max = o->max,
                          .rules = rules,
                          .other = o->other,
                          .has_other = o->has_others};
    for (uint32_t i = 0; i < n; i++) {
        const ln_named *named = &o->members.named[keys[i].named];
        rules[i] = ln_schema_rule(s, ln_members_of_name(&o->members, named->name));
        if (named->is_required)
            object->required[i / 64] |= 1ull << i % 64;
    }
    ln_object_add(s->builder, object);
    return object;
}

/* What stands before a member: nothing, or a comma. */
static ln_expr *before_member(object_reader *o, const ln_object *object) {
    ln_grammar_builder *b = o->schema->builder;
    return ln_expr_choice(b, ln_expr_guard(b, object, LN_GUARD_FIRST, 0, 0),
                          ln_expr_sequence(b, ln_expr_guard(b, object, LN_GUARD_MORE, 0, 0),
                                           ln_expr_text(b, ","),
                                           ln_expr_rule(b, o->schema->rules->space), NULL),
                          NULL);
}

static ln_expr *other_member(object_reader *o, const ln_object *object, uint32_t rule) {
    ln_grammar_builder *b = o->schema->builder;
    return ln_expr_sequence(b, ln_expr_guard(b, object, LN_GUARD_OTHER, 0, 0),
                            ln_expr_rule(b, rule), NULL);
}

/* Members in any order: the automaton keeps which there are. */
static uint32_t free_members(object_reader *o) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    key_text *keys = calloc(o->members.n_named + 1, sizeof *keys);
    const ln_object *object = keys != NULL ? make_object(o, keys) : NULL;
    uint32_t rule = 0;
    if (object == NULL) {
        ln_grammar_fail_memory(b);
    } else {
        ln_expr *member = ln_expr_list(b, LN_EXPR_CHOICE);
        if (object->n_named > 0)
            ln_expr_add(b, member, read_keys(o, object, keys, 0, object->n_named, 0));
        if (o->has_others)
            ln_expr_add(b, member, other_member(o, object, o->other));
        ln_expr *any = ln_expr_repeat(
            b, ln_expr_sequence(b, before_member(o, object), member, NULL), 0, LN_NO_LIMIT);
        ln_expr *list = ln_expr_sequence(b, ln_expr_rule(b, s->rules->space), any, NULL);
        if (o->needs_last) {
            ln_expr_add(b, list, before_member(o, object));
            ln_expr_add(b, list, other_member(o, object, o->last));
        }
        ln_expr_add(b, list, ln_expr_guard(b, object, LN_GUARD_DONE, 0, 0));
        rule = ln_json_rule(b, "members", list);
    }
    for (size_t i = 0; keys != NULL && i < o->members.n_named; i++)
        free(keys[i].text);
    free(keys);
    return rule;
}

/* ---- objects -----------------------------------------------------------------------------------
 */

static uint32_t read_members(object_reader *o) {
    size_t n_named = 0;
    for (size_t i = 0; i < o->members.n_named; i++)
        n_named += !o->members.named[i].is_forbidden;
    if ((o->schema->builder->json_form & LINNET_JSON_ORDERED) == 0 && n_named <= LN_OBJECT_NAMES &&
        (!o->needs_last || o->max == LN_NO_LIMIT))
        return free_members(o);
    read_named(o);
    return chain_members(o);
}

static const ln_atom *find_some(const ln_shape *shape) {
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next)
        if (atom->kind == LN_ATOM_SOME_MEMBER || atom->kind == LN_ATOM_SOME_NAME)
            return atom;
    return NULL;
}

/* A shape's atoms without one of them, and with others at the end. */
static const ln_atom *replace(ln_schema *s, const ln_shape *shape, const ln_atom *without,
                              const ln_atom *with, size_t n) {
    size_t n_atoms = n, at = 0;
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next)
        n_atoms++;
    ln_atom *atoms = ln_schema_allocate(s, n_atoms, sizeof *atoms);
    if (atoms == NULL)
        return NULL;
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next)
        if (atom != without)
            atoms[at++] = *atom;
    for (size_t i = 0; i < n; i++)
        atoms[at++] = with[i];
    for (size_t i = 0; i < at; i++)
        atoms[i].next = i + 1 < at ? &atoms[i + 1] : NULL;
    return at > 0 ? atoms : NULL;
}

static ln_expr *read_object(ln_schema *s, const ln_shape *shape, const ln_atom *last);

/* Some member must be like this: a named one, each in turn, or one that is not named. */
static ln_expr *read_some(ln_schema *s, const ln_shape *shape, const ln_atom *some) {
    ln_grammar_builder *b = s->builder;
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    ln_members *m = ln_schema_allocate(s, 1, sizeof *m);
    ln_shape next = *shape;
    if (m == NULL || !ln_schema_enter(s))
        return choice;
    ln_members_read(m, s, shape, NULL);
    for (size_t i = 0; i < m->n_named && b->status == LINNET_OK; i++) {
        const char *name = m->named[i].name;
        if (m->named[i].is_forbidden || !ln_members_speaks_of(m, some, name))
            continue;
        const ln_atom with[] = {{.kind = LN_ATOM_HAS, .name = name},
                                {.kind = LN_ATOM_MEMBER,
                                 .name = name,
                                 .value = some->kind == LN_ATOM_SOME_MEMBER
                                              ? some->value
                                              : ln_schema_keep(s, json_true()),
                                 .negated = some->kind == LN_ATOM_SOME_MEMBER && some->negated}};
        next.atoms = replace(s, shape, some, with, 2);
        ln_expr_add(b, choice, ln_schema_read_object(s, &next));
    }
    next.atoms = replace(s, shape, some, NULL, 0);
    if (find_some(&next) == NULL)
        ln_expr_add(b, choice, read_object(s, &next, some));
    else
        ln_schema_unsupported(s, "not or oneOf of so many patternProperties or "
                                 "additionalProperties");
    s->depth--;
    return choice;
}

static ln_expr *read_object(ln_schema *s, const ln_shape *shape, const ln_atom *last) {
    ln_grammar_builder *b = s->builder;
    object_reader *o = calloc(1, sizeof *o);
    ln_expr *whole = ln_expr_list(b, LN_EXPR_CHOICE);
    if (o == NULL) {
        ln_grammar_fail_memory(b);
        return whole;
    }
    o->schema = s;
    o->max = LN_NO_LIMIT;
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next) {
        if (atom->kind == LN_ATOM_MEMBERS && atom->low > o->min)
            o->min = atom->low;
        if (atom->kind == LN_ATOM_MEMBERS && atom->high < o->max)
            o->max = atom->high;
    }
    ln_members_read(&o->members, s, shape, last);
    uint32_t n_named = 0;
    bool fits = o->min <= o->max;
    for (size_t i = 0; i < o->members.n_named; i++) {
        n_named += !o->members.named[i].is_forbidden;
        fits = fits && !(o->members.named[i].is_forbidden && o->members.named[i].is_required);
    }
    read_others(o, last);
    if (o->has_others && o->min > n_named + 1)
        ln_schema_unsupported(s, "minProperties of members that are not named");
    o->cap = o->max != LN_NO_LIMIT ? o->max : o->min;
    o->cap = o->cap > n_named ? n_named : o->cap;
    o->cap = o->cap == 0 ? n_named > 0 : o->cap;
    if (fits && b->status == LINNET_OK)
        ln_expr_add(b, whole,
                    ln_expr_sequence(b, ln_expr_text(b, "{"), ln_expr_rule(b, read_members(o)),
                                     ln_expr_rule(b, s->rules->space), ln_expr_text(b, "}"), NULL));
    free(o);
    return whole;
}

static bool is_about_objects(const ln_atom *atom) {
    return (atom->kind >= LN_ATOM_FIELDS && atom->kind <= LN_ATOM_MEMBERS) ||
           atom->kind == LN_ATOM_UNEVALUATED_MEMBERS;
}

ln_expr *ln_schema_read_object(ln_schema *s, const ln_shape *shape) {
    const ln_atom *some = find_some(shape), *atom = shape->atoms;
    while (atom != NULL && !is_about_objects(atom))
        atom = atom->next;
    if (atom == NULL)
        return ln_expr_rule(s->builder, s->rules->object);
    return some != NULL ? read_some(s, shape, some) : read_object(s, shape, NULL);
}
