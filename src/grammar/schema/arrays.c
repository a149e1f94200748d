/* Arrays: items one after another. */
#include <stdlib.h>
#include <string.h>

#include "grammar/regex.h"
#include "grammar/schema/schema.h"

enum { MAX_CONTAINS = 4, MAX_STATES = 8192, MAX_UNIQUE = 10 };

typedef struct array_reader {
    ln_schema *schema;
    const ln_shape *shape;
    uint32_t n_prefix; /* items that may have schemas of their own */
    uint32_t min, max;
    const ln_atom *contains[MAX_CONTAINS];
    uint32_t n_contains;
} array_reader;

/* ---- what an item satisfies --------------------------------------------------------------------
 */

/* What unevaluatedItems says of an item: NULL: nothing, as it is evaluated. */
static json_t *find_unevaluated(const array_reader *a, const ln_atom *unevaluated, uint32_t at) {
    ln_schema *s = a->schema;
    json_t *or_contained = NULL;
    for (const ln_atom *atom = a->shape->atoms; atom != NULL; atom = atom->next) {
        if (!ln_scope_is_within(atom->scope, unevaluated->scope))
            continue;
        if ((atom->kind == LN_ATOM_UNEVALUATED_ITEMS && atom->scope != unevaluated->scope) ||
            (atom->kind == LN_ATOM_ITEMS &&
             (at < json_array_size(ln_schema_prefix(s, atom->schema)) ||
              ln_schema_items(s, atom->schema) != NULL)))
            return NULL;
        if (atom->kind == LN_ATOM_CONTAINS && or_contained == NULL)
            or_contained = json_pack("{s[OO]}", "anyOf", atom->value, unevaluated->value);
    }
    return or_contained != NULL ? ln_schema_keep(s, or_contained) : unevaluated->value;
}

static void add_item_set(const array_reader *a, uint32_t at, ln_literal_list *list) {
    ln_schema *s = a->schema;
    for (const ln_atom *atom = a->shape->atoms; atom != NULL; atom = atom->next) {
        json_t *own = NULL;
        if (atom->kind == LN_ATOM_ITEMS) {
            json_t *prefix = ln_schema_prefix(s, atom->schema);
            own = at < json_array_size(prefix) ? json_array_get(prefix, at)
                                               : ln_schema_items(s, atom->schema);
        } else if (atom->kind == LN_ATOM_UNEVALUATED_ITEMS) {
            own = find_unevaluated(a, atom, at);
        } else if (atom->kind == LN_ATOM_ITEM && atom->low == at) {
            ln_schema_add_literal(s, list, atom->value, atom->negated);
        }
        if (own != NULL)
            ln_schema_add_literal(s, list, own, false);
    }
}

static ln_literals item_set(const array_reader *a, uint32_t at) {
    ln_literal_list list = {0};
    add_item_set(a, at, &list);
    return ln_schema_get_literals(&list);
}

static ln_expr *separated(ln_schema *s, bool is_first, ln_expr *item) {
    ln_grammar_builder *b = s->builder;
    if (is_first)
        return item;
    return ln_expr_sequence(b, ln_expr_text(b, ","), ln_expr_rule(b, s->rules->space), item, NULL);
}

/* ---- by position -------------------------------------------------------------------------------
 */

/* Items after the prefix, `before` of which came. */
static ln_expr *more_items(const array_reader *a, uint32_t before) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    uint32_t min = a->min > before ? a->min - before : 0;
    uint32_t max = a->max == LN_NO_LIMIT ? LN_NO_LIMIT : a->max - before;
    if (max == 0)
        return ln_expr_empty(b);
    uint32_t item = ln_schema_rule(s, item_set(a, before));
    if (before > 0)
        return ln_expr_repeat(b, separated(s, false, ln_expr_rule(b, item)), min, max);
    ln_expr *more = ln_expr_repeat(b, separated(s, false, ln_expr_rule(b, item)),
                                   min > 0 ? min - 1 : 0, max == LN_NO_LIMIT ? max : max - 1);
    ln_expr *some = ln_expr_sequence(b, ln_expr_rule(b, item), more, NULL);
    return min > 0 ? some : ln_expr_optional(b, some);
}

