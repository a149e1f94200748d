/* Values that schemas name (enum, const): which of them the schema's other keywords allow, and
 * whether those of two schemas differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

static bool holds(ln_schema *s, json_t *schema, json_t *value);

bool ln_schema_spend(ln_schema *s, size_t n) {
    enum { MAX_COMPARISONS = 1 << 22 };
    s->n_comparisons += n;
    if (s->n_comparisons > MAX_COMPARISONS)
        ln_grammar_fail(s->builder, LINNET_ERR_LIMIT,
                        "JSON schema: the values and parts of enum, const and allOf take more than "
                        "%d comparisons",
                        (int)MAX_COMPARISONS);
    return s->builder->status == LINNET_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static int compare_numbers(const json_t *a, const json_t *b) {
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t left = json_integer_value(a), right = json_integer_value(b);
        return (left > right) - (left < right);
    }
    double left = json_number_value(a), right = json_number_value(b);
    return (left > right) - (left < right);
}

/* As schemas compare values: 1 and 1.0 are the same number. */
static bool are_equal(ln_schema *s, json_t *a, json_t *b) {
    const char *key;
    json_t *child;
    size_t i;
    if (!ln_schema_spend(s, 1))
        return false;
    if (json_is_number(a) && json_is_number(b))
        return compare_numbers(a, b) == 0;
    if (json_typeof(a) != json_typeof(b) || json_array_size(a) != json_array_size(b) ||
        json_object_size(a) != json_object_size(b) ||
        json_string_length(a) != json_string_length(b))
        return false;
    if (!json_is_array(a) && !json_is_object(a))
        return ln_schema_spend(s, json_string_length(a)) && json_equal(a, b);
    json_array_foreach(a, i, child) {
        if (!are_equal(s, child, json_array_get(b, i)))
            return false;
    }
    json_object_foreach(a, key, child) {
        json_t *other = ln_schema_spend(s, strlen(key)) ? json_object_get(b, key) : NULL;
        if (other == NULL || !are_equal(s, child, other))
            return false;
    }
    return true;
}

static json_t *named(json_t *schema) {
    json_t *value = json_object_get(schema, "const");
    if (value != NULL)
        return json_pack("[O]", value);
    return json_incref(json_object_get(schema, "enum"));
}

bool ln_schema_values_differ(ln_schema *s, json_t *left, json_t *right) {
    json_t *lefts = named(left), *rights = named(right), *a, *b;
    bool differ = json_is_array(lefts) && json_is_array(rights);
    size_t i, j;
    for (i = 0; differ && i < json_array_size(lefts); i++) {
        a = json_array_get(lefts, i);
        for (j = 0; differ && j < json_array_size(rights); j++) {
            b = json_array_get(rights, j);
            differ = !are_equal(s, a, b) && s->builder->status == LINNET_OK;
        }
    }
    json_decref(lefts);
    json_decref(rights);
    return differ;
}

/* ---- keywords -------------------------------------------------------------------------------- */

