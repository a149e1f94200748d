/* JSON schemas: which keywords there are, and how schemas combine. Objects and
 * arrays are schema_containers.c's, strings and numbers schema_scalars.c's. */
#include "grammar/schema.h"

#include <stdlib.h>
#include <string.h>

/* Keywords that say nothing about which values are valid. */
static const char *const annotations[] = {
    "$schema",  "$id",         "$comment",    "$anchor",          "$defs",
    "title",    "description", "default",     "examples",         "definitions",
    "readOnly", "writeOnly",   "deprecated",  "contentMediaType", "contentEncoding",
    "example",  "id",          "$vocabulary", "discriminator"};

/* Keywords with which values are said; all others are refused. */
static const char *const keywords[] = {"type",        "properties",
                                       "required",    "additionalProperties",
                                       "items",       "prefixItems",
                                       "minItems",    "maxItems",
                                       "enum",        "const",
                                       "anyOf",       "oneOf",
                                       "allOf",       "$ref",
                                       "minLength",   "maxLength",
                                       "pattern",     "format",
                                       "minimum",     "maximum",
                                       "nullable",    "exclusiveMinimum",
                                       "uniqueItems", "exclusiveMaximum"};

static bool is_in(const char *const *list, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0)
            return true;
    return false;
}

#define IS_IN(list, word) is_in(list, sizeof(list) / sizeof *(list), word)

void ln_schema_unsupported(ln_schema *s, const char *what) {
    ln_grammar_fail(s->builder, LINNET_ERR_UNSUPPORTED, "JSON schema: %s is not supported", what);
}

void ln_schema_malformed(ln_schema *s, const char *keyword, const char *what) {
    ln_grammar_fail(s->builder, LINNET_ERR_ARGUMENT, "JSON schema: \"%s\" is not %s", keyword,
                    what);
}

void ln_schema_check_keywords(ln_schema *s, json_t *schema) {
    const char *key;
    json_t *value;
    json_object_foreach(schema, key, value) {
        if (IS_IN(annotations, key) || IS_IN(keywords, key))
            continue;
        ln_grammar_fail(s->builder, LINNET_ERR_UNSUPPORTED,
                        "JSON schema: the keyword \"%.80s\" is not supported", key);
    }
}

/* ---- references ------------------------------------------------------------------------------ */

static int hex_digit(char c) {
    const char *digits = "0123456789abcdefABCDEF", *found = c != '\0' ? strchr(digits, c) : NULL;
    return found == NULL ? -1 : (int)(found - digits) - (found - digits > 15 ? 6 : 0);
}

/* The member or item that a part of a pointer in a URI names: ~0 is ~, ~1 is a slash, %XX a byte.
 */
static json_t *step_into(json_t *at, const char *name, size_t n_bytes) {
    char key[1024];
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = name[i];
        if (n + 1 == sizeof key)
            return NULL;
        if (c == '%' && i + 2 < n_bytes && hex_digit(name[i + 1]) >= 0 &&
            hex_digit(name[i + 2]) >= 0) {
            c = (char)(hex_digit(name[i + 1]) << 4 | hex_digit(name[i + 2]));
            i += 2;
            if (c == '\0') /* no key has it */
                return NULL;
        }
        if (c == '~' && i + 1 < n_bytes)
            c = name[++i] == '0' ? '~' : '/';
        key[n++] = c;
    }
    key[n] = '\0';
    if (json_is_array(at)) {
        size_t index = 0;
        for (size_t i = 0; i < n && index < 1000000; i++)
            index = key[i] >= '0' && key[i] <= '9' ? index * 10 + (size_t)(key[i] - '0') : 1000000;
        return json_array_get(at, index);
    }
    return json_object_get(at, key);
}

json_t *ln_schema_find(ln_schema *s, json_t *reference) {
    const char *text = json_string_value(reference);
    json_t *at = s->root;
    if (text == NULL || text[0] != '#' || (text[1] != '/' && text[1] != '\0')) {
        ln_grammar_fail(s->builder, LINNET_ERR_UNSUPPORTED,
                        "JSON schema: $ref \"%.80s\" is not supported; it must begin with #/",
                        text != NULL ? text : "");
        return NULL;
    }
    for (const char *part = text + 1; *part == '/' && at != NULL;) {
        size_t n_bytes = strcspn(part + 1, "/");
        at = step_into(at, part + 1, n_bytes);
        part += 1 + n_bytes;
    }
    if (at == NULL)
        ln_grammar_fail(s->builder, LINNET_ERR_ARGUMENT,
                        "JSON schema: $ref \"%.80s\" leads nowhere", text);
    return at;
}

