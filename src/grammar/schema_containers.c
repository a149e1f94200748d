#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

/* ---- objects --------------------------------------------------------------------------------- */

typedef struct property {
    const char *name;
    uint32_t member; /* rule: key and value */
    bool is_required;
} property;

typedef struct object_reader {
    ln_schema *schema;
    property *properties; /* [n] */
    size_t n, capacity;
    uint32_t other; /* rule of a member that is not named */
    bool has_others;
} object_reader;

static void add_property(object_reader *o, const char *name, json_t *schema, bool is_required) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    if (b->status != LINNET_OK)
        return;
    ln_expr *value = schema != NULL ? ln_schema_read(s, schema) : ln_expr_rule(b, s->rules->value);
    ln_expr *member = ln_expr_sequence(b, ln_json_member_key(b, s->rules, name), value, NULL);
    LN_BUG_ON(o->n == o->capacity);
    o->properties[o->n++] = (property){name, ln_json_rule(b, "a property", member), is_required};
}

static bool is_required(json_t *required, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(required, i, item) {
        if (json_is_string(item) && strcmp(json_string_value(item), name) == 0)
            return true;
    }
    return false;
}

/* Members that are not named. */
static void add_others(object_reader *o, json_t *additional) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    const char **names = calloc(o->n + 1, sizeof *names);
    if (names == NULL) {
        ln_grammar_fail(b, LINNET_ERR_NOMEM, "out of memory for a grammar");
        return;
    }
    for (size_t i = 0; i < o->n; i++)
        names[i] = o->properties[i].name;
    uint32_t key = s->rules->string;
    if (o->n > 0)
        key = ln_rule_add_terminal(b, "the name of a property", ln_json_other_key(b, names, o->n));
    free((void *)names);
    o->has_others = true;
    o->other = ln_json_rule(b, "a property that is not named",
                            ln_expr_sequence(b, ln_expr_rule(b, key), ln_expr_text(b, ":"),
                                             ln_expr_rule(b, s->rules->space),
                                             ln_schema_read(s, additional), NULL));
}

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

/* Members that are not named, after all others. */
static ln_expr *others(object_reader *o, bool is_first) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    if (!o->has_others)
        return ln_expr_empty(b);
    ln_expr *more = ln_expr_repeat(b, separated(s, false, o->other), 0, LN_NO_LIMIT);
    if (!is_first)
        return more;
    return ln_expr_optional(b, ln_expr_sequence(b, separated(s, true, o->other), more, NULL));
}

/* The members in the order of the schema, from the last one back: rest[f] is
 * the rule of what may come after property i, when none (f = 1) or some came
 * before. A property that may be missing is passed over. */
static uint32_t chain_members(object_reader *o) {
    ln_schema *s = o->schema;
    ln_grammar_builder *b = s->builder;
    uint32_t rest[2];
    for (int first = 0; first < 2; first++)
        rest[first] = ln_json_rule(b, "members", others(o, first == 1));
    for (size_t i = o->n; i-- > 0;) {
        uint32_t next[2];
        for (int first = 0; first < 2; first++) {
            ln_expr *here = ln_expr_sequence(b, separated(s, first == 1, o->properties[i].member),
                                             ln_expr_rule(b, rest[0]), NULL);
            if (!o->properties[i].is_required)
                here = ln_expr_choice(b, here, ln_expr_rule(b, rest[first]), NULL);
            next[first] = ln_json_rule(b, "members", here);
        }
        rest[0] = next[0];
        rest[1] = next[1];
    }
    return rest[1];
}

static void read_properties(object_reader *o, json_t *properties, json_t *required,
                            json_t *additional) {
    ln_schema *s = o->schema;
    const char *name;
    json_t *value;
    size_t i;
    json_object_foreach(properties, name, value) {
        add_property(o, name, value, is_required(required, name));
    }
    json_array_foreach(required, i, value) { /* those that are required only */
        bool is_known = false;
        for (size_t j = 0; j < o->n && json_is_string(value); j++)
            is_known |= strcmp(o->properties[j].name, json_string_value(value)) == 0;
        if (json_is_string(value) && !is_known)
            add_property(o, json_string_value(value),
                         json_is_object(additional) ? additional : NULL, true);
        if (json_is_string(value) && !is_known && json_is_false(additional))
            ln_schema_unsupported(s, "a required property that additionalProperties forbids");
    }
}

