#include "grammar/schema/members.h"

#include <string.h>

/* ---- names -------------------------------------------------------------------------------------
 */

static ln_named *find_name(ln_members *m, const char *name) {
    json_t *known = json_object_get(m->index, name);
    if (known != NULL)
        return &m->named[json_integer_value(known)];
    json_object_set_new(m->index, name, json_integer((json_int_t)m->n_named));
    if (m->n_named == m->capacity) {
        size_t capacity = 2 * m->capacity + 16;
        ln_named *named = ln_schema_allocate(m->schema, capacity, sizeof *named);
        static ln_named none;
        if (named == NULL)
            return &none;
        if (m->n_named > 0)
            memcpy(named, m->named, m->n_named * sizeof *named);
        m->named = named;
        m->capacity = capacity;
    }
    m->named[m->n_named] = (ln_named){.name = name};
    return &m->named[m->n_named++];
}

static void add_pattern(ln_members *m, const char *pattern) {
    for (size_t i = 0; i < m->n_patterns; i++)
        if (strcmp(m->patterns[i], pattern) == 0)
            return;
    if (m->n_patterns == LN_MAX_KEY_PATTERNS)
        ln_schema_unsupported(m->schema, "more than 24 patterns for the members of an object");
    else
        m->patterns[m->n_patterns++] = pattern;
}

static void read_atom(ln_members *m, const ln_atom *atom) {
    const char *key;
    json_t *child;
    json_t *properties = json_object_get(atom->schema, "properties");
    json_t *patterns = json_object_get(atom->schema, "patternProperties");
    bool is_about_fields = atom->kind == LN_ATOM_FIELDS || atom->kind == LN_ATOM_SOME_MEMBER;
    json_object_foreach(is_about_fields ? properties : NULL, key, child) {
        find_name(m, key);
    }
    json_object_foreach(is_about_fields ? patterns : NULL, key, child) {
        add_pattern(m, key);
    }
    switch ((int)atom->kind) {
    case LN_ATOM_HAS: find_name(m, atom->name)->is_required = true; break;
    case LN_ATOM_LACKS: find_name(m, atom->name)->is_forbidden = true; break;
    case LN_ATOM_MEMBER: find_name(m, atom->name); break;
    case LN_ATOM_SOME_MEMBER:
        if (atom->name != NULL)
            add_pattern(m, atom->name);
        break;
    default: break;
    }
}

/* Names that propertyNames forbid. */
static void check_names(ln_members *m, const ln_atom *atom) {
    const ln_literal literal = {atom->value, atom->negated};
    for (size_t i = 0; i < m->n_named; i++) {
        json_t *name = json_string(m->named[i].name);
        if (!ln_schema_hold_all(m->schema, (ln_literals){&literal, 1}, name))
            m->named[i].is_forbidden = true;
        json_decref(name);
    }
}

void ln_members_read(ln_members *m, ln_schema *s, const ln_shape *shape, const ln_atom *other) {
    *m = (ln_members){.schema = s, .shape = shape, .index = ln_schema_keep(s, json_object())};
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next)
        read_atom(m, atom);
    if (other != NULL)
        read_atom(m, other);
    if (m->n_named > LN_GRAMMAR_MAX_RULES / 8)
        ln_schema_unsupported(s, "an object of more than 4096 properties");
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next)
        if (atom->kind == LN_ATOM_NAMES)
            check_names(m, atom);
}

/* ---- what applies to a name --------------------------------------------------------------------
 */

/* A name, or a class of them. */
typedef struct subject {
    const char *name; /* NULL: a class */
    uint64_t patterns;
} subject;

static bool matches(ln_members *m, subject of, const char *pattern) {
    if (of.name != NULL)
        return ln_schema_string_is_in(m->schema, ln_schema_pattern(m->schema, pattern), of.name);
    for (size_t i = 0; i < m->n_patterns; i++)
        if (strcmp(m->patterns[i], pattern) == 0)
            return (of.patterns >> i & 1) != 0;
    return false;
}

/* Adds the schemas that properties and patternProperties have for it, to a list unless that is
 * NULL; returns whether there are any. */
static bool add_fields(ln_members *m, json_t *schema, subject of, ln_literal_list *list) {
    json_t *own =
        of.name != NULL ? json_object_get(json_object_get(schema, "properties"), of.name) : NULL;
    const char *pattern;
    json_t *child;
    bool is_named = own != NULL;
    if (own != NULL && list != NULL)
        ln_schema_add_literal(m->schema, list, own, false);
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, child) {
        if (!matches(m, of, pattern))
            continue;
        is_named = true;
        if (list != NULL)
            ln_schema_add_literal(m->schema, list, child, false);
    }
    return is_named;
}

/* Whether what stands beside or in an unevaluatedProperties has evaluated it. */
static bool is_evaluated(ln_members *m, const ln_atom *unevaluated, subject of) {
    for (const ln_atom *atom = m->shape->atoms; atom != NULL; atom = atom->next) {
        if (!ln_scope_is_within(atom->scope, unevaluated->scope))
            continue;
        if (atom->kind == LN_ATOM_UNEVALUATED_MEMBERS && atom->scope != unevaluated->scope)
            return true;
        if (atom->kind == LN_ATOM_FIELDS &&
            (json_object_get(atom->schema, "additionalProperties") != NULL ||
             add_fields(m, atom->schema, of, NULL)))
            return true;
    }
    return false;
}