/* All items: those of the prefix one after another, from the last one back. */
static uint32_t chain_items(const array_reader *a) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    uint32_t n = a->n_prefix < a->max ? a->n_prefix : a->max;
    uint32_t rest = ln_json_rule(b, "items", more_items(a, n));
    for (uint32_t i = n; i-- > 0 && b->status == LINNET_OK;) {
        ln_expr *item = ln_expr_rule(b, ln_schema_rule(s, item_set(a, i)));
        ln_expr *here =
            ln_expr_sequence(b, separated(s, i == 0, item), ln_expr_rule(b, rest), NULL);
        if (i >= a->min)
            here = ln_expr_optional(b, here);
        rest = ln_json_rule(b, "items", here);
    }
    return rest;
}

/* ---- with items that must be among them --------------------------------------------------------
 */

/* How many items there are, and how many of them each `contains` has counted; both as far as they
 * matter. */
typedef struct item_state {
    uint32_t n, counts[MAX_CONTAINS];
} item_state;

typedef struct item_machine {
    const array_reader *a;
    uint32_t cap, caps[MAX_CONTAINS];
    uint32_t *rules; /* [states] */
    uint32_t n_states;
} item_machine;

static uint32_t state_index(const item_machine *m, const item_state *state) {
    uint32_t index = state->n;
    for (uint32_t i = 0; i < m->a->n_contains; i++)
        index = index * (m->caps[i] + 1) + state->counts[i];
    return index;
}

static item_state state_at(const item_machine *m, uint32_t index) {
    item_state state = {0};
    for (uint32_t i = m->a->n_contains; i-- > 0; index /= m->caps[i] + 1)
        state.counts[i] = index % (m->caps[i] + 1);
    state.n = index;
    return state;
}

/* The next item, which those of `counted` count; and what comes after it. NULL: impossible. */
static ln_expr *item_of(const item_machine *m, const item_state *state, unsigned counted) {
    const array_reader *a = m->a;
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    ln_literal_list list = {0};
    item_state next = *state;
    add_item_set(a, state->n < a->n_prefix ? state->n : a->n_prefix, &list);
    for (uint32_t i = 0; i < a->n_contains; i++) {
        const ln_atom *c = a->contains[i];
        bool counts = (counted >> i & 1) != 0, is_limited = c->high != LN_NO_LIMIT;
        bool is_enough = !is_limited && state->counts[i] >= c->low;
        if (counts &&
            (is_enough || state->n < c->from || (is_limited && state->counts[i] == c->high)))
            return NULL;
        if (counts)
            next.counts[i]++;
        if (counts || (is_limited && state->n >= c->from))
            ln_schema_add_literal(s, &list, c->value, counts ? c->negated : !c->negated);
    }
    next.n += next.n < m->cap;
    ln_expr *item = ln_expr_rule(b, ln_schema_rule(s, ln_schema_get_literals(&list)));
    return ln_expr_sequence(b, separated(s, state->n == 0, item),
                            ln_expr_rule(b, m->rules[state_index(m, &next)]), NULL);
}

static ln_expr *read_state(const item_machine *m, const item_state *state) {
    const array_reader *a = m->a;
    ln_grammar_builder *b = a->schema->builder;
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    bool may_end = state->n >= a->min;
    for (uint32_t i = 0; i < a->n_contains; i++)
        may_end = may_end && state->counts[i] >= a->contains[i]->low;
    if (may_end)
        ln_expr_add(b, choice, ln_expr_empty(b));
    for (unsigned counted = 0; counted < 1u << a->n_contains && state->n < a->max; counted++) {
        ln_expr *item = item_of(m, state, counted);
        if (item != NULL)
            ln_expr_add(b, choice, item);
    }
    return choice;
}

