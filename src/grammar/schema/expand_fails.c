/* What a schema says of a value that does not satisfy it: some keyword does not hold. A keyword
 * that is about values of one type only fails for such. */
#include "grammar/schema/expand.h"

/* The value is none of these: objects and arrays among them differ as schemas do. */
static void fail_list(expander *e, choice *c, json_t *values) {
    const task *tasks = NULL;
    json_t *value;
    size_t i;
    json_array_foreach(values, i, value) {
        if (json_is_object(value) || json_is_array(value))
            tasks = ln_expand_task(e, tasks, ln_schema_describe(e->schema, value), true, NULL);
    }
    ln_expand_way(
        e, c,
        (way){.types = LN_IS_ANY,
              .tasks = tasks,
              .atom = ln_expand_atom(e, (ln_atom){.kind = LN_ATOM_NOT_VALUES, .value = values})});
}

static void fail_values(expander *e, choice *c, json_t *schema) {
    json_t *values = ln_schema_get(e->schema, schema, "enum", 'a');
    json_t *one = json_object_get(schema, "const");
    if (values != NULL)
        fail_list(e, c, values);
    if (one != NULL)
        fail_list(e, c, ln_schema_keep(e->schema, json_pack("[O]", one)));
}

static void fail_numbers(expander *e, choice *c, json_t *schema) {
    static const struct {
        const char *name, *exclusive;
        ln_atom_kind kind;
    } bounds[] = {{"minimum", "exclusiveMinimum", LN_ATOM_BELOW},
                  {"maximum", "exclusiveMaximum", LN_ATOM_ABOVE}};
    for (size_t i = 0; i < 2; i++) {
        json_t *bound = json_object_get(schema, bounds[i].name);
        json_t *exclusive = json_object_get(schema, bounds[i].exclusive);
        if (json_is_number(bound))
            ln_expand_atom_way(e, c, LN_IS_NUMBER,
                               (ln_atom){.kind = bounds[i].kind,
                                         .value = bound,
                                         .excluded = !json_is_true(exclusive)});
        if (json_is_number(exclusive))
            ln_expand_atom_way(e, c, LN_IS_NUMBER,
                               (ln_atom){.kind = bounds[i].kind, .value = exclusive});
    }
    json_t *multiple = json_object_get(schema, "multipleOf");
    if (json_is_number(multiple))
        ln_expand_atom_way(e, c, LN_IS_NUMBER,
                           (ln_atom){.kind = LN_ATOM_MULTIPLE, .value = multiple, .negated = true});
}

static void fail_counts(expander *e, choice *c, json_t *schema) {
    static const struct {
        const char *min, *max;
        ln_atom_kind kind;
        unsigned types;
    } counts[] = {{"minLength", "maxLength", LN_ATOM_LENGTH, LN_IS_STRING},
                  {"minProperties", "maxProperties", LN_ATOM_MEMBERS, LN_IS_OBJECT},
                  {"minItems", "maxItems", LN_ATOM_N_ITEMS, LN_IS_ARRAY}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t low = ln_schema_count(e->schema, schema, counts[i].min, 0);
        uint32_t high = ln_schema_count(e->schema, schema, counts[i].max, LN_NO_LIMIT);
        if (low > 0)
            ln_expand_atom_way(e, c, counts[i].types,
                               (ln_atom){.kind = counts[i].kind, .high = low - 1});
        if (high != LN_NO_LIMIT)
            ln_expand_atom_way(
                e, c, counts[i].types,
                (ln_atom){.kind = counts[i].kind, .low = high + 1, .high = LN_NO_LIMIT});
    }
}

static void fail_strings(expander *e, choice *c, json_t *schema) {
    json_t *pattern = ln_schema_get(e->schema, schema, "pattern", 's');
    json_t *format = ln_schema_get_format(e->schema, schema);
    if (pattern != NULL)
        ln_expand_atom_way(e, c, LN_IS_STRING,
                           (ln_atom){.kind = LN_ATOM_PATTERN, .value = pattern, .negated = true});
    if (format != NULL)
        ln_expand_atom_way(e, c, LN_IS_STRING,
                           (ln_atom){.kind = LN_ATOM_FORMAT, .value = format, .negated = true});
}