static ln_literals find_set(ln_members *m, subject of) {
    ln_literal_list list = {0};
    for (const ln_atom *atom = m->shape->atoms; atom != NULL; atom = atom->next) {
        if (atom->kind == LN_ATOM_MEMBER && of.name != NULL && strcmp(atom->name, of.name) == 0)
            ln_schema_add_literal(m->schema, &list, atom->value, atom->negated);
        if (atom->kind == LN_ATOM_UNEVALUATED_MEMBERS && !is_evaluated(m, atom, of))
            ln_schema_add_literal(m->schema, &list, atom->value, false);
        if (atom->kind != LN_ATOM_FIELDS || add_fields(m, atom->schema, of, &list))
            continue;
        json_t *additional = ln_schema_additional(m->schema, atom->schema);
        if (additional != NULL)
            ln_schema_add_literal(m->schema, &list, additional, false);
    }
    return ln_schema_get_literals(&list);
}

ln_literals ln_members_of_name(ln_members *m, const char *name) {
    return find_set(m, (subject){.name = name});
}

static bool speaks_of(ln_members *m, const ln_atom *atom, subject of) {
    if (atom->name != NULL)
        return matches(m, of, atom->name);
    return !add_fields(m, atom->schema, of, NULL);
}

bool ln_members_speaks_of(ln_members *m, const ln_atom *atom, const char *name) {
    if (atom->kind == LN_ATOM_SOME_MEMBER)
        return speaks_of(m, atom, (subject){.name = name});
    const ln_literal literal = {atom->value, atom->negated};
    json_t *string = json_string(name);
    bool holds = ln_schema_hold_all(m->schema, (ln_literals){&literal, 1}, string);
    json_decref(string);
    return holds;
}

bool ln_members_speaks_of_class(ln_members *m, const ln_atom *atom, const ln_key_class *c) {
    return speaks_of(m, atom, (subject){.patterns = c->patterns});
}

/* ---- classes -----------------------------------------------------------------------------------
 */

static bool is_false(ln_literals set) {
    for (size_t i = 0; i < set.n; i++)
        if (set.items[i].negated ? json_is_true(set.items[i].schema)
                                 : json_is_false(set.items[i].schema))
            return true;
    return false;
}

static const ln_dfa *exclude_named(ln_members *m, const ln_dfa *names) {
    json_t *values = json_array();
    for (size_t i = 0; i < m->n_named; i++)
        json_array_append_new(values, json_string(m->named[i].name));
    names = ln_language_minus(m->schema->builder, names, ln_schema_list_strings(m->schema, values));
    json_decref(values);
    return names;
}

/* The names of a class that match a pattern become one of their own. */
static void split(ln_members *m, ln_key_class *c, size_t pattern) {
    ln_grammar_builder *b = m->schema->builder;
    const ln_dfa *language = ln_schema_pattern(m->schema, m->patterns[pattern]);
    const ln_dfa *within = ln_language_and(b, c->names, language);
    if (ln_language_is_empty(within))
        return;
    if (m->n_classes == LN_MAX_KEY_CLASSES) {
        ln_schema_unsupported(m->schema, "so many patterns that overlap");
        return;
    }
    m->classes[m->n_classes++] = (ln_key_class){within, c->patterns | 1ull << pattern, {0}};
    c->names = ln_language_minus(b, c->names, language);
}

void ln_members_classify(ln_members *m) {
    ln_schema *s = m->schema;
    const ln_dfa *names = NULL;
    m->n_classes = 0;
    if (m->n_patterns == 0 && is_false(find_set(m, (subject){0})))
        return;
    for (const ln_atom *atom = m->shape->atoms; atom != NULL; atom = atom->next) {
        if (atom->kind != LN_ATOM_NAMES)
            continue;
        const ln_literal literal = {atom->value, atom->negated};
        const ln_dfa *own = ln_schema_strings(s, (ln_literals){&literal, 1});
        names = names == NULL ? own : ln_language_and(s->builder, names, own);
    }
    if (names == NULL && (m->n_named > 0 || m->n_patterns > 0))
        names = ln_schema_all_strings(s);
    if (m->n_named > 0)
        names = exclude_named(m, names);
    m->classes[m->n_classes++] = (ln_key_class){.names = names};
    for (size_t i = 0; i < m->n_patterns; i++)
        for (size_t j = 0, n = m->n_classes; j < n && s->builder->status == LINNET_OK; j++)
            split(m, &m->classes[j], i);
    size_t kept = 0;
    for (size_t i = 0; i < m->n_classes; i++) {
        ln_key_class c = m->classes[i];
        c.set = find_set(m, (subject){.patterns = c.patterns});
        if (!is_false(c.set) && (c.names == NULL || !ln_language_is_empty(c.names)))
            m->classes[kept++] = c;
    }
    m->n_classes = kept;
}
