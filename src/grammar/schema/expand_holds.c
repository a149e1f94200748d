/* What a schema says of a value that satisfies it. */
#include <stdio.h>

#include "grammar/schema/expand.h"

/* ---- keywords of schemas that hold -------------------------------------------------------------
 */

static void take_values(expander *e, branch *b, json_t *schema) {
    json_t *values = ln_schema_get(e->schema, schema, "enum", 'a');
    json_t *one = json_object_get(schema, "const");
    if (values != NULL && json_array_size(values) == 0)
        ln_schema_malformed(e->schema, "enum", "an array of values");
    if (one != NULL)
        values = ln_schema_keep(e->schema, json_pack("[O]", one));
    if (values == NULL)
        return;
    if (!b->has_values || json_array_size(values) < json_array_size(b->values))
        b->values = values;
    b->has_values = true;
}

static void take_numbers(expander *e, branch *b, json_t *schema) {
    static const struct {
        const char *name, *exclusive;
        ln_atom_kind kind;
    } bounds[] = {{"minimum", "exclusiveMinimum", LN_ATOM_ABOVE},
                  {"maximum", "exclusiveMaximum", LN_ATOM_BELOW}};
    json_t *multiple = json_object_get(schema, "multipleOf");
    for (size_t i = 0; i < 2; i++) {
        json_t *bound = json_object_get(schema, bounds[i].name);
        json_t *exclusive = json_object_get(schema, bounds[i].exclusive);
        if (bound != NULL && !json_is_number(bound))
            ln_schema_malformed(e->schema, bounds[i].name, "a number");
        else if (bound != NULL)
            ln_expand_add_atom(e, b,
                               (ln_atom){.kind = bounds[i].kind,
                                         .value = bound,
                                         .excluded = json_is_true(exclusive)}); /* before draft 6 */
        if (json_is_number(exclusive))
            ln_expand_add_atom(
                e, b, (ln_atom){.kind = bounds[i].kind, .value = exclusive, .excluded = true});
        else if (exclusive != NULL && !json_is_boolean(exclusive))
            ln_schema_malformed(e->schema, bounds[i].exclusive, "a number");
    }
    if (multiple != NULL && (!json_is_number(multiple) || json_number_value(multiple) <= 0))
        ln_schema_malformed(e->schema, "multipleOf", "a number above 0");
    else if (multiple != NULL)
        ln_expand_add_atom(e, b, (ln_atom){.kind = LN_ATOM_MULTIPLE, .value = multiple});
}

static void take_counts(expander *e, branch *b, json_t *schema) {
    static const struct {
        const char *min, *max;
        ln_atom_kind kind;
    } counts[] = {{"minLength", "maxLength", LN_ATOM_LENGTH},
                  {"minProperties", "maxProperties", LN_ATOM_MEMBERS},
                  {"minItems", "maxItems", LN_ATOM_N_ITEMS}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t low = ln_schema_count(e->schema, schema, counts[i].min, 0);
        uint32_t high = ln_schema_count(e->schema, schema, counts[i].max, LN_NO_LIMIT);
        if (low > 0 || high != LN_NO_LIMIT)
            ln_expand_add_atom(e, b, (ln_atom){.kind = counts[i].kind, .low = low, .high = high});
    }
}

static void take_strings(expander *e, branch *b, json_t *schema) {
    json_t *pattern = ln_schema_get(e->schema, schema, "pattern", 's');
    json_t *format = ln_schema_get_format(e->schema, schema);
    if (pattern != NULL)
        ln_expand_add_atom(e, b, (ln_atom){.kind = LN_ATOM_PATTERN, .value = pattern});
    if (format != NULL)
        ln_expand_add_atom(e, b, (ln_atom){.kind = LN_ATOM_FORMAT, .value = format});
}

static void take_objects(expander *e, branch *b, json_t *schema, const ln_scope *scope) {
    ln_schema *s = e->schema;
    json_t *names = json_object_get(schema, "propertyNames"), *name;
    json_t *unevaluated = json_object_get(schema, "unevaluatedProperties");
    size_t i;
    ln_schema_get(s, schema, "properties", 'o');
    ln_schema_get(s, schema, "patternProperties", 'o');
    if (json_object_get(schema, "properties") != NULL ||
        json_object_get(schema, "patternProperties") != NULL ||
        json_object_get(schema, "additionalProperties") != NULL)
        ln_expand_add_atom(e, b,
                           (ln_atom){.kind = LN_ATOM_FIELDS, .schema = schema, .scope = scope});
    json_array_foreach(ln_schema_get(s, schema, "required", 'a'), i, name) {
        if (json_is_string(name))
            ln_expand_add_atom(e, b,
                               (ln_atom){.kind = LN_ATOM_HAS, .name = json_string_value(name)});
        else
            ln_schema_malformed(s, "required", "an array of names");
    }
    if (names != NULL)
        ln_expand_add_atom(e, b, (ln_atom){.kind = LN_ATOM_NAMES, .value = names});
    if (unevaluated != NULL)
        ln_expand_add_atom(e, b,
                           (ln_atom){.kind = LN_ATOM_UNEVALUATED_MEMBERS,
                                     .schema = schema,
                                     .value = unevaluated,
                                     .scope = scope});
}

