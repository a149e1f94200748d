#include "text/chat/calls/parameter_type.h"

#include <string.h>

enum { MAX_DEPTH = 4 };

static unsigned type_named(const json_t *name) {
    static const struct {
        const char *name;
        ln_parameter_type type;
    } types[] = {{"string", LN_PARAMETER_TEXT},     {"null", LN_PARAMETER_NULL},
                 {"boolean", LN_PARAMETER_BOOLEAN}, {"number", LN_PARAMETER_NUMBER},
                 {"integer", LN_PARAMETER_NUMBER},  {"object", LN_PARAMETER_OBJECT},
                 {"array", LN_PARAMETER_ARRAY}};
    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof *types; i++)
        if (strcmp(json_string_value(name), types[i].name) == 0)
            return types[i].type;
    return LN_PARAMETER_UNKNOWN;
}

static unsigned type_of_value(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING: return LN_PARAMETER_TEXT;
    case JSON_NULL: return LN_PARAMETER_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return LN_PARAMETER_BOOLEAN;
    case JSON_INTEGER:
    case JSON_REAL: return LN_PARAMETER_NUMBER;
    case JSON_OBJECT: return LN_PARAMETER_OBJECT;
    case JSON_ARRAY:
    default: return LN_PARAMETER_ARRAY;
    }
}

static unsigned type_of_schema(const json_t *schema, int depth) {
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const json_t *type = json_object_get(schema, "type"), *item;
    unsigned found = type_named(type);
    size_t i;
    json_array_foreach(type, i, item) {
        found |= type_named(item);
    }
    if (found != 0)
        return found;
    json_array_foreach(json_object_get(schema, "enum"), i, item) {
        found |= type_of_value(item);
    }
    if (json_object_get(schema, "const") != NULL)
        found |= type_of_value(json_object_get(schema, "const"));
    for (size_t u = 0; u < 3 && depth < MAX_DEPTH; u++) {
        json_array_foreach(json_object_get(schema, unions[u]), i, item) {
            unsigned one = type_of_schema(item, depth + 1);
            if (one == 0) /* anything */
                return LN_PARAMETER_UNKNOWN;
            found |= one;
        }
    }
    return found;
}

/* The schema of what lies within a value: a property, or the items of a list. */
static const json_t *find_child(const json_t *schema, const char *key, size_t n_bytes, int depth) {
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const json_t *item,
        *child = json_object_getn(json_object_get(schema, "properties"), key, n_bytes);
    size_t i;
    if (child == NULL && n_bytes == 4 && memcmp(key, "item", 4) == 0)
        child = json_object_get(schema, "items");
    for (size_t u = 0; u < 3 && child == NULL && depth < MAX_DEPTH; u++) {
        json_array_foreach(json_object_get(schema, unions[u]), i, item) {
            if (child == NULL)
                child = find_child(item, key, n_bytes, depth + 1);
        }
    }
    return child;
}

ln_parameter_type ln_parameter_type_of(const json_t *tools, const char *tool,
                                       const char *parameter) {
    size_t i;
    const json_t *item;
    json_array_foreach(tools, i, item) {
        const json_t *function = json_object_get(item, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (name == NULL || strcmp(name, tool) != 0)
            continue;
        const json_t *schema = json_object_get(function, "parameters");
        for (const char *at = parameter; schema != NULL; at++) {
            size_t n_bytes = strcspn(at, "\n");
            schema = find_child(schema, at, n_bytes, 0);
            at += n_bytes;
            if (*at == '\0')
                break;
        }
        return (ln_parameter_type)type_of_schema(schema, 0);
    }
    return LN_PARAMETER_UNKNOWN;
}

bool ln_parameter_may_be(ln_parameter_type type, const json_t *value) {
    return (type & LN_PARAMETER_TEXT) == 0 || ((unsigned)type & type_of_value(value)) != 0;
}
