#include "grammar/tool_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/value.h"
#include "grammar/sources.h"

ln_expr *ln_tool_text(ln_grammar_builder *b, const ln_call_syntax *syntax, const char *text) {
    size_t n_mark = syntax->mark != NULL && text != NULL ? strlen(syntax->mark) : 0;
    if (n_mark == 0 || strncmp(text, syntax->mark, n_mark) != 0)
        return ln_expr_marked_text(b, text);
    return ln_expr_sequence(b, ln_expr_marker(b, syntax->mark),
                            ln_expr_marked_text(b, text + n_mark), NULL);
}

typedef struct arguments_reader {
    ln_grammar_builder *builder;
    const ln_json_rules *rules;
    const ln_call_syntax *syntax;
    const json_t *schema;
    bool is_custom;
    int depth; /* of values within values */
} arguments_reader;

static bool is_required(const arguments_reader *a, const char *key) {
    const json_t *required = json_object_get(a->schema, "required"), *item;
    size_t i;
    json_array_foreach(required, i, item) {
        if (ln_json_is(item, key))
            return true;
    }
    return false;
}

/* Whether all of an enum are strings. */
static bool are_strings(const json_t *values) {
    const json_t *item;
    size_t i;
    json_array_foreach(values, i, item) {
        if (!json_is_string(item))
            return false;
    }
    return json_array_size(values) > 0;
}

static uint32_t length_of(const json_t *property, const char *key, uint32_t other) {
    const json_t *value = json_object_get(property, key);
    json_int_t n = json_integer_value(value);
    return json_is_integer(value) && n >= 0 && n < UINT32_MAX ? (uint32_t)n : other;
}

/* A text without quotation marks, up to `end`. */
static ln_expr *plain_text(arguments_reader *a, const json_t *property, const char *end) {
    ln_grammar_builder *b = a->builder;
    const json_t *values = json_object_get(property, "enum"), *item;
    const json_t *only = json_object_get(property, "const");
    size_t i;
    if (json_is_string(only))
        return ln_expr_text(b, json_string_value(only));
    if (!are_strings(values))
        return ln_expr_text_without(b, end, length_of(property, "minLength", 0),
                                    length_of(property, "maxLength", LN_NO_LIMIT));
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    json_array_foreach(values, i, item) {
        ln_expr_add(b, choice, ln_expr_text(b, json_string_value(item)));
    }
    return choice;
}

/* The value in JSON; what the root defines is known to it. */
static ln_expr *json_value(arguments_reader *a, const json_t *property) {
    static const char *const defined[] = {"$defs", "definitions"};
    ln_grammar_builder *b = a->builder;
    if (!json_is_object(property))
        return ln_expr_rule(b, a->rules->value);
    json_t *schema = json_copy((json_t *)(uintptr_t)property);
    for (size_t i = 0; i < 2; i++) {
        json_t *definitions = json_object_get(a->schema, defined[i]);
        if (definitions != NULL && json_object_get(schema, defined[i]) == NULL)
            json_object_set(schema, defined[i], definitions);
    }
    uint32_t rule = schema != NULL ? ln_schema_add(b, a->rules, schema, true) : 0;
    if (schema == NULL)
        ln_grammar_fail_memory(b);
    json_decref(schema);
    return b->status == LINNET_OK ? ln_expr_rule(b, rule) : ln_expr_empty(b);
}

ln_expr *ln_tool_input(ln_grammar_builder *b, const json_t *grammar, bool in_json) {
    const json_t *syntax = json_object_get(grammar, "syntax");
    const json_t *definition = json_object_get(grammar, "definition");
    const char *text = json_is_string(definition) ? json_string_value(definition) : "";
    size_t n_bytes = json_string_length(definition), first = b->n_rules;
    uint32_t root = b->root;
    if (ln_json_is(syntax, "lark"))
        ln_grammar_read_lark(b, text, n_bytes);
    else if (ln_json_is(syntax, "regex"))
        ln_grammar_read_regex(b, text, n_bytes);
    else
        ln_grammar_read_gbnf(b, text, n_bytes);
    if (in_json)
        ln_json_escape_rules(b, first);
    uint32_t rule = b->root;
    b->root = root;
    return b->status == LINNET_OK ? ln_expr_rule(b, rule) : ln_expr_empty(b);
}

