#include "server/json/schema_shape.h"

#include <stdbool.h>
#include <stdint.h>

typedef bool check(const json_t *value, const char **fault);

/* ---- values of keywords ------------------------------------------------------------------ */

static bool is_schema(const json_t *value, const char **fault) {
    if (json_is_boolean(value))
        return true;
    *fault = json_is_object(value) ? ln_schema_find_fault(value) : NULL;
    return json_is_object(value) && *fault == NULL;
}

static bool are_schemas(const json_t *value, const char **fault) {
    size_t index;
    json_t *item;
    if (!json_is_array(value))
        return false;
    json_array_foreach((json_t *)(uintptr_t)value, index, item) {
        if (!is_schema(item, fault))
            return false;
    }
    return true;
}

static bool is_schema_or_list(const json_t *value, const char **fault) {
    return json_is_array(value) ? are_schemas(value, fault) : is_schema(value, fault);
}

static bool are_named_schemas(const json_t *value, const char **fault) {
    const char *name;
    json_t *item;
    if (!json_is_object(value))
        return false;
    json_object_foreach((json_t *)(uintptr_t)value, name, item) {
        if (!is_schema(item, fault))
            return false;
    }
    return true;
}

static bool is_list(const json_t *value, const char **fault) {
    (void)fault;
    return json_is_array(value);
}

static bool is_text(const json_t *value, const char **fault) {
    (void)fault;
    return json_is_string(value);
}

static bool are_texts(const json_t *value, const char **fault) {
    size_t index;
    json_t *item;
    (void)fault;
    if (!json_is_array(value))
        return false;
    json_array_foreach((json_t *)(uintptr_t)value, index, item) {
        if (!json_is_string(item))
            return false;
    }
    return true;
}

static bool is_type(const json_t *value, const char **fault) {
    return json_is_string(value) || (json_array_size(value) > 0 && are_texts(value, fault));
}

static bool is_number(const json_t *value, const char **fault) {
    (void)fault;
    return json_is_number(value);
}

static bool is_count(const json_t *value, const char **fault) {
    (void)fault;
    return json_is_number(value) && json_number_value(value) >= 0;
}

/* ---- keywords ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    check *check;
} keywords[] = {
    {"type", is_type},
    {"properties", are_named_schemas},
    {"patternProperties", are_named_schemas},
    {"$defs", are_named_schemas},
    {"definitions", are_named_schemas},
    {"additionalProperties", is_schema},
    {"required", are_texts},
    {"items", is_schema_or_list},
    {"prefixItems", are_schemas},
    {"anyOf", are_schemas},
    {"oneOf", are_schemas},
    {"allOf", are_schemas},
    {"not", is_schema},
    {"enum", is_list},
    {"$ref", is_text},
    {"title", is_text},
    {"description", is_text},
    {"format", is_text},
    {"pattern", is_text},
    {"minimum", is_number},
    {"maximum", is_number},
    {"minLength", is_count},
    {"maxLength", is_count},
    {"minItems", is_count},
    {"maxItems", is_count},
    {"minProperties", is_count},
    {"maxProperties", is_count},
};

const char *ln_schema_find_fault(const json_t *schema) {
    if (!json_is_object(schema))
        return "schema";
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const json_t *value = json_object_get(schema, keywords[i].name);
        const char *fault = NULL;
        if (value != NULL && !json_is_null(value) && !keywords[i].check(value, &fault))
            return fault != NULL ? fault : keywords[i].name;
    }
    return NULL;
}