/* ---- combining ------------------------------------------------------------------------------- */

static void check_memory(ln_schema *s, bool has_it) {
    if (!has_it)
        ln_grammar_fail(s->builder, LINNET_ERR_NOMEM, "out of memory for a grammar");
}

static size_t size_of(json_t *value) {
    return 1 + json_array_size(value) + json_object_size(value);
}

static void merge_member(ln_schema *s, json_t *into, const char *key, json_t *value) {
    json_t *other = json_object_get(into, key);
    const char *child_key;
    json_t *child;
    size_t i;
    if (!ln_schema_spend(s, size_of(other) + size_of(value)))
        return;
    if (other == NULL) {
        check_memory(s, json_object_set(into, key, value) == 0);
    } else if (json_equal(other, value) || IS_IN(annotations, key)) {
        return;
    } else if (strcmp(key, "required") == 0 && json_is_array(other) && json_is_array(value)) {
        json_t *both = json_copy(other);
        json_array_foreach(value, i, child) {
            check_memory(s, json_array_append(both, child) == 0);
        }
        check_memory(s, json_object_set_new(into, key, both) == 0);
    } else if (strcmp(key, "properties") == 0 && json_is_object(other) && json_is_object(value)) {
        json_t *both = json_copy(other);
        json_object_foreach(value, child_key, child) {
            json_t *known = json_object_get(both, child_key);
            if (known != NULL && !json_equal(known, child))
                ln_schema_unsupported(s, "a property that several parts of allOf describe");
            check_memory(s, json_object_set(both, child_key, child) == 0);
        }
        check_memory(s, json_object_set_new(into, key, both) == 0);
    } else {
        ln_grammar_fail(s->builder, LINNET_ERR_UNSUPPORTED,
                        "JSON schema: \"%.80s\" that several parts of allOf or anyOf set "
                        "differently is not supported",
                        key);
    }
}

/* Whether a schema's keywords about what it does not name are about what the other names: merged
 * into one they would not be any more. */
static bool reaches_over(ln_schema *s, json_t *schema, json_t *other) {
    json_t *properties = json_object_get(schema, "properties"), *value;
    json_t *additional = json_object_get(schema, "additionalProperties");
    json_t *items = json_object_get(schema, "items");
    json_t *others = json_object_get(other, "properties");
    bool closes = additional != NULL && !json_is_true(additional);
    const char *key;
    if (closes && !ln_schema_spend(s, size_of(others)))
        return false;
    json_object_foreach(closes ? others : NULL, key, value) {
        if (json_object_get(properties, key) == NULL)
            return true;
    }
    return items != NULL && !json_is_true(items) && json_object_get(other, "prefixItems") != NULL &&
           json_object_get(schema, "prefixItems") == NULL;
}

static void merge_all(ln_schema *s, json_t *into, json_t *part) {
    const char *key;
    json_t *value;
    if (reaches_over(s, into, part) || reaches_over(s, part, into))
        ln_schema_unsupported(s, "additionalProperties or items for what another part of allOf or "
                                 "anyOf names");
    json_object_foreach(part, key, value) {
        merge_member(s, into, key, value);
    }
}

/* `part` and what stands beside it in one schema; owned. */
static json_t *merge(ln_schema *s, json_t *schema, const char *left_out, json_t *part,
                     unsigned depth) {
    const char *key;
    json_t *value, *into = json_object();
    check_memory(s, into != NULL);
    if (depth > LN_GRAMMAR_MAX_DEPTH / 4) {
        ln_grammar_fail(s->builder, LINNET_ERR_LIMIT,
                        "JSON schema: references are nested too deep");
        return into;
    }
    json_object_foreach(schema, key, value) {
        if (strcmp(key, left_out) != 0)
            merge_member(s, into, key, value);
    }
    json_t *reference = json_object_get(part, "$ref");
    if (reference != NULL) {
        json_t *target = ln_schema_find(s, reference);
        json_t *whole = target != NULL ? merge(s, part, "$ref", target, depth + 1) : NULL;
        merge_all(s, into, whole);
        json_decref(whole);
        return into;
    }
    if (!json_is_object(part) && !json_is_true(part))
        ln_schema_unsupported(s, "a schema that is false");
    merge_all(s, into, part);
    return into;
}

