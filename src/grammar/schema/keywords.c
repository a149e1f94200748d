/* What the keywords of one schema say, whichever draft they are of. */
#include <math.h>
#include <string.h>

#include "base/json/value.h"
#include "grammar/schema/schema.h"

void ln_schema_unsupported(ln_schema *s, const char *what) {
    ln_grammar_fail(s->builder, LINNET_ERR_UNSUPPORTED, "JSON schema: %s is not supported", what);
}

void ln_schema_check_exact(ln_schema *s, const json_t *value) {
    if (json_is_real(value) && fabs(json_real_value(value)) >= 0x1p63)
        ln_schema_unsupported(s, "a number of 2^63 or more in enum or const");
}

void ln_schema_malformed(ln_schema *s, const char *keyword, const char *what) {
    ln_grammar_fail(s->builder, LINNET_ERR_ARGUMENT, "JSON schema: \"%s\" is not %s", keyword,
                    what);
}

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

bool ln_schema_enter(ln_schema *s) {
    if (s->depth == LN_GRAMMAR_MAX_DEPTH)
        ln_grammar_fail(s->builder, LINNET_ERR_LIMIT,
                        "JSON schema: it is nested more than %d schemas deep",
                        LN_GRAMMAR_MAX_DEPTH);
    else
        s->depth++;
    return s->builder->status == LINNET_OK;
}

json_t *ln_schema_keep(ln_schema *s, json_t *schema) {
    if (schema == NULL || json_array_append_new(s->kept, schema) != 0) {
        ln_grammar_fail_memory(s->builder);
        return NULL;
    }
    return schema;
}

void *ln_schema_allocate(ln_schema *s, size_t count, size_t item_bytes) {
    void *memory = ln_arena_alloc(&s->builder->arena, count, item_bytes);
    if (memory == NULL)
        ln_grammar_fail_memory(s->builder);
    return memory;
}

/* ---- types -------------------------------------------------------------------------------------
 */

unsigned ln_schema_type_bits(ln_schema *s, const char *name) {
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"null", LN_IS_NULL},     {"boolean", LN_IS_BOOLEAN}, {"object", LN_IS_OBJECT},
                 {"array", LN_IS_ARRAY},   {"number", LN_IS_NUMBER},   {"integer", LN_IS_INTEGER},
                 {"string", LN_IS_STRING}, {"any", LN_IS_ANY}};
    for (size_t i = 0; name != NULL && i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return types[i].bits;
    if (name == NULL)
        ln_schema_malformed(s, "type", "a name or an array of names");
    else
        ln_grammar_fail(s->builder, LINNET_ERR_ARGUMENT, "JSON schema: there is no type \"%.40s\"",
                        name);
    return LN_IS_ANY;
}

unsigned ln_schema_types(ln_schema *s, json_t *schema) {
    json_t *type = json_object_get(schema, "type"), *name;
    unsigned bits = 0;
    size_t i;
    if (type == NULL)
        return LN_IS_ANY;
    if (!json_is_array(type))
        return ln_schema_type_bits(s, json_string_value(type));
    if (!ln_schema_spend(s, json_array_size(type)))
        return LN_IS_ANY;
    json_array_foreach(type, i, name) {
        bits |= ln_schema_type_bits(s, json_string_value(name));
    }
    return bits;
}

unsigned ln_schema_type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return LN_IS_OBJECT;
    case JSON_ARRAY: return LN_IS_ARRAY;
    case JSON_STRING: return LN_IS_STRING;
    case JSON_INTEGER: return LN_IS_INTEGER;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? LN_IS_INTEGER
                                                                       : LN_IS_FRACTION;
    case JSON_TRUE:
    case JSON_FALSE: return LN_IS_BOOLEAN;
    case JSON_NULL:
    default: return LN_IS_NULL;
    }
}

/* ---- members -----------------------------------------------------------------------------------
 */

json_t *ln_schema_get(ln_schema *s, json_t *schema, const char *keyword, char type) {
    json_t *value = json_object_get(schema, keyword);
    if (value == NULL || (type == 'o' && json_is_object(value)) ||
        (type == 'a' && json_is_array(value)) || (type == 's' && json_is_string(value)))
        return value;
    ln_schema_malformed(s, keyword,
                        type == 'o'   ? "an object"
                        : type == 'a' ? "an array"
                                      : "a string");
    return NULL;
}

uint32_t ln_schema_count(ln_schema *s, json_t *schema, const char *keyword, uint32_t otherwise) {
    json_t *value = json_object_get(schema, keyword);
    if (value == NULL)
        return otherwise;
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0 || number != floor(number)) {
        ln_schema_malformed(s, keyword, "a whole number");
        return otherwise;
    }
    return number < (double)(LN_NO_LIMIT - 1) ? (uint32_t)number : LN_NO_LIMIT - 1;
}

/* Since 2019-09 a format says nothing by itself. Where a document that names such a draft also says
 * that the value is a string, the format is taken for what its author wants. */
json_t *ln_schema_get_format(const ln_schema *s, json_t *schema) {
    json_t *format = json_object_get(schema, "format"), *type = json_object_get(schema, "type");
    bool binds = !s->annotates_formats || json_is_array(type) || ln_json_is(type, "string");
    return binds && json_is_string(format) ? format : NULL;
}

json_t *ln_schema_prefix(ln_schema *s, json_t *schema) {
    json_t *prefix = ln_schema_get(s, schema, "prefixItems", 'a');
    json_t *items = json_object_get(schema, "items");
    return prefix == NULL && json_is_array(items) ? items : prefix;
}

json_t *ln_schema_items(ln_schema *s, json_t *schema) {
    json_t *items = json_object_get(schema, "items");
    if (!json_is_array(items))
        return items;
    if (json_object_get(schema, "prefixItems") != NULL)
        ln_schema_malformed(s, "items", "a schema beside prefixItems");
    return json_object_get(schema, "additionalItems"); /* before 2020-12 */
}

json_t *ln_schema_additional(ln_schema *s, json_t *schema) {
    json_t *additional = json_object_get(schema, "additionalProperties");
    if (additional == NULL && s->is_closed && json_object_get(schema, "properties") != NULL &&
        json_object_get(schema, "patternProperties") == NULL)
        return ln_schema_keep(s, json_false());
    return additional;
}

void ln_schema_match_name(ln_schema *s, json_t *schema, const char *name,
                          void (*take)(void *context, json_t *child), void *context) {
    json_t *own = json_object_get(ln_schema_get(s, schema, "properties", 'o'), name), *child;
    json_t *patterns = ln_schema_get(s, schema, "patternProperties", 'o');
    json_t *additional = ln_schema_additional(s, schema);
    const char *pattern;
    bool is_named = own != NULL;
    if (own != NULL)
        take(context, own);
    json_object_foreach(patterns, pattern, child) {
        if (!ln_schema_string_is_in(s, ln_schema_pattern(s, pattern), name))
            continue;
        is_named = true;
        take(context, child);
    }
    if (!is_named && additional != NULL)
        take(context, additional);
}