ln_expr *ln_schema_read_object(ln_schema *s, json_t *schema) {
    ln_grammar_builder *b = s->builder;
    json_t *properties = json_object_get(schema, "properties");
    json_t *required = json_object_get(schema, "required");
    json_t *additional = json_object_get(schema, "additionalProperties");
    object_reader o = {.schema = s};
    json_t *name;
    size_t i;
    if (properties != NULL && !json_is_object(properties))
        ln_schema_malformed(s, "properties", "an object");
    if (required != NULL && !json_is_array(required))
        ln_schema_malformed(s, "required", "an array of names");
    json_array_foreach(required, i, name) {
        if (!json_is_string(name))
            ln_schema_malformed(s, "required", "an array of names");
    }
    if (properties == NULL && json_array_size(required) == 0 &&
        (additional == NULL || json_is_true(additional)))
        return ln_expr_rule(b, s->rules->object);
    o.capacity = json_object_size(properties) + json_array_size(required);
    if (o.capacity > LN_GRAMMAR_MAX_RULES / 8)
        ln_schema_unsupported(s, "an object of more than 4096 properties");
    o.properties = calloc(o.capacity + 1, sizeof *o.properties);
    if (o.properties == NULL)
        ln_grammar_fail(b, LINNET_ERR_NOMEM, "out of memory for a grammar");
    if (b->status == LINNET_OK)
        read_properties(&o, properties, required, additional);
    /* where the schema leaves it open, there are none beside those that it names
     */
    if (b->status == LINNET_OK && !json_is_false(additional) &&
        (additional != NULL || properties == NULL))
        add_others(&o, additional != NULL ? additional : json_true());
    ln_expr *whole = ln_expr_empty(b);
    if (b->status == LINNET_OK)
        whole = ln_expr_sequence(b, ln_expr_text(b, "{"), ln_expr_rule(b, s->rules->space),
                                 ln_expr_rule(b, chain_members(&o)),
                                 ln_expr_rule(b, s->rules->space), ln_expr_text(b, "}"), NULL);
    free(o.properties);
    return whole;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef struct array_reader {
    ln_schema *schema;
    json_t *prefix; /* NULL: none */
    uint32_t item;  /* rule of those after it */
    bool has_items; /* there may be such */
    uint32_t min, max;
} array_reader;

/* Items after the prefix, `before` of which came. */
static ln_expr *more_items(array_reader *a, uint32_t before) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    uint32_t min = a->min > before ? a->min - before : 0;
    uint32_t max = a->max == LN_NO_LIMIT ? LN_NO_LIMIT : a->max - before;
    if (!a->has_items || max == 0)
        return min == 0 ? ln_expr_empty(b) : ln_expr_list(b, LN_EXPR_CHOICE);
    if (before > 0)
        return ln_expr_repeat(b, separated(s, false, a->item), min, max);
    ln_expr *more = ln_expr_repeat(b, separated(s, false, a->item), min > 0 ? min - 1 : 0,
                                   max == LN_NO_LIMIT ? max : max - 1);
    ln_expr *some = ln_expr_sequence(b, ln_expr_rule(b, a->item), more, NULL);
    return min > 0 ? some : ln_expr_optional(b, some);
}

/* All items: those of the prefix one after another, from the last one back. */
static uint32_t chain_items(array_reader *a) {
    ln_schema *s = a->schema;
    ln_grammar_builder *b = s->builder;
    uint32_t n = (uint32_t)json_array_size(a->prefix);
    if (n > a->max)
        n = a->max;
    uint32_t rest = ln_json_rule(b, "items", more_items(a, n));
    for (uint32_t i = n; i-- > 0 && b->status == LINNET_OK;) {
        uint32_t item = ln_json_rule(b, "an item", ln_schema_read(s, json_array_get(a->prefix, i)));
        ln_expr *here =
            ln_expr_sequence(b, separated(s, i == 0, item), ln_expr_rule(b, rest), NULL);
        if (i >= a->min)
            here = ln_expr_optional(b, here);
        rest = ln_json_rule(b, "items", here);
    }
    return rest;
}

ln_expr *ln_schema_read_array(ln_schema *s, json_t *schema) {
    ln_grammar_builder *b = s->builder;
    json_t *items = json_object_get(schema, "items");
    array_reader a = {.schema = s, .prefix = json_object_get(schema, "prefixItems")};
    a.min = ln_schema_count(s, schema, "minItems", 0);
    a.max = ln_schema_count(s, schema, "maxItems", LN_NO_LIMIT);
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        ln_schema_unsupported(s, "uniqueItems");
    if (a.prefix != NULL && !json_is_array(a.prefix))
        ln_schema_malformed(s, "prefixItems", "an array of schemas");
    if (json_is_array(items)) { /* as drafts before 2020-12 have it */
        if (a.prefix != NULL)
            ln_schema_malformed(s, "items", "a schema beside prefixItems");
        a.prefix = items;
        items = json_false();
    }
    if (json_array_size(a.prefix) > LN_GRAMMAR_MAX_RULES / 8)
        ln_schema_unsupported(s, "an array of more than 4096 items with schemas of their own");
    if (a.min > a.max)
        ln_schema_malformed(s, "minItems", "at most maxItems");
    a.has_items = !json_is_false(items) && (items != NULL || a.prefix == NULL);
    if (a.min > json_array_size(a.prefix) && items == NULL)
        a.has_items = true; /* any will do */
    if (a.has_items && items != NULL)
        a.item = ln_json_rule(b, "an item", ln_schema_read(s, items));
    else
        a.item = s->rules->value;
    return ln_expr_sequence(b, ln_expr_text(b, "["), ln_expr_rule(b, s->rules->space),
                            ln_expr_rule(b, chain_items(&a)), ln_expr_rule(b, s->rules->space),
                            ln_expr_text(b, "]"), NULL);
}