/* Merged schemas live as long as the compiler. */
static json_t *keep(ln_schema *s, json_t *schema) {
    if (schema == NULL || json_array_append_new(s->kept, schema) != 0) {
        ln_grammar_fail(s->builder, LINNET_ERR_NOMEM, "out of memory for a grammar");
        return NULL;
    }
    return schema;
}

/* Whether a schema has members other than `except` and annotations. */
static bool has_others(json_t *schema, const char *except) {
    const char *key;
    json_t *value;
    json_object_foreach(schema, key, value) {
        if (strcmp(key, except) != 0 && !IS_IN(annotations, key))
            return true;
    }
    return false;
}

static ln_expr *read_all_of(ln_schema *s, json_t *schema) {
    json_t *parts = json_object_get(schema, "allOf"), *part;
    json_t *all = json_copy(schema); /* its members stay, for rules that know them */
    size_t i;
    check_memory(s, all != NULL);
    if (!json_is_array(parts) || json_array_size(parts) == 0)
        ln_schema_malformed(s, "allOf", "an array of schemas");
    json_object_del(all, "allOf");
    json_array_foreach(parts, i, part) {
        if (s->builder->status != LINNET_OK)
            break;
        json_t *next = merge(s, all, "", part, 0);
        json_decref(all);
        all = next;
    }
    all = keep(s, all);
    return all != NULL ? ln_schema_read(s, all) : ln_expr_empty(s->builder);
}

/* ---- unions ---------------------------------------------------------------------------------- */

enum {
    IS_NULL = 1,
    IS_BOOLEAN = 2,
    IS_OBJECT = 4,
    IS_ARRAY = 8,
    IS_NUMBER = 16,
    IS_STRING = 32,
    IS_ANY = 63
};

static unsigned type_bit(const char *name) {
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"null", IS_NULL},    {"boolean", IS_BOOLEAN}, {"object", IS_OBJECT},
                 {"array", IS_ARRAY},  {"number", IS_NUMBER},   {"integer", IS_NUMBER},
                 {"string", IS_STRING}};
    for (size_t i = 0; name != NULL && i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return types[i].bit;
    return IS_ANY;
}

static unsigned types_of(json_t *schema) {
    json_t *type = json_object_get(schema, "type"), *name;
    unsigned bits = 0;
    size_t i;
    if (json_is_true(json_object_get(schema, "nullable")))
        bits = IS_NULL;
    if (!json_is_array(type))
        return bits | type_bit(json_string_value(type));
    json_array_foreach(type, i, name) {
        bits |= type_bit(json_string_value(name));
    }
    return bits;
}

static bool requires(json_t *schema, const char *name) {
    size_t i;
    json_t *required;
    json_array_foreach(json_object_get(schema, "required"), i, required) {
        if (json_is_string(required) && strcmp(json_string_value(required), name) == 0)
            return true;
    }
    return false;
}

/* Whether no value can satisfy both, as far as that is easily seen. */
static bool are_apart(ln_schema *s, json_t *left, json_t *right) {
    const char *key;
    json_t *value;
    if (json_object_get(left, "$ref") != NULL)
        left = ln_schema_find(s, json_object_get(left, "$ref"));
    if (json_object_get(right, "$ref") != NULL)
        right = ln_schema_find(s, json_object_get(right, "$ref"));
    if ((types_of(left) & types_of(right)) == 0 || ln_schema_values_differ(s, left, right))
        return true;
    if (types_of(left) != IS_OBJECT || types_of(right) != IS_OBJECT)
        return false;
    json_object_foreach(json_object_get(left, "properties"), key, value) {
        json_t *other = json_object_get(json_object_get(right, "properties"), key);
        if (other != NULL && requires(left, key) && requires(right, key) &&
            ln_schema_values_differ(s, value, other))
            return true;
    }
    return false;
}

static ln_expr *read_union(ln_schema *s, json_t *schema, const char *keyword) {
    json_t *parts = json_object_get(schema, keyword), *part;
    bool is_one = strcmp(keyword, "oneOf") == 0, has_more = has_others(schema, keyword);
    ln_expr *choice = ln_expr_list(s->builder, LN_EXPR_CHOICE);
    size_t i;
    if (!json_is_array(parts) || json_array_size(parts) == 0)
        ln_schema_malformed(s, keyword, "an array of schemas");
    if (json_array_size(parts) > 1000)
        ln_schema_unsupported(s, "anyOf or oneOf with more than 1000 schemas");
    json_array_foreach(parts, i, part) {
        for (size_t j = 0; j < i && is_one && s->builder->status == LINNET_OK; j++)
            if (!are_apart(s, json_array_get(parts, j), part))
                ln_schema_unsupported(s, "oneOf of schemas that one value may satisfy together "
                                         "(anyOf would do)");
        if (s->builder->status != LINNET_OK)
            break;
        json_t *whole = has_more ? keep(s, merge(s, schema, keyword, part, 0)) : part;
        if (whole != NULL)
            ln_expr_add(s->builder, choice, ln_schema_read(s, whole));
    }
    return choice;
}