static void take_arrays(expander *e, branch *b, json_t *schema, const ln_scope *scope) {
    ln_schema *s = e->schema;
    json_t *contains = json_object_get(schema, "contains");
    json_t *unevaluated = json_object_get(schema, "unevaluatedItems");
    if (ln_schema_prefix(s, schema) != NULL || ln_schema_items(s, schema) != NULL)
        ln_expand_add_atom(e, b,
                           (ln_atom){.kind = LN_ATOM_ITEMS, .schema = schema, .scope = scope});
    if (contains != NULL)
        ln_expand_add_atom(e, b,
                           (ln_atom){.kind = LN_ATOM_CONTAINS,
                                     .value = contains,
                                     .low = ln_schema_count(s, schema, "minContains", 1),
                                     .high = ln_schema_count(s, schema, "maxContains", LN_NO_LIMIT),
                                     .scope = scope});
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        ln_expand_add_atom(e, b, (ln_atom){.kind = LN_ATOM_UNIQUE});
    if (unevaluated != NULL)
        ln_expand_add_atom(e, b,
                           (ln_atom){.kind = LN_ATOM_UNEVALUATED_ITEMS,
                                     .schema = schema,
                                     .value = unevaluated,
                                     .scope = scope});
}

/* ---- what they leave open ----------------------------------------------------------------------
 */

/* Whether no value satisfies both, as far as that is seen quickly. */
static bool are_apart(ln_schema *s, json_t *a, json_t *b) {
    const ln_literal both[] = {{a, false}, {b, false}};
    return ln_schema_is_empty(s, (ln_literals){both, 2});
}

static void take_one_of(expander *e, branch *b, json_t *parts, const ln_scope *scope) {
    choice *c = ln_expand_choice(e, b);
    for (size_t i = json_array_size(parts); i-- > 0;) {
        const task *tasks = ln_expand_task(e, NULL, json_array_get(parts, i), false, scope);
        for (size_t j = 0; j < json_array_size(parts) && !e->is_rough; j++)
            if (j != i && (scope != NULL || !are_apart(e->schema, json_array_get(parts, i),
                                                       json_array_get(parts, j))))
                tasks = ln_expand_task(e, tasks, json_array_get(parts, j), true, NULL);
        ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = tasks});
    }
}

/* Where it matters which of them hold, each holds or not. */
static void take_any_of(expander *e, branch *b, json_t *parts, const ln_scope *scope) {
    size_t n = json_array_size(parts);
    choice *c = ln_expand_choice(e, b);
    if (scope == NULL || e->is_rough) {
        for (size_t i = n; i-- > 0;)
            ln_expand_schema_way(e, c, json_array_get(parts, i), false, scope);
        return;
    }
    if (n > 6) {
        ln_schema_unsupported(e->schema,
                              "anyOf with more than 6 schemas beside unevaluated members or items");
        return;
    }
    for (unsigned held = 1; held < 1u << n; held++) {
        const task *tasks = NULL;
        for (size_t i = 0; i < n; i++)
            tasks = ln_expand_task(e, tasks, json_array_get(parts, i), (held >> i & 1) == 0,
                                   (held >> i & 1) != 0 ? scope : NULL);
        ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = tasks});
    }
}

static void take_condition(expander *e, branch *b, json_t *schema, const ln_scope *scope) {
    json_t *condition = json_object_get(schema, "if"), *then = json_object_get(schema, "then");
    json_t *otherwise = json_object_get(schema, "else");
    if (condition == NULL || (then == NULL && otherwise == NULL && scope == NULL))
        return;
    choice *c = ln_expand_choice(e, b);
    const task *no = ln_expand_task(e, NULL, condition, true, NULL);
    const task *yes = ln_expand_task(e, NULL, condition, false, scope);
    if (otherwise != NULL)
        no = ln_expand_task(e, no, otherwise, false, scope);
    if (then != NULL)
        yes = ln_expand_task(e, yes, then, false, scope);
    ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = no});
    ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = yes});
}