/* The text of a custom tool, between what stands around texts. */
static ln_expr *custom_value(arguments_reader *a, const json_t *grammar) {
    ln_grammar_builder *b = a->builder;
    const ln_call_syntax *s = a->syntax;
    bool is_python = s->form == LN_CALLS_PYTHON; /* whose escapes are JSON's */
    const char *quote = is_python ? "\"" : s->form == LN_CALLS_GEMMA ? s->quote : NULL;
    ln_expr *text = ln_tool_input(b, grammar, is_python);
    return ln_expr_sequence(b, ln_tool_text(b, s, quote), text, ln_tool_text(b, s, quote), NULL);
}

static ln_expr *value_of(arguments_reader *a, const json_t *property) {
    ln_grammar_builder *b = a->builder;
    const ln_call_syntax *s = a->syntax;
    const json_t *grammar = a->is_custom ? json_object_get(property, "grammar") : NULL;
    if (grammar != NULL)
        return custom_value(a, grammar);
    bool is_text = ln_json_is(json_object_get(property, "type"), "string");
    if (s->form == LN_CALLS_PYTHON || !is_text)
        return json_value(a, property);
    if (s->form == LN_CALLS_TAGGED)
        return plain_text(a, property, s->nested ? s->mark : s->value_end);
    return ln_expr_sequence(b, ln_tool_text(b, s, s->quote), plain_text(a, property, s->quote),
                            ln_tool_text(b, s, s->quote), NULL);
}

static ln_expr *properties_of(arguments_reader *a);

/* <KEY>VALUE</KEY>, the tags behind marks. */
static ln_expr *nested_element(arguments_reader *a, const char *key, const json_t *property);

/* A value as elements: of an object its properties, of a list its items. */
static ln_expr *nested_value(arguments_reader *a, const json_t *property) {
    enum { MAX_DEPTH = 16 };
    ln_grammar_builder *b = a->builder;
    const json_t *type = json_object_get(property, "type");
    const json_t *items = json_object_get(property, "items");
    arguments_reader inner = {b, a->rules, a->syntax, property, a->is_custom, a->depth + 1};
    if (inner.depth > MAX_DEPTH)
        return json_value(a, property);
    if (ln_json_is(type, "object") && json_object_size(json_object_get(property, "properties")) > 0)
        return properties_of(&inner);
    if (ln_json_is(type, "array") && json_is_object(items))
        return ln_expr_repeat(b, nested_element(&inner, "item", items),
                              length_of(property, "minItems", 0),
                              length_of(property, "maxItems", LN_NO_LIMIT));
    return value_of(a, property);
}

static ln_expr *nested_element(arguments_reader *a, const char *key, const json_t *property) {
    ln_grammar_builder *b = a->builder;
    const ln_call_syntax *s = a->syntax;
    ln_expr *value = nested_value(a, property);
    return ln_expr_sequence(b, ln_tool_text(b, s, s->key), ln_expr_text(b, key),
                            ln_expr_text(b, s->key_end), value, ln_tool_text(b, s, s->key),
                            ln_expr_text(b, "/"), ln_expr_text(b, key), ln_expr_text(b, s->key_end),
                            NULL);
}

static ln_expr *line(ln_grammar_builder *b, const char *text) {
    return text != NULL ? ln_expr_optional(b, ln_expr_text(b, text)) : ln_expr_empty(b);
}