static uint32_t count_items(const array_reader *a) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    item_machine m = {.a = a, .cap = a->max != LN_NO_LIMIT ? a->max : a->min};
    uint64_t n_states = 1;
    if (m.cap < a->n_prefix)
        m.cap = a->n_prefix;
    if (m.cap == 0)
        m.cap = 1;
    for (uint32_t i = 0; i < a->n_contains; i++) {
        const ln_atom *c = a->contains[i];
        m.caps[i] = c->high != LN_NO_LIMIT ? c->high : c->low;
        if (c->low > MAX_STATES || n_states > MAX_STATES)
            n_states = MAX_STATES;
        else
            n_states *= (uint64_t)m.caps[i] + 1;
    }
    n_states *= (uint64_t)m.cap + 1;
    if (n_states > MAX_STATES) {
        ln_schema_unsupported(s, "contains with so many items");
        return 0;
    }
    m.n_states = (uint32_t)n_states;
    m.rules = ln_schema_allocate(s, m.n_states, sizeof *m.rules);
    for (uint32_t i = 0; i < m.n_states && b->status == LINNET_OK; i++)
        m.rules[i] = ln_json_rule(b, "items", NULL);
    for (uint32_t i = 0; i < m.n_states && b->status == LINNET_OK; i++) {
        item_state state = state_at(&m, i);
        ln_expr *body = read_state(&m, &state);
        if (b->status == LINNET_OK)
            b->rules[m.rules[i]].body = body;
    }
    return b->status == LINNET_OK ? m.rules[0] : 0;
}

/* ---- items that differ -------------------------------------------------------------------------
 */

/* The values that an item can have, when these are few; NULL: they are not. Owned. */
static json_t *list_values(const array_reader *a) {
    ln_schema *s = a->schema;
    ln_literals set = item_set(a, 0);
    json_t *values = json_array(), *value, *known;
    bool is_finite = a->n_prefix == 0 && a->n_contains == 0;
    const ln_shape *shape = is_finite ? ln_schema_expand(s, set, LN_IS_ANY) : NULL;
    size_t i, j;
    for (; shape != NULL && is_finite; shape = shape->next) {
        is_finite = shape->has_values;
        json_array_foreach(shape->values, i, value) {
            bool is_new =
                (shape->types & ln_schema_type_of(value)) != 0 && ln_schema_hold_all(s, set, value);
            json_array_foreach(values, j, known) {
                is_new = is_new && !ln_schema_are_equal(s, value, known);
            }
            if (is_new)
                json_array_append(values, value);
        }
    }
    if (is_finite && json_array_size(values) <= MAX_UNIQUE)
        return values;
    json_decref(values);
    return NULL;
}

/* A rule for each set of values that were used. */
static uint32_t permute(const array_reader *a, json_t *values) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    unsigned n = (unsigned)json_array_size(values);
    uint32_t rules[1 << MAX_UNIQUE] = {0};
    for (unsigned used = 1u << n; used-- > 0 && b->status == LINNET_OK;) {
        unsigned n_used = (unsigned)__builtin_popcount(used);
        ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
        if (n_used >= a->min)
            ln_expr_add(b, choice, ln_expr_empty(b));
        for (unsigned i = 0; i < n && n_used < a->max; i++)
            if ((used >> i & 1) == 0)
                ln_expr_add(
                    b, choice,
                    ln_expr_sequence(
                        b, separated(s, used == 0, ln_schema_value(s, json_array_get(values, i))),
                        ln_expr_rule(b, rules[used | 1u << i]), NULL));
        rules[used] = ln_json_rule(b, "items that differ", choice);
    }
    return rules[0];
}

/* ---- items that differ, of a regular language ---------------------------------------------------
 */

static bool is_container(const json_t *value) {
    return json_is_object(value) || json_is_array(value);
}

