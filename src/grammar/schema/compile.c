/* Sets of literals become rules. A rule is given out before its body is made, so the depth of
 * schemas within schemas does not matter, and schemas that refer to themselves end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/schema/schema.h"

typedef struct ln_schema_work {
    ln_literals set;
    uint32_t rule;
    struct ln_schema_work *next;
} ln_schema_work;

/* ---- lists -------------------------------------------------------------------------------------
 */

void ln_schema_add_literal(ln_schema *s, ln_literal_list *list, json_t *schema, bool negated) {
    if (list->n == list->capacity) {
        size_t capacity = 2 * list->capacity + 4;
        ln_literal *items = ln_schema_allocate(s, capacity, sizeof *items);
        if (items == NULL)
            return;
        if (list->n > 0)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = (ln_literal){schema, negated};
}

ln_literals ln_schema_get_literals(const ln_literal_list *list) {
    return (ln_literals){list->items, list->n};
}

/* Without what says nothing, and what is there already. The order stays: it is that of members. */
static ln_literals reduce(ln_schema *s, ln_literals set) {
    ln_literal_list list = {0};
    for (size_t i = 0; i < set.n; i++) {
        ln_literal l = set.items[i];
        bool is_new = true;
        if (l.negated ? json_is_false(l.schema)
                      : json_is_true(l.schema) ||
                            (json_is_object(l.schema) && json_object_size(l.schema) == 0))
            continue;
        for (size_t j = 0; j < list.n; j++)
            is_new =
                is_new && (list.items[j].schema != l.schema || list.items[j].negated != l.negated);
        if (is_new)
            ln_schema_add_literal(s, &list, l.schema, l.negated);
    }
    return ln_schema_get_literals(&list);
}

/* ---- values ------------------------------------------------------------------------------------
 */

json_t *ln_schema_describe(ln_schema *s, json_t *value) {
    json_t *members = json_object(), *names = json_array(), *prefix = json_array(), *child;
    const char *key;
    size_t i;
    json_object_foreach(value, key, child) {
        json_object_set_new(members, key, json_pack("{sO}", "const", child));
        json_array_append_new(names, json_string(key));
    }
    json_array_foreach(value, i, child) {
        json_array_append_new(prefix, json_pack("{sO}", "const", child));
    }
    if (json_is_object(value)) {
        json_decref(prefix);
        return ln_schema_keep(s, json_pack("{ss, so, so, sb}", "type", "object", "properties",
                                           members, "required", names, "additionalProperties", 0));
    }
    json_decref(members);
    json_decref(names);
    return ln_schema_keep(s, json_pack("{ss, so, si, sb}", "type", "array", "prefixItems", prefix,
                                       "minItems", (int)json_array_size(value), "items", 0));
}

/* The text of a scalar; owned. */
static char *write_scalar(ln_schema *s, json_t *value, size_t *n_bytes) {
    if (json_is_string(value))
        return ln_schema_write_string(s, json_string_value(value), n_bytes);
    char *text = ln_json_dump(s->builder, value);
    *n_bytes = text != NULL ? strlen(text) : 0;
    return text;
}

ln_expr *ln_schema_value(ln_schema *s, json_t *value) {
    ln_grammar_builder *b = s->builder;
    size_t n_bytes = 0;
    if (json_is_object(value) || json_is_array(value)) {
        const ln_literal literal = {ln_schema_describe(s, value), false};
        return ln_expr_rule(b, ln_schema_rule(s, (ln_literals){&literal, 1}));
    }
    char *text = write_scalar(s, value, &n_bytes);
    ln_expr *expr = ln_expr_bytes(b, text != NULL ? text : "", n_bytes);
    free(text);
    return expr;
}

/* An integer as 1 and as 1.0; neither where it has too many digits for that. */
static ln_expr *write_whole(ln_grammar_builder *b, json_t *value) {
    char text[32];
    double number = json_number_value(value);
    if (number > 9e15 || number < -9e15)
        return ln_expr_list(b, LN_EXPR_CHOICE);
    snprintf(text, sizeof text, "%.0f", number);
    ln_expr *zero = ln_expr_optional(b, ln_expr_text(b, ".0"));
    return ln_expr_sequence(b, ln_expr_text(b, text), zero, NULL);
}

/* Adds the value to the choice, unless it was seen. */
static void add_container(ln_schema *s, json_t *value, json_t *seen, ln_expr *choice) {
    char *text = ln_json_dump(s->builder, value);
    if (text != NULL && json_object_get(seen, text) == NULL) {
        json_object_set_new(seen, text, json_true());
        ln_expr_add(s->builder, choice, ln_schema_value(s, value));
    }
    free(text);
}

/* Those of the values that satisfy the set. */
static ln_expr *read_values(ln_schema *s, ln_literals set, const ln_shape *shape) {
    ln_grammar_builder *b = s->builder;
    size_t i, n = 0;
    ln_text *texts = calloc(json_array_size(shape->values) + 1, sizeof *texts);
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    json_t *value, *seen = json_object();
    if (texts == NULL)
        ln_grammar_fail_memory(b);
    s->own_values = shape->values;
    json_array_foreach(texts != NULL ? shape->values : NULL, i, value) {
        ln_schema_check_exact(s, value);
        if ((shape->types & ln_schema_type_of(value)) == 0 || !ln_schema_hold_all(s, set, value))
            continue;
        if (json_is_object(value) || json_is_array(value))
            add_container(s, value, seen, choice);
        else
            texts[n].bytes = write_scalar(s, value, &texts[n].n_bytes), n++;
        if ((shape->types & LN_IS_FRACTION) != 0 && ln_schema_type_of(value) == LN_IS_INTEGER)
            ln_expr_add(b, choice, write_whole(b, value));
    }
    s->own_values = NULL;
    json_decref(seen);
    if (n > 0 && b->status == LINNET_OK)
        ln_expr_add(b, choice,
                    ln_expr_rule(b, ln_rule_add_terminal(b, "a value of an enum",
                                                         ln_expr_texts(b, texts, n))));
    for (i = 0; i < n; i++)
        free((char *)(uintptr_t)texts[i].bytes);
    free(texts);
    return choice;
}

/* ---- shapes ------------------------------------------------------------------------------------
 */

static bool excludes(const ln_shape *shape, json_type type) {
    json_t *value;
    size_t i;
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next) {
        json_array_foreach(atom->kind == LN_ATOM_NOT_VALUES ? atom->value : NULL, i, value) {
            if (json_typeof(value) == type)
                return true;
        }
    }
    return false;
}