static ln_expr *read_any_of(ln_schema *s, json_t *schema) {
    return read_union(s, schema, "anyOf");
}

static ln_expr *read_one_of(ln_schema *s, json_t *schema) {
    return read_union(s, schema, "oneOf");
}

/* ---- one schema ------------------------------------------------------------------------------ */

static ln_expr *read_values(ln_schema *s, json_t *values) {
    ln_grammar_builder *b = s->builder;
    size_t i, n = json_array_size(values);
    ln_text *texts = calloc(n + 1, sizeof *texts);
    json_t *value;
    if (texts == NULL)
        ln_grammar_fail(b, LINNET_ERR_NOMEM, "out of memory for a grammar");
    for (i = 0; i < n && b->status == LINNET_OK; i++) {
        value = json_array_get(values, i);
        texts[i].bytes = ln_json_dump(b, value); /* owned until all are copied */
        texts[i].n_bytes = texts[i].bytes != NULL ? strlen(texts[i].bytes) : 0;
    }
    ln_expr *choice = ln_expr_texts(b, texts, n);
    for (i = 0; texts != NULL && i < n; i++)
        free((char *)(uintptr_t)texts[i].bytes);
    free(texts);
    return ln_expr_rule(b, ln_rule_add_terminal(b, "a value of an enum", choice));
}

static ln_expr *read_type(ln_schema *s, json_t *schema, const char *type) {
    ln_grammar_builder *b = s->builder;
    if (type == NULL)
        ln_schema_malformed(s, "type", "a name or an array of names");
    else if (strcmp(type, "string") == 0)
        return ln_schema_read_string(s, schema);
    else if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0)
        return ln_schema_read_number(s, schema, type[0] == 'i');
    else if (strcmp(type, "object") == 0)
        return ln_schema_read_object(s, schema);
    else if (strcmp(type, "array") == 0)
        return ln_schema_read_array(s, schema);
    else if (strcmp(type, "boolean") == 0)
        return ln_expr_choice(b, ln_expr_text(b, "true"), ln_expr_text(b, "false"), NULL);
    else if (strcmp(type, "null") == 0)
        return ln_expr_text(b, "null");
    else
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT, "JSON schema: there is no type \"%.40s\"", type);
    return ln_expr_empty(b);
}

/* What a schema without a type is about. */
static const char *guess_type(json_t *schema) {
    static const struct {
        const char *keyword, *type;
    } guesses[] = {{"properties", "object"},
                   {"required", "object"},
                   {"additionalProperties", "object"},
                   {"items", "array"},
                   {"prefixItems", "array"},
                   {"minItems", "array"},
                   {"maxItems", "array"},
                   {"minLength", "string"},
                   {"maxLength", "string"},
                   {"pattern", "string"},
                   {"format", "string"},
                   {"minimum", "number"},
                   {"maximum", "number"},
                   {"exclusiveMinimum", "number"},
                   {"exclusiveMaximum", "number"}};
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++)
        if (json_object_get(schema, guesses[i].keyword) != NULL)
            return guesses[i].type;
    return NULL;
}

static ln_expr *read_types(ln_schema *s, json_t *schema) {
    ln_grammar_builder *b = s->builder;
    json_t *type = json_object_get(schema, "type"), *name;
    const char *guess = guess_type(schema);
    size_t i;
    if (type == NULL)
        return guess != NULL ? read_type(s, schema, guess) : ln_expr_rule(b, s->rules->value);
    if (!json_is_array(type))
        return read_type(s, schema, json_string_value(type));
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    json_array_foreach(type, i, name) {
        ln_expr_add(b, choice, read_type(s, schema, json_string_value(name)));
    }
    return choice;
}

static ln_expr *read_plain(ln_schema *s, json_t *schema) {
    json_t *values;
    if (!ln_schema_get_values(s, schema, &values))
        return read_types(s, schema);
    ln_expr *none = ln_expr_list(s->builder, LN_EXPR_CHOICE);
    ln_expr *expr = json_array_size(values) > 0 ? read_values(s, values) : none;
    json_decref(values);
    return expr;
}

