/* Whether a value satisfies a schema: for the values of enum and const, and for names. */
#include <math.h>
#include <string.h>

#include "grammar/schema/schema.h"

/* ---- values ------------------------------------------------------------------------------------
 */

int ln_schema_compare_numbers(const json_t *a, const json_t *b) {
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t left = json_integer_value(a), right = json_integer_value(b);
        return (left > right) - (left < right);
    }
    double left = json_number_value(a), right = json_number_value(b);
    return (left > right) - (left < right);
}

bool ln_schema_are_equal(ln_schema *s, json_t *a, json_t *b) {
    const char *key;
    json_t *child;
    size_t i;
    if (!ln_schema_spend(s, 1))
        return false;
    if (json_is_number(a) && json_is_number(b))
        return ln_schema_compare_numbers(a, b) == 0;
    if (json_typeof(a) != json_typeof(b) || json_array_size(a) != json_array_size(b) ||
        json_object_size(a) != json_object_size(b) ||
        json_string_length(a) != json_string_length(b))
        return false;
    if (!json_is_array(a) && !json_is_object(a))
        return ln_schema_spend(s, json_string_length(a)) && json_equal(a, b);
    json_array_foreach(a, i, child) {
        if (!ln_schema_are_equal(s, child, json_array_get(b, i)))
            return false;
    }
    json_object_foreach(a, key, child) {
        json_t *other = ln_schema_spend(s, strlen(key)) ? json_object_get(b, key) : NULL;
        if (other == NULL || !ln_schema_are_equal(s, child, other))
            return false;
    }
    return true;
}

bool ln_schema_is_multiple(json_t *value, json_t *of) {
    if (json_is_integer(value) && json_is_integer(of))
        return json_integer_value(of) != 0 &&
               json_integer_value(value) % json_integer_value(of) == 0;
    double times = json_number_value(value) / json_number_value(of);
    return fabs(times - rint(times)) <= 1e-12 * fabs(times);
}

/* ---- keywords ----------------------------------------------------------------------------------
 */

static bool is_named(ln_schema *s, json_t *schema, json_t *value) {
    json_t *one = json_object_get(schema, "const");
    json_t *many = ln_schema_get(s, schema, "enum", 'a'), *item;
    size_t i;
    if (one != NULL && !ln_schema_are_equal(s, one, value))
        return false;
    json_array_foreach(many != s->own_values ? many : NULL, i, item) {
        if (ln_schema_are_equal(s, item, value))
            return true;
    }
    return many == NULL || many == s->own_values;
}

static bool has_number(ln_schema *s, json_t *schema, json_t *value) {
    json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    json_t *above = json_object_get(schema, "exclusiveMinimum");
    json_t *below = json_object_get(schema, "exclusiveMaximum");
    json_t *multiple = json_object_get(schema, "multipleOf");
    (void)s;
    if (!json_is_number(value))
        return true;
    /* drafts before 6 have booleans there */
    return (!json_is_number(low) || ln_schema_compare_numbers(value, low) >= json_is_true(above)) &&
           (!json_is_number(high) ||
            ln_schema_compare_numbers(value, high) <= -json_is_true(below)) &&
           (!json_is_number(above) || ln_schema_compare_numbers(value, above) > 0) &&
           (!json_is_number(below) || ln_schema_compare_numbers(value, below) < 0) &&
           (!json_is_number(multiple) || ln_schema_is_multiple(value, multiple));
}

static bool has_string(ln_schema *s, json_t *schema, json_t *value) {
    const char *text = json_string_value(value);
    size_t n_chars = 0, n_bytes = json_string_length(value);
    if (text == NULL)
        return true;
    json_t *pattern = ln_schema_get(s, schema, "pattern", 's');
    json_t *format = ln_schema_get_format(s, schema);
    if (pattern != NULL &&
        !ln_schema_string_is_in(s, ln_schema_pattern(s, json_string_value(pattern)), text))
        return false;
    const ln_dfa *form = format != NULL ? ln_schema_format(s, json_string_value(format)) : NULL;
    if (form != NULL && !ln_schema_string_is_in(s, form, text))
        return false;
    for (size_t i = 0; ln_schema_spend(s, i == 0 ? n_bytes : 0) && i < n_bytes; i++)
        n_chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n_chars >= ln_schema_count(s, schema, "minLength", 0) &&
           n_chars <= ln_schema_count(s, schema, "maxLength", LN_NO_LIMIT);
}

static bool contains_enough(ln_schema *s, json_t *schema, json_t *value) {
    json_t *contains = json_object_get(schema, "contains"), *item;
    size_t i, n = 0;
    if (contains == NULL)
        return true;
    json_array_foreach(value, i, item) {
        n += ln_schema_holds(s, contains, item);
    }
    return n >= ln_schema_count(s, schema, "minContains", 1) &&
           n <= ln_schema_count(s, schema, "maxContains", LN_NO_LIMIT);
}

static bool are_unique(ln_schema *s, json_t *array) {
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) {
        for (size_t j = 0; j < i; j++)
            if (ln_schema_are_equal(s, item, json_array_get(array, j)))
                return false;
    }
    return true;
}

static bool has_items(ln_schema *s, json_t *schema, json_t *value) {
    json_t *prefix = ln_schema_prefix(s, schema), *items = ln_schema_items(s, schema), *item;
    size_t i, n = json_array_size(value);
    if (!json_is_array(value))
        return true;
    if (n < ln_schema_count(s, schema, "minItems", 0) ||
        n > ln_schema_count(s, schema, "maxItems", LN_NO_LIMIT))
        return false;
    if (json_object_get(schema, "unevaluatedItems") != NULL && n > 0)
        ln_schema_unsupported(s, "unevaluatedItems for an array of enum or const");
    json_array_foreach(value, i, item) {
        json_t *own = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (!ln_schema_spend(s, 1) || (own != NULL && !ln_schema_holds(s, own, item)))
            return false;
    }
    return (!json_is_true(json_object_get(schema, "uniqueItems")) || are_unique(s, value)) &&
           contains_enough(s, schema, value);
}