static ln_expr *read_shape(ln_schema *s, ln_literals set, const ln_shape *shape) {
    ln_grammar_builder *b = s->builder;
    if (shape->has_values)
        return read_values(s, set, shape);
    if (shape->types == LN_IS_ANY && shape->atoms == NULL)
        return ln_expr_rule(b, s->rules->value);
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    if ((shape->types & LN_IS_OBJECT) != 0)
        ln_expr_add(b, choice, ln_schema_read_object(s, shape));
    if ((shape->types & LN_IS_ARRAY) != 0)
        ln_expr_add(b, choice, ln_schema_read_array(s, shape));
    if ((shape->types & LN_IS_STRING) != 0)
        ln_expr_add(b, choice, ln_schema_read_string(s, shape));
    if ((shape->types & LN_IS_NUMBER) != 0)
        ln_expr_add(b, choice, ln_schema_read_number(s, shape));
    if ((shape->types & LN_IS_BOOLEAN) != 0 && !excludes(shape, JSON_TRUE))
        ln_expr_add(b, choice, ln_expr_text(b, "true"));
    if ((shape->types & LN_IS_BOOLEAN) != 0 && !excludes(shape, JSON_FALSE))
        ln_expr_add(b, choice, ln_expr_text(b, "false"));
    if ((shape->types & LN_IS_NULL) != 0 && !excludes(shape, JSON_NULL))
        ln_expr_add(b, choice, ln_expr_text(b, "null"));
    return choice;
}

static ln_expr *read_set(ln_schema *s, ln_literals set) {
    ln_expr *choice = ln_expr_list(s->builder, LN_EXPR_CHOICE);
    for (const ln_shape *shape = ln_schema_expand(s, set, LN_IS_ANY);
         shape != NULL && s->builder->status == LINNET_OK; shape = shape->next)
        ln_expr_add(s->builder, choice, read_shape(s, set, shape));
    return choice;
}

/* ---- rules -------------------------------------------------------------------------------------
 */

/* A text that is the same for equal sets; owned. */
static char *name_set(ln_literals set) {
    char *name = malloc(set.n * 24 + 8);
    size_t n = 0;
    if (name == NULL)
        return NULL;
    n += (size_t)sprintf(name, "set");
    for (size_t i = 0; i < set.n; i++)
        n += (size_t)sprintf(name + n, "%c%p", set.items[i].negated ? '!' : ' ',
                             (void *)set.items[i].schema);
    return name;
}

uint32_t ln_schema_rule(ln_schema *s, ln_literals set) {
    ln_grammar_builder *b = s->builder;
    if (b->status != LINNET_OK)
        return 0;
    set = reduce(s, set);
    if (set.n == 0)
        return s->rules->value;
    char *name = name_set(set);
    ln_schema_work *work = ln_schema_allocate(s, 1, sizeof *work);
    if (name == NULL || work == NULL) {
        ln_grammar_fail_memory(b);
        free(name);
        return 0;
    }
    json_t *known = json_object_get(s->known, name);
    uint32_t rule = (uint32_t)json_integer_value(known);
    if (known == NULL) {
        rule = ln_json_rule(b, "a value", NULL);
        json_object_set_new(s->known, name, json_integer(rule));
        *work = (ln_schema_work){set, rule, NULL};
        if (s->last != NULL)
            s->last->next = work;
        else
            s->first = work;
        s->last = work;
    }
    free(name);
    return rule;
}

/* Bodies name further sets, whose rules come at the end of the list. */
static void make_bodies(ln_schema *s) {
    ln_grammar_builder *b = s->builder;
    for (const ln_schema_work *work = s->first; work != NULL; work = work->next) {
        ln_expr *body = read_set(s, work->set);
        if (b->status != LINNET_OK)
            return;
        b->rules[work->rule].body = body;
    }
}

uint32_t ln_schema_add(ln_grammar_builder *builder, const ln_json_rules *rules, json_t *root,
                       bool is_closed) {
    ln_schema s = {.builder = builder,
                   .rules = rules,
                   .root = root,
                   .resources = json_object(),
                   .kept = json_array(),
                   .known = json_object(),
                   .is_closed = is_closed};
    const ln_literal literal = {root, false};
    uint32_t rule = 0;
    if (s.resources == NULL || s.kept == NULL || s.known == NULL)
        ln_grammar_fail_memory(builder);
    if (builder->status == LINNET_OK)
        ln_schema_index(&s);
    rule = ln_schema_rule(&s, (ln_literals){&literal, 1});
    make_bodies(&s);
    json_decref(s.resources);
    json_decref(s.kept);
    json_decref(s.known);
    return rule;
}