/* The rule of what `read` makes of a schema; it may still be without a body, when it refers to
 * itself. */
static uint32_t rule_of(ln_schema *s, json_t *schema, const char *name,
                        ln_expr *(*read)(ln_schema *, json_t *)) {
    ln_grammar_builder *b = s->builder;
    char key[64];
    uint32_t rule;
    snprintf(key, sizeof key, "%p %s", (void *)schema, name);
    json_t *known = json_object_get(s->rules_by_schema, key);
    if (known != NULL)
        return (uint32_t)json_integer_value(known);
    rule = ln_json_rule(b, name, NULL);
    json_object_set_new(s->rules_by_schema, key, json_integer((json_int_t)rule));
    ln_expr *body = read(s, schema);
    if (b->status == LINNET_OK)
        b->rules[rule].body = body;
    return rule;
}

/* A schema that is merged with its parts: once, so that it may come again among them. */
static ln_expr *read_combined(ln_schema *s, json_t *schema, const char *keyword,
                              ln_expr *(*read)(ln_schema *, json_t *)) {
    bool is_merged = strcmp(keyword, "allOf") == 0 || has_others(schema, keyword);
    return is_merged ? ln_expr_rule(s->builder, rule_of(s, schema, keyword, read))
                     : read(s, schema);
}

static ln_expr *read_object_schema(ln_schema *s, json_t *schema) {
    ln_grammar_builder *b = s->builder;
    ln_schema_check_keywords(s, schema);
    if (json_object_get(schema, "$ref") != NULL) {
        if (has_others(schema, "$ref"))
            ln_schema_unsupported(s, "another keyword beside $ref");
        json_t *target = ln_schema_find(s, json_object_get(schema, "$ref"));
        if (target == NULL)
            return ln_expr_empty(b);
        return ln_expr_rule(b, ln_schema_rule(s, target));
    }
    if (json_object_get(schema, "allOf") != NULL)
        return read_combined(s, schema, "allOf", read_all_of);
    if (json_object_get(schema, "anyOf") != NULL)
        return read_combined(s, schema, "anyOf", read_any_of);
    if (json_object_get(schema, "oneOf") != NULL)
        return read_combined(s, schema, "oneOf", read_one_of);
    if (json_is_true(json_object_get(schema, "nullable")))
        return ln_expr_choice(b, read_plain(s, schema), ln_expr_text(b, "null"), NULL);
    return read_plain(s, schema);
}

bool ln_schema_enter(ln_schema *s) {
    if (s->depth == LN_GRAMMAR_MAX_DEPTH / 2)
        ln_grammar_fail(s->builder, LINNET_ERR_LIMIT,
                        "JSON schema: it is nested more than %d schemas deep",
                        LN_GRAMMAR_MAX_DEPTH / 2);
    else
        s->depth++;
    return s->builder->status == LINNET_OK;
}

ln_expr *ln_schema_read(ln_schema *s, json_t *schema) {
    ln_grammar_builder *b = s->builder;
    if (b->status != LINNET_OK)
        return ln_expr_empty(b);
    if (json_is_true(schema))
        return ln_expr_rule(b, s->rules->value);
    if (!json_is_object(schema)) {
        ln_schema_unsupported(s, json_is_false(schema) ? "a schema that is false"
                                                       : "a schema that is no object");
        return ln_expr_empty(b);
    }
    if (!ln_schema_enter(s))
        return ln_expr_empty(b);
    ln_expr *expr = read_object_schema(s, schema);
    s->depth--;
    return expr;
}

/* ---- rules ----------------------------------------------------------------------------------- */

uint32_t ln_schema_rule(ln_schema *s, json_t *schema) {
    return rule_of(s, schema, "a schema that $ref leads to", ln_schema_read);
}

uint32_t ln_schema_add(ln_grammar_builder *builder, const ln_json_rules *rules, json_t *root,
                       json_t *schema) {
    ln_schema s = {.builder = builder,
                   .rules = rules,
                   .root = root,
                   .kept = json_array(),
                   .rules_by_schema = json_object()};
    uint32_t rule = 0;
    if (s.kept == NULL || s.rules_by_schema == NULL)
        ln_grammar_fail(builder, LINNET_ERR_NOMEM, "out of memory for a grammar");
    else
        rule = ln_schema_rule(&s, schema);
    json_decref(s.kept);
    json_decref(s.rules_by_schema);
    return rule;
}