/* A value that is held against the schemas that a name falls to. */
typedef struct member_check {
    ln_schema *schema;
    json_t *value;
    bool holds;
} member_check;

static void check_member(void *context, json_t *child) {
    member_check *check = context;
    check->holds = check->holds && ln_schema_holds(check->schema, child, check->value);
}

/* dependentRequired, dependentSchemas, and dependencies, which is both. */
static bool has_dependents(ln_schema *s, json_t *schema, json_t *value, const char *keyword) {
    json_t *dependents = ln_schema_get(s, schema, keyword, 'o'), *dependent, *name;
    const char *key;
    size_t i;
    json_object_foreach(dependents, key, dependent) {
        if (json_object_get(value, key) == NULL)
            continue;
        if (!json_is_array(dependent) && !ln_schema_holds(s, dependent, value))
            return false;
        json_array_foreach(dependent, i, name) {
            if (!json_is_string(name) || json_object_get(value, json_string_value(name)) == NULL)
                return false;
        }
    }
    return true;
}

static bool has_member_names(ln_schema *s, json_t *schema, json_t *value) {
    json_t *names = json_object_get(schema, "propertyNames"), *member;
    const char *key;
    json_object_foreach(names != NULL ? value : NULL, key, member) {
        json_t *name = json_string(key);
        bool holds = ln_schema_holds(s, names, name);
        json_decref(name);
        if (!holds)
            return false;
    }
    return true;
}

static bool has_members(ln_schema *s, json_t *schema, json_t *value) {
    json_t *name, *member;
    const char *key;
    size_t i, n = json_object_size(value);
    if (!json_is_object(value))
        return true;
    if (n < ln_schema_count(s, schema, "minProperties", 0) ||
        n > ln_schema_count(s, schema, "maxProperties", LN_NO_LIMIT))
        return false;
    if (json_object_get(schema, "unevaluatedProperties") != NULL && n > 0)
        ln_schema_unsupported(s, "unevaluatedProperties for an object of enum or const");
    json_array_foreach(ln_schema_get(s, schema, "required", 'a'), i, name) {
        if (!ln_schema_spend(s, 1 + json_string_length(name)) || !json_is_string(name) ||
            json_object_get(value, json_string_value(name)) == NULL)
            return false;
    }
    json_object_foreach(value, key, member) {
        member_check check = {s, member, true};
        if (!ln_schema_spend(s, 1 + strlen(key)))
            return false;
        ln_schema_match_name(s, schema, key, check_member, &check);
        if (!check.holds)
            return false;
    }
    return has_member_names(s, schema, value) &&
           has_dependents(s, schema, value, "dependentRequired") &&
           has_dependents(s, schema, value, "dependentSchemas") &&
           has_dependents(s, schema, value, "dependencies");
}

/* How many of a keyword's schemas the value satisfies. */
static size_t count_parts(ln_schema *s, json_t *parts, json_t *value) {
    size_t i, n = 0;
    json_t *part;
    json_array_foreach(parts, i, part) {
        n += ln_schema_holds(s, part, value);
    }
    return n;
}

static bool has_parts(ln_schema *s, json_t *schema, json_t *value) {
    json_t *all = ln_schema_get(s, schema, "allOf", 'a');
    json_t *any = ln_schema_get(s, schema, "anyOf", 'a');
    json_t *one = ln_schema_get(s, schema, "oneOf", 'a');
    json_t *not = json_object_get(schema, "not"), *condition = json_object_get(schema, "if");
    if ((all != NULL && count_parts(s, all, value) != json_array_size(all)) ||
        (any != NULL && count_parts(s, any, value) == 0) ||
        (one != NULL && count_parts(s, one, value) != 1) ||
        (not != NULL && ln_schema_holds(s, not, value)))
        return false;
    if (condition == NULL)
        return true;
    json_t *branch =
        json_object_get(schema, ln_schema_holds(s, condition, value) ? "then" : "else");
    return branch == NULL || ln_schema_holds(s, branch, value);
}

/* false after a failure, too */
bool ln_schema_holds(ln_schema *s, json_t *schema, json_t *value) {
    json_t *target;
    if (!ln_schema_spend(s, 1) || json_is_boolean(schema))
        return json_is_true(schema);
    if (!json_is_object(schema)) {
        ln_schema_unsupported(s, "a schema that is no object");
        return false;
    }
    bool is_reference = ln_schema_get_reference(s, schema, &target);
    if (!ln_schema_enter(s))
        return false;
    bool fits = !is_reference || ln_schema_holds(s, target, value);
    if (!is_reference || s->keeps_beside_ref)
        fits =
            fits && ((json_is_null(value) && json_is_true(json_object_get(schema, "nullable"))) ||
                     ((ln_schema_types(s, schema) & ln_schema_type_of(value)) != 0 &&
                      is_named(s, schema, value) && has_number(s, schema, value) &&
                      has_string(s, schema, value) && has_items(s, schema, value) &&
                      has_members(s, schema, value) && has_parts(s, schema, value)));
    s->depth--;
    return fits && s->builder->status == LINNET_OK;
}

bool ln_schema_hold_all(ln_schema *s, ln_literals set, json_t *value) {
    for (size_t i = 0; i < set.n; i++)
        if (ln_schema_holds(s, set.items[i].schema, value) == set.items[i].negated)
            return false;
    return s->builder->status == LINNET_OK;
}