/* The member is missing, or what depends on it holds. */
static void take_dependents(expander *e, branch *b, json_t *schema, const char *keyword,
                            const ln_scope *scope) {
    json_t *dependents = ln_schema_get(e->schema, schema, keyword, 'o'), *dependent, *name;
    const char *key;
    size_t i;
    json_object_foreach(dependents, key, dependent) {
        choice *c = ln_expand_choice(e, b);
        ln_expand_way(e, c, (way){.types = LN_IS_ANY & ~(unsigned)LN_IS_OBJECT});
        json_t *required = NULL;
        if (json_is_array(dependent)) {
            required = json_object();
            json_array_foreach(dependent, i, name) {
                if (!json_is_string(name))
                    ln_schema_malformed(e->schema, keyword, "an object of arrays of names");
            }
            json_object_set(required, "required", dependent);
            dependent = ln_schema_keep(e->schema, required);
        }
        const task *tasks = ln_expand_task(e, NULL, dependent, false, scope);
        ln_expand_way(
            e, c,
            (way){.types = LN_IS_OBJECT,
                  .tasks = tasks,
                  .atom = ln_expand_atom(e, (ln_atom){.kind = LN_ATOM_HAS, .name = key})});
        ln_expand_atom_way(e, c, LN_IS_OBJECT, (ln_atom){.kind = LN_ATOM_LACKS, .name = key});
    }
}

static json_t *get_parts(expander *e, json_t *schema, const char *keyword) {
    json_t *parts = ln_schema_get(e->schema, schema, keyword, 'a');
    if (parts != NULL && json_array_size(parts) == 0)
        ln_schema_malformed(e->schema, keyword, "an array of schemas");
    return parts;
}

/* A schema that also allows null, as OpenAPI has it. */
static bool take_nullable(expander *e, branch *b, json_t *schema, const ln_scope *scope) {
    char key[64];
    if (!json_is_true(json_object_get(schema, "nullable")))
        return false;
    snprintf(key, sizeof key, "not nullable %p", (void *)schema);
    json_t *rest = json_object_get(e->schema->known, key);
    if (rest == NULL) {
        rest = json_copy(schema);
        json_object_del(rest, "nullable");
        json_object_set_new(e->schema->known, key, rest);
    }
    choice *c = ln_expand_choice(e, b);
    ln_expand_schema_way(e, c, rest, false, scope);
    ln_expand_way(e, c, (way){.types = LN_IS_NULL});
    return true;
}

void ln_expand_holds(expander *e, branch *b, json_t *schema, const ln_scope *scope) {
    ln_schema *s = e->schema;
    json_t *target;
    size_t i;
    if (ln_schema_get_reference(s, schema, &target)) {
        if (target != NULL)
            ln_expand_push(e, b, target, false, scope);
        if (!s->keeps_beside_ref)
            return;
    }
    if (take_nullable(e, b, schema, scope))
        return;
    if (json_object_get(schema, "unevaluatedProperties") != NULL ||
        json_object_get(schema, "unevaluatedItems") != NULL) {
        ln_scope *own = ln_schema_allocate(s, 1, sizeof *own);
        if (own == NULL)
            return;
        *own = (ln_scope){schema, scope};
        scope = own;
        if (json_object_get(schema, "$ref") != NULL) /* evaluates within it, too */
            ln_expand_push(e, b, target, false, scope);
    }
    b->types &= ln_schema_types(s, schema);
    take_values(e, b, schema);
    take_numbers(e, b, schema);
    take_counts(e, b, schema);
    take_strings(e, b, schema);
    take_objects(e, b, schema, scope);
    take_arrays(e, b, schema, scope);
    json_t *all = get_parts(e, schema, "allOf"), *not = json_object_get(schema, "not");
    json_t *any = get_parts(e, schema, "anyOf"), *one = get_parts(e, schema, "oneOf");
    for (i = json_array_size(all); i-- > 0;)
        ln_expand_push(e, b, json_array_get(all, i), false, scope);
    if (not != NULL)
        ln_expand_push(e, b, not, true, NULL);
    if (any != NULL)
        take_any_of(e, b, any, scope);
    if (one != NULL)
        take_one_of(e, b, one, scope);
    take_condition(e, b, schema, scope);
    take_dependents(e, b, schema, "dependentRequired", scope);
    take_dependents(e, b, schema, "dependentSchemas", scope);
    take_dependents(e, b, schema, "dependencies", scope);
}