/* Whether the items may be objects or arrays, whose texts say little about whether they differ. */
static bool has_containers(ln_schema *s, ln_literals set, const ln_shape *shape) {
    json_t *value;
    size_t i;
    for (; shape != NULL; shape = shape->next) {
        if (!shape->has_values && (shape->types & (LN_IS_OBJECT | LN_IS_ARRAY)) != 0)
            return true;
        json_array_foreach(shape->has_values ? shape->values : NULL, i, value) {
            if (is_container(value) && ln_schema_hold_all(s, set, value))
                return true;
        }
    }
    return false;
}

/* Adds the numbers of a shape, each written in one way. */
static void add_numbers(ln_schema *s, ln_literals set, const ln_shape *shape, ln_expr *all) {
    static const char canonical[] = "-?[1-9][0-9]*(\\.[0-9]*[1-9])?|-?0\\.[0-9]*[1-9]|0";
    ln_grammar_builder *b = s->builder;
    ln_expr *numbers = ln_expr_list(b, LN_EXPR_CHOICE);
    json_t *value;
    size_t i;
    json_array_foreach(shape->has_values ? shape->values : NULL, i, value) {
        ln_schema_check_exact(s, value);
        if (json_is_number(value) && ln_schema_hold_all(s, set, value))
            ln_expr_add(b, numbers, ln_schema_value(s, value));
    }
    if (!shape->has_values && (shape->types & LN_IS_NUMBER) != 0) {
        const ln_expr *rule = ln_schema_read_number(s, shape);
        if (b->status != LINNET_OK || rule->kind != LN_EXPR_RULE)
            return;
        ln_expr_add(b, numbers, ln_language_expr(b, ln_language_of(b, b->rules[rule->rule].body)));
    }
    ln_expr *one_way = ln_regex_read(b, canonical, sizeof canonical - 1);
    ln_expr_add(b, all,
                ln_language_expr(
                    b, ln_language_and(b, ln_language_of(b, numbers), ln_language_of(b, one_way))));
}

/* The rule of an item that differs from those before it: null, booleans, numbers and strings. */
static uint32_t unique_item(const array_reader *a) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    ln_literals set = item_set(a, 0);
    const ln_shape *shapes = ln_schema_expand(s, set, LN_IS_ANY);
    ln_expr *all = ln_expr_list(b, LN_EXPR_CHOICE);
    json_t *const words[] = {json_null(), json_true(), json_false()};
    if (a->n_prefix > 0 || a->n_contains > 0 || has_containers(s, set, shapes))
        ln_schema_unsupported(s, "uniqueItems of objects or arrays, or beside prefixItems or "
                                 "contains,");
    for (size_t i = 0; i < 3 && b->status == LINNET_OK; i++)
        if (ln_schema_hold_all(s, set, words[i]))
            ln_expr_add(b, all, ln_schema_value(s, words[i]));
    for (const ln_shape *shape = shapes; shape != NULL && b->status == LINNET_OK;
         shape = shape->next)
        add_numbers(s, set, shape, all);
    if (b->status != LINNET_OK)
        return 0;
    ln_expr_add(b, all, ln_language_expr(b, ln_schema_strings(s, set)));
    uint32_t rule = ln_rule_add_terminal(b, "an item that differs", all);
    if (b->status == LINNET_OK)
        b->rules[rule].is_unique = true;
    return rule;
}