/* The member is there, and something is wrong with it. */
static void fail_member(expander *e, choice *c, const char *name, json_t *schema) {
    ln_atom has = {.kind = LN_ATOM_HAS, .name = name};
    ln_atom member = {.kind = LN_ATOM_MEMBER, .name = name, .value = schema, .negated = true};
    ln_expand_way(e, c,
                  (way){.types = LN_IS_OBJECT,
                        .atom = ln_expand_atom(e, has),
                        .other = ln_expand_atom(e, member)});
}

static void fail_objects(expander *e, choice *c, json_t *schema) {
    ln_schema *s = e->schema;
    json_t *additional = ln_schema_additional(s, schema), *child, *name;
    json_t *names = json_object_get(schema, "propertyNames");
    const char *key;
    size_t i;
    json_array_foreach(ln_schema_get(s, schema, "required", 'a'), i, name) {
        if (json_is_string(name))
            ln_expand_atom_way(e, c, LN_IS_OBJECT,
                               (ln_atom){.kind = LN_ATOM_LACKS, .name = json_string_value(name)});
    }
    json_object_foreach(ln_schema_get(s, schema, "properties", 'o'), key, child) {
        if (!json_is_true(child))
            fail_member(e, c, key, child);
    }
    json_object_foreach(ln_schema_get(s, schema, "patternProperties", 'o'), key, child) {
        ln_expand_atom_way(
            e, c, LN_IS_OBJECT,
            (ln_atom){.kind = LN_ATOM_SOME_MEMBER, .name = key, .value = child, .negated = true});
    }
    if (additional != NULL && !json_is_true(additional))
        ln_expand_atom_way(e, c, LN_IS_OBJECT,
                           (ln_atom){.kind = LN_ATOM_SOME_MEMBER,
                                     .schema = schema,
                                     .value = additional,
                                     .negated = true});
    if (names != NULL)
        ln_expand_atom_way(e, c, LN_IS_OBJECT,
                           (ln_atom){.kind = LN_ATOM_SOME_NAME, .value = names, .negated = true});
    if (json_object_get(schema, "unevaluatedProperties") != NULL ||
        json_object_get(schema, "unevaluatedItems") != NULL)
        ln_schema_unsupported(s, "not of unevaluatedProperties or unevaluatedItems");
}

static void fail_dependents(expander *e, choice *c, json_t *schema, const char *keyword) {
    json_t *dependents = ln_schema_get(e->schema, schema, keyword, 'o'), *dependent, *name;
    const char *key;
    size_t i;
    json_object_foreach(dependents, key, dependent) {
        const ln_atom *has = ln_expand_atom(e, (ln_atom){.kind = LN_ATOM_HAS, .name = key});
        if (!json_is_array(dependent))
            ln_expand_way(e, c,
                          (way){.types = LN_IS_OBJECT,
                                .tasks = ln_expand_task(e, NULL, dependent, true, NULL),
                                .atom = has});
        json_array_foreach(dependent, i, name) {
            ln_atom lacks = {.kind = LN_ATOM_LACKS, .name = json_string_value(name)};
            if (json_is_string(name))
                ln_expand_way(
                    e, c,
                    (way){.types = LN_IS_OBJECT, .atom = has, .other = ln_expand_atom(e, lacks)});
        }
    }
}

static void fail_arrays(expander *e, choice *c, json_t *schema) {
    ln_schema *s = e->schema;
    json_t *prefix = ln_schema_prefix(s, schema), *items = ln_schema_items(s, schema), *child;
    json_t *contains = json_object_get(schema, "contains");
    uint32_t low = ln_schema_count(s, schema, "minContains", 1);
    uint32_t high = ln_schema_count(s, schema, "maxContains", LN_NO_LIMIT);
    size_t i;
    json_array_foreach(prefix, i, child) {
        ln_atom item = {.kind = LN_ATOM_ITEM, .low = (uint32_t)i, .value = child, .negated = true};
        ln_atom longer = {.kind = LN_ATOM_N_ITEMS, .low = (uint32_t)i + 1, .high = LN_NO_LIMIT};
        ln_expand_way(e, c,
                      (way){.types = LN_IS_ARRAY,
                            .atom = ln_expand_atom(e, item),
                            .other = ln_expand_atom(e, longer)});
    }
    if (items != NULL && !json_is_true(items))
        ln_expand_atom_way(e, c, LN_IS_ARRAY,
                           (ln_atom){.kind = LN_ATOM_CONTAINS,
                                     .from = (uint32_t)json_array_size(prefix),
                                     .value = items,
                                     .negated = true,
                                     .low = 1,
                                     .high = LN_NO_LIMIT});
    if (contains != NULL && low > 0)
        ln_expand_atom_way(e, c, LN_IS_ARRAY,
                           (ln_atom){.kind = LN_ATOM_CONTAINS, .value = contains, .high = low - 1});
    if (contains != NULL && high != LN_NO_LIMIT)
        ln_expand_atom_way(
            e, c, LN_IS_ARRAY,
            (ln_atom){
                .kind = LN_ATOM_CONTAINS, .value = contains, .low = high + 1, .high = LN_NO_LIMIT});
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        ln_expand_atom_way(e, c, LN_IS_ARRAY, (ln_atom){.kind = LN_ATOM_UNIQUE, .negated = true});
}