static bool is_of_type(json_t *value, const char *name) {
    static const char *const names[] = {
        [JSON_OBJECT] = "object",  [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "number", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",  [JSON_NULL] = "null"};
    if (name != NULL && strcmp(name, "integer") == 0)
        return json_is_number(value) && floor(json_number_value(value)) == json_number_value(value);
    return name != NULL && strcmp(names[json_typeof(value)], name) == 0;
}

static bool has_type(ln_schema *s, json_t *schema, json_t *value) {
    json_t *type = json_object_get(schema, "type"), *name;
    size_t i;
    if (!json_is_array(type))
        return type == NULL || is_of_type(value, json_string_value(type));
    json_array_foreach(type, i, name) {
        if (ln_schema_spend(s, 1) && is_of_type(value, json_string_value(name)))
            return true;
    }
    return false;
}

static bool is_named(ln_schema *s, json_t *schema, json_t *value) {
    json_t *one = json_object_get(schema, "const"), *many = json_object_get(schema, "enum"), *item;
    size_t i;
    if (one != NULL && !are_equal(s, one, value))
        return false;
    json_array_foreach(many, i, item) {
        if (are_equal(s, item, value))
            return true;
    }
    return many == NULL;
}

static bool is_within(json_t *schema, json_t *value) {
    json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    json_t *above = json_object_get(schema, "exclusiveMinimum");
    json_t *below = json_object_get(schema, "exclusiveMaximum");
    if (!json_is_number(value))
        return true;
    /* drafts before 6 have booleans there */
    return (!json_is_number(low) || compare_numbers(value, low) >= json_is_true(above)) &&
           (!json_is_number(high) || compare_numbers(value, high) <= -json_is_true(below)) &&
           (!json_is_number(above) || compare_numbers(value, above) > 0) &&
           (!json_is_number(below) || compare_numbers(value, below) < 0);
}

static bool has_length(ln_schema *s, json_t *schema, json_t *value) {
    const char *text = json_string_value(value);
    size_t n_chars = 0, n_bytes = json_string_length(value);
    if (text == NULL)
        return true;
    if (json_object_get(schema, "pattern") != NULL || json_object_get(schema, "format") != NULL)
        ln_schema_unsupported(s, "pattern or format for a string of enum or const");
    if (json_object_get(schema, "minLength") == NULL &&
        json_object_get(schema, "maxLength") == NULL)
        return true;
    for (size_t i = 0; ln_schema_spend(s, i == 0 ? n_bytes : 0) && i < n_bytes; i++)
        n_chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n_chars >= ln_schema_count(s, schema, "minLength", 0) &&
           n_chars <= ln_schema_count(s, schema, "maxLength", LN_NO_LIMIT);
}

static bool has_items(ln_schema *s, json_t *schema, json_t *value) {
    json_t *items = json_object_get(schema, "items"), *item;
    json_t *prefix = json_is_array(items) ? items : json_object_get(schema, "prefixItems");
    size_t i, n = json_array_size(value);
    if (!json_is_array(value))
        return true;
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        ln_schema_unsupported(s, "uniqueItems");
    if (n < ln_schema_count(s, schema, "minItems", 0) ||
        n > ln_schema_count(s, schema, "maxItems", LN_NO_LIMIT))
        return false;
    json_array_foreach(value, i, item) {
        json_t *own = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (!ln_schema_spend(s, 1) || (own != NULL && own != prefix && !holds(s, own, item)))
            return false;
    }
    return true;
}

static bool has_members(ln_schema *s, json_t *schema, json_t *value) {
    json_t *properties = json_object_get(schema, "properties"), *name, *member;
    json_t *additional = json_object_get(schema, "additionalProperties");
    const char *key;
    size_t i;
    if (!json_is_object(value))
        return true;
    json_array_foreach(json_object_get(schema, "required"), i, name) {
        if (!ln_schema_spend(s, 1 + json_string_length(name)) || !json_is_string(name) ||
            json_object_get(value, json_string_value(name)) == NULL)
            return false;
    }
    json_object_foreach(value, key, member) {
        if (!ln_schema_spend(s, 1 + strlen(key)))
            return false;
        json_t *own = json_object_get(properties, key);
        own = own != NULL ? own : additional;
        if (own != NULL && !holds(s, own, member))
            return false;
    }
    return true;
}

/* How many of a keyword's schemas the value satisfies. */
static size_t count_parts(ln_schema *s, json_t *parts, json_t *value) {
    size_t i, n = 0;
    json_t *part;
    json_array_foreach(parts, i, part) {
        n += holds(s, part, value);
    }
    return n;
}

static bool has_parts(ln_schema *s, json_t *schema, json_t *value) {
    json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf");
    json_t *one = json_object_get(schema, "oneOf"), *reference = json_object_get(schema, "$ref");
    json_t *target = NULL;
    if (reference != NULL && ln_schema_spend(s, json_string_length(reference)))
        target = ln_schema_find(s, reference);
    return (reference == NULL || (target != NULL && holds(s, target, value))) &&
           (all == NULL || count_parts(s, all, value) == json_array_size(all)) &&
           (any == NULL || count_parts(s, any, value) > 0) &&
           (one == NULL || count_parts(s, one, value) == 1);
}

/* Whether a value satisfies a schema; false after a failure, too. */
static bool holds(ln_schema *s, json_t *schema, json_t *value) {
    if (!ln_schema_spend(s, 1) || !json_is_object(schema))
        return json_is_true(schema);
    ln_schema_check_keywords(s, schema);
    if (json_is_null(value) && json_is_true(json_object_get(schema, "nullable")))
        return true;
    if (!ln_schema_enter(s))
        return false;
    bool fits = has_type(s, schema, value) && is_named(s, schema, value) &&
                is_within(schema, value) && has_length(s, schema, value) &&
                has_items(s, schema, value) && has_members(s, schema, value) &&
                has_parts(s, schema, value);
    s->depth--;
    return fits && s->builder->status == LINNET_OK;
}

static json_t *keep_fitting(ln_schema *s, json_t *schema, json_t *values) {
    json_t *rest = json_copy(schema), *kept = json_array(), *value;
    size_t i;
    bool done = rest != NULL && kept != NULL;
    if (json_object_get(schema, "const") == NULL)
        json_object_del(rest, "enum"); /* each of them is one of them */
    json_array_foreach(values, i, value) {
        if (done && holds(s, rest, value))
            done = json_array_append(kept, value) == 0;
    }
    json_decref(rest);
    if (!done)
        ln_grammar_fail(s->builder, LINNET_ERR_NOMEM, "out of memory for a grammar");
    return kept;
}

bool ln_schema_get_values(ln_schema *s, json_t *schema, json_t **kept) {
    json_t *values = named(schema);
    *kept = NULL;
    if (json_object_get(schema, "const") == NULL && json_object_get(schema, "enum") == NULL)
        return false;
    if (json_array_size(values) == 0)
        ln_schema_malformed(s, "enum", "an array of values");
    *kept = keep_fitting(s, schema, values);
    json_decref(values);
    return true;
}