static uint32_t differ(const array_reader *a) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    static const ln_object none;
    uint32_t item = unique_item(a), n_ends = 0;
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    if (b->status == LINNET_OK) {
        const ln_dfa *language = ln_language_of(b, b->rules[item].body);
        const uint32_t *ends = ln_dfa_count_ends(language, &b->arena);
        n_ends = ends != NULL && language->n_states > 1 ? ends[LN_DFA_START] : 0;
    }
    if (a->min == 0)
        ln_expr_add(b, choice, ln_expr_empty(b));
    if (n_ends > 0 && n_ends >= a->min) {
        uint32_t max = a->max == LN_NO_LIMIT ? LN_NO_LIMIT : a->max - 1;
        ln_expr *more = ln_expr_sequence(b, ln_expr_guard(b, &none, LN_GUARD_UNSEEN, item, 0),
                                         separated(s, false, ln_expr_rule(b, item)), NULL);
        ln_expr_add(b, choice,
                    ln_expr_sequence(b, ln_expr_rule(b, item),
                                     ln_expr_repeat(b, more, a->min > 0 ? a->min - 1 : 0, max),
                                     NULL));
    }
    return ln_json_rule(b, "items that differ", choice);
}

/* ---- arrays ------------------------------------------------------------------------------------
 */

static void read_atoms(array_reader *a, bool *is_unique) {
    ln_schema *s = a->schema;
    for (const ln_atom *atom = a->shape->atoms; atom != NULL; atom = atom->next) {
        uint32_t n_prefix = 0;
        if (atom->kind == LN_ATOM_ITEMS)
            n_prefix = (uint32_t)json_array_size(ln_schema_prefix(s, atom->schema));
        else if (atom->kind == LN_ATOM_ITEM)
            n_prefix = atom->low + 1;
        else if (atom->kind == LN_ATOM_CONTAINS)
            n_prefix = atom->from;
        a->n_prefix = n_prefix > a->n_prefix ? n_prefix : a->n_prefix;
        if (atom->kind == LN_ATOM_N_ITEMS) {
            a->min = atom->low > a->min ? atom->low : a->min;
            a->max = atom->high < a->max ? atom->high : a->max;
        }
        *is_unique |= atom->kind == LN_ATOM_UNIQUE;
        if (atom->kind == LN_ATOM_UNIQUE && atom->negated)
            ln_schema_unsupported(s, "not of uniqueItems");
        if (atom->kind == LN_ATOM_CONTAINS && a->n_contains == MAX_CONTAINS)
            ln_schema_unsupported(s, "so many contains");
        else if (atom->kind == LN_ATOM_CONTAINS)
            a->contains[a->n_contains++] = atom;
    }
    if (a->n_prefix > LN_GRAMMAR_MAX_RULES / 8)
        ln_schema_unsupported(s, "an array of more than 4096 items with schemas of their own");
}

static bool is_about_arrays(const ln_atom *atom) {
    return (atom->kind >= LN_ATOM_ITEMS && atom->kind <= LN_ATOM_UNIQUE) ||
           atom->kind == LN_ATOM_UNEVALUATED_ITEMS;
}

ln_expr *ln_schema_read_array(ln_schema *s, const ln_shape *shape) {
    ln_grammar_builder *b = s->builder;
    array_reader a = {.schema = s, .shape = shape, .max = LN_NO_LIMIT};
    const ln_atom *atom = shape->atoms;
    bool is_unique = false;
    uint32_t items;
    while (atom != NULL && !is_about_arrays(atom))
        atom = atom->next;
    if (atom == NULL)
        return ln_expr_rule(b, s->rules->array);
    read_atoms(&a, &is_unique);
    if (a.min > a.max || b->status != LINNET_OK)
        return ln_expr_list(b, LN_EXPR_CHOICE);
    json_t *values = is_unique && a.max > 1 ? list_values(&a) : NULL;
    if (values != NULL)
        items = permute(&a, values);
    else if (is_unique && a.max > 1)
        items = differ(&a);
    else
        items = a.n_contains > 0 ? count_items(&a) : chain_items(&a);
    json_decref(values);
    return ln_expr_sequence(b, ln_expr_text(b, "["), ln_expr_rule(b, s->rules->space),
                            ln_expr_rule(b, items), ln_expr_rule(b, s->rules->space),
                            ln_expr_text(b, "]"), NULL);
}