/* None of oneOf's schemas holds, or two do. */
static void fail_one_of(expander *e, choice *c, json_t *parts) {
    const task *none = NULL;
    size_t n = json_array_size(parts);
    for (size_t i = 0; i < n; i++) {
        none = ln_expand_task(e, none, json_array_get(parts, i), true, NULL);
        for (size_t j = 0; j < i; j++) {
            const task *two = ln_expand_task(e, NULL, json_array_get(parts, i), false, NULL);
            two = ln_expand_task(e, two, json_array_get(parts, j), false, NULL);
            ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = two});
        }
    }
    ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = none});
}

static void fail_parts(expander *e, choice *c, json_t *schema) {
    ln_schema *s = e->schema;
    json_t *all = ln_schema_get(s, schema, "allOf", 'a'), *part;
    json_t *any = ln_schema_get(s, schema, "anyOf", 'a');
    json_t *one = ln_schema_get(s, schema, "oneOf", 'a');
    json_t *not = json_object_get(schema, "not"), *condition = json_object_get(schema, "if");
    json_t *then = json_object_get(schema, "then"), *otherwise = json_object_get(schema, "else");
    const task *none = NULL;
    size_t i;
    json_array_foreach(all, i, part) {
        ln_expand_schema_way(e, c, part, true, NULL);
    }
    json_array_foreach(any, i, part) {
        none = ln_expand_task(e, none, part, true, NULL);
    }
    if (any != NULL)
        ln_expand_way(e, c, (way){.types = LN_IS_ANY, .tasks = none});
    if (one != NULL)
        fail_one_of(e, c, one);
    if (not != NULL)
        ln_expand_schema_way(e, c, not, false, NULL);
    if (condition != NULL && then != NULL)
        ln_expand_way(e, c,
                      (way){.types = LN_IS_ANY,
                            .tasks = ln_expand_task(e, ln_expand_task(e, NULL, then, true, NULL),
                                                    condition, false, NULL)});
    if (condition != NULL && otherwise != NULL)
        ln_expand_way(
            e, c,
            (way){.types = LN_IS_ANY,
                  .tasks = ln_expand_task(e, ln_expand_task(e, NULL, otherwise, true, NULL),
                                          condition, true, NULL)});
}

void ln_expand_fails(expander *e, branch *b, json_t *schema) {
    ln_schema *s = e->schema;
    unsigned types = ln_schema_types(s, schema);
    json_t *target;
    bool is_reference = ln_schema_get_reference(s, schema, &target);
    if (is_reference && target == NULL)
        return;
    if (e->is_rough || ((b->types & types) == 0 && !is_reference &&
                        !json_is_true(json_object_get(schema, "nullable"))))
        return;
    if (json_is_true(json_object_get(schema, "nullable")))
        b->types &= ~(unsigned)LN_IS_NULL;
    choice *c = ln_expand_choice(e, b);
    if (is_reference)
        ln_expand_schema_way(e, c, target, true, NULL);
    if (is_reference && !s->keeps_beside_ref)
        return;
    if (types != LN_IS_ANY)
        ln_expand_way(e, c, (way){.types = LN_IS_ANY & ~types});
    fail_values(e, c, schema);
    fail_numbers(e, c, schema);
    fail_counts(e, c, schema);
    fail_strings(e, c, schema);
    fail_objects(e, c, schema);
    fail_dependents(e, c, schema, "dependentRequired");
    fail_dependents(e, c, schema, "dependentSchemas");
    fail_dependents(e, c, schema, "dependencies");
    fail_arrays(e, c, schema);
    fail_parts(e, c, schema);
}