/* Where a tag says whether its value is text. */
static ln_expr *flag_of(arguments_reader *a, const json_t *property) {
    ln_grammar_builder *b = a->builder;
    const ln_call_syntax *s = a->syntax;
    const char *type = json_string_value(json_object_get(property, "type"));
    bool is_text = type != NULL && strcmp(type, "string") == 0;
    if (s->flag == NULL)
        return ln_expr_empty(b);
    const char *said = is_text ? "true" : "false";
    if (s->flag_text != NULL) /* the type's name */
        said = is_text                        ? s->flag_text
               : type == NULL                 ? "object"
               : strcmp(type, "integer") == 0 ? "number"
                                              : type;
    return ln_expr_sequence(b, ln_expr_text(b, s->flag), ln_expr_text(b, said),
                            ln_expr_text(b, "\""), NULL);
}

/* One argument, `other`: after another. */
static ln_expr *argument(arguments_reader *a, const char *key, const json_t *property, bool other) {
    ln_grammar_builder *b = a->builder;
    const ln_call_syntax *s = a->syntax;
    if (s->nested)
        return nested_element(a, key, property);
    ln_expr *value = value_of(a, property);
    if (s->form == LN_CALLS_TAGGED)
        return ln_expr_sequence(
            b, ln_tool_text(b, s, s->key), ln_expr_text(b, key), flag_of(a, property),
            ln_tool_text(b, s, s->key_end), line(b, s->value != NULL ? s->line : NULL),
            ln_tool_text(b, s, s->value), line(b, s->value_line), value, line(b, s->value_line),
            ln_tool_text(b, s, s->value_end), line(b, s->line), NULL);
    bool is_python = s->form == LN_CALLS_PYTHON;
    return ln_expr_sequence(b,
                            ln_expr_text(b, !other      ? ""
                                            : is_python ? ", "
                                                        : ","),
                            ln_expr_text(b, key), ln_expr_text(b, is_python ? "=" : ":"), value,
                            NULL);
}

/* The properties from `index` on: two rules each, for when there was an argument and when not. */
typedef struct tail {
    uint32_t rules[2];
} tail;

static tail add_property(arguments_reader *a, const char *key, const json_t *property,
                         const tail *rest) {
    ln_grammar_builder *b = a->builder;
    tail made = {{0, 0}};
    int n_rules = a->syntax->form == LN_CALLS_TAGGED ? 1 : 2; /* there nothing stands between */
    for (int other = 0; other < n_rules && b->status == LINNET_OK; other++) {
        ln_expr *one = argument(a, key, property, other != 0);
        ln_expr *with = ln_expr_sequence(b, one, ln_expr_rule(b, rest->rules[1]), NULL);
        if (!is_required(a, key))
            with = ln_expr_choice(b, with, ln_expr_rule(b, rest->rules[other]), NULL);
        if (b->status == LINNET_OK)
            made.rules[other] = ln_json_rule(b, "arguments", with);
    }
    if (n_rules == 1)
        made.rules[1] = made.rules[0];
    return made;
}

/* All properties of the schema, in their order. */
static ln_expr *properties_of(arguments_reader *a) {
    ln_grammar_builder *b = a->builder;
    json_t *properties = json_object_get(a->schema, "properties"), *property;
    size_t n = json_object_size(properties), at = 0;
    const char *key;
    const char **keys = n > 0 ? calloc(n, sizeof *keys) : NULL;
    if (n > 0 && keys == NULL)
        ln_grammar_fail_memory(b);
    json_object_foreach(properties, key, property) {
        if (keys != NULL)
            keys[at++] = key;
    }
    tail rest = {{0, 0}};
    rest.rules[0] = rest.rules[1] = ln_json_rule(b, "no arguments", ln_expr_empty(b));
    while (at > 0 && b->status == LINNET_OK) {
        at--;
        rest = add_property(a, keys[at], json_object_get(properties, keys[at]), &rest);
    }
    free(keys);
    return b->status == LINNET_OK ? ln_expr_rule(b, rest.rules[0]) : ln_expr_empty(b);
}

ln_expr *ln_tool_arguments(ln_grammar_builder *b, const ln_json_rules *rules,
                           const ln_call_syntax *syntax, const json_t *schema, bool is_custom) {
    arguments_reader a = {b, rules, syntax, schema, is_custom, 0};
    return properties_of(&a);
}
