/* Structural tags: text with tagged parts, such as tool calls, as xgrammar's JSON describes
 * it. Free text ends where the first trigger ends, so that a tag that is begun is finished. */
#include <jansson.h>
#include <string.h>

#include "grammar/json_rules.h"
#include "grammar/language.h"
#include "grammar/regex.h"
#include "grammar/sources.h"
#include "grammar/token_trie.h"

enum { MAX_MARKER = 60 }; /* bytes of a special token's text */

typedef struct tag_reader {
    ln_grammar_builder *builder;
    ln_json_rules rules;
    unsigned depth;
} tag_reader;

static ln_expr *read_format(tag_reader *t, const json_t *format, const json_t *ends);

static ln_expr *fail(tag_reader *t, const char *what, const char *more) {
    ln_grammar_fail(t->builder, LINNET_ERR_ARGUMENT, "structural tag: %s%.60s", what, more);
    return ln_expr_empty(t->builder);
}

static ln_expr *refuse(tag_reader *t, const char *what) {
    ln_grammar_fail(t->builder, LINNET_ERR_UNSUPPORTED, "structural tag: %s is not supported",
                    what);
    return ln_expr_empty(t->builder);
}

/* ---- texts -------------------------------------------------------------------------------------
 */

/* A text, which may be a special token of the vocabulary. */
static ln_expr *literal(tag_reader *t, const char *text) {
    size_t n = strlen(text);
    bool is_marker = n > 2 && n <= MAX_MARKER && strchr("<[", text[0]) != NULL &&
                     strchr(">]", text[n - 1]) != NULL;
    return is_marker ? ln_expr_marker(t->builder, text) : ln_expr_text(t->builder, text);
}

/* One of the strings; adds to a choice. False: the value is no string that is not empty, nor an
 * array of such. */
static bool add_strings(tag_reader *t, const json_t *value, ln_expr *choice) {
    const json_t *item;
    size_t i;
    if (json_string_length(value) > 0)
        ln_expr_add(t->builder, choice, ln_expr_text(t->builder, json_string_value(value)));
    json_array_foreach(value, i, item) {
        if (json_string_length(item) == 0)
            return false;
        ln_expr_add(t->builder, choice, ln_expr_text(t->builder, json_string_value(item)));
    }
    return value == NULL || json_is_array(value) || json_is_string(value);
}

/* Texts that have one of the strings in them; NULL: there are none. */
static const ln_dfa *containing(tag_reader *t, const json_t *strings, const json_t *others) {
    ln_grammar_builder *b = t->builder;
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    if (!add_strings(t, strings, choice) || !add_strings(t, others, choice))
        fail(t, "excludes or triggers are no strings", "");
    if (choice->first == NULL)
        return NULL;
    return ln_language_of(b, ln_expr_sequence(b, ln_expr_any(b, 0, LN_NO_LIMIT), choice,
                                              ln_expr_any(b, 0, LN_NO_LIMIT), NULL));
}

/* Any text without some strings. */
static ln_expr *text_without(tag_reader *t, const json_t *strings, const json_t *others) {
    ln_grammar_builder *b = t->builder;
    const ln_dfa *excluded = containing(t, strings, others);
    if (excluded == NULL)
        return ln_expr_rule(b, ln_rule_add_terminal(b, "any text", ln_expr_any(b, 0, LN_NO_LIMIT)));
    const ln_dfa *rest =
        ln_language_minus(b, ln_language_of(b, ln_expr_any(b, 0, LN_NO_LIMIT)), excluded);
    return ln_expr_rule(b, ln_rule_add_terminal(b, "free text", ln_language_expr(b, rest)));
}

static ln_expr *read_any_text(tag_reader *t, const json_t *format, const json_t *ends) {
    ln_grammar_builder *b = t->builder;
    const json_t *most = json_object_get(format, "max_chars");
    const json_t *excludes = json_object_get(format, "excludes");
    if (json_is_integer(json_object_get(format, "max_tokens")))
        return refuse(t, "max_tokens");
    if (!json_is_integer(most))
        return text_without(t, excludes, ends);
    json_int_t n = json_integer_value(most);
    if (n < 0 || n > LN_GRAMMAR_MAX_STATES)
        return fail(t, "max_chars is out of range", "");
    ln_expr *chars = ln_expr_any(b, 0, (uint32_t)n);
    const ln_dfa *excluded = containing(t, excludes, ends), *all = ln_language_of(b, chars);
    if (excluded != NULL)
        all = ln_language_minus(b, all, excluded);
    return ln_expr_rule(b, ln_rule_add_terminal(b, "some text", ln_language_expr(b, all)));
}

/* ---- contents ----------------------------------------------------------------------------------
 */

static ln_expr *read_schema(tag_reader *t, const json_t *format, const char *key) {
    ln_grammar_builder *b = t->builder;
    json_t *schema = json_object_get(format, key);
    const char *style = json_string_value(json_object_get(format, "style"));
    json_t *parsed = NULL;
    if (style != NULL && strcmp(style, "json") != 0)
        return refuse(t, "a style of json_schema other than json");
    if (json_is_string(schema))
        schema = parsed = ln_grammar_parse_json(b, json_string_value(schema),
                                                json_string_length(schema), "the JSON schema");
    if (!json_is_object(schema) && !json_is_boolean(schema)) {
        json_decref(parsed);
        return fail(t, "there is no ", key);
    }
    unsigned form = b->json_form;
    if (json_is_true(json_object_get(format, "any_order")))
        b->json_form &= ~(unsigned)LINNET_JSON_ORDERED;
    uint32_t rule = ln_schema_add(b, &t->rules, schema, (b->json_form & LINNET_JSON_CLOSED) != 0);
    b->json_form = form;
    json_decref(parsed);
    return ln_expr_rule(b, rule);
}

static ln_expr *read_grammar(tag_reader *t, const json_t *format) {
    ln_grammar_builder *b = t->builder;
    const json_t *text = json_object_get(format, "grammar");
    uint32_t root = b->root;
    if (!json_is_string(text))
        return fail(t, "a grammar has no text", "");
    ln_grammar_read_gbnf(b, json_string_value(text), json_string_length(text));
    uint32_t rule = b->root;
    b->root = root;
    return ln_expr_rule(b, rule);
}

static ln_expr *read_regex(tag_reader *t, const json_t *format) {
    ln_grammar_builder *b = t->builder;
    const json_t *text = json_object_get(format, "pattern");
    if (!json_is_string(text))
        return fail(t, "a regex has no pattern", "");
    ln_expr *expr = ln_regex_read(b, json_string_value(text), json_string_length(text));
    return ln_expr_rule(b, ln_rule_add_terminal(b, "a pattern", expr));
}

static ln_expr *read_elements(tag_reader *t, const json_t *format, ln_expr_kind kind,
                              const json_t *ends) {
    const json_t *elements = json_object_get(format, "elements"), *element;
    ln_expr *list = ln_expr_list(t->builder, kind);
    size_t i;
    if (json_array_size(elements) == 0)
        return fail(t, "a sequence or choice has no elements", "");
    json_array_foreach(elements, i, element) {
        ln_expr_add(t->builder, list, read_format(t, element, ends));
    }
    return list;
}

static ln_expr *read_repeat(tag_reader *t, const json_t *format, const char *type,
                            const json_t *ends) {
    json_int_t min = strcmp(type, "plus") == 0, max = strcmp(type, "optional") == 0 ? 1 : -1;
    if (strcmp(type, "repeat") == 0) {
        min = json_integer_value(json_object_get(format, "min"));
        max = json_integer_value(json_object_get(format, "max"));
    }
    if (min < 0 || min > LN_GRAMMAR_MAX_STATES || max > LN_GRAMMAR_MAX_STATES ||
        (max >= 0 && max < min))
        return fail(t, "a repetition's limits are out of range", "");
    return ln_expr_repeat(t->builder, read_format(t, json_object_get(format, "content"), ends),
                          (uint32_t)min, max < 0 ? LN_NO_LIMIT : (uint32_t)max);
}

/* ---- tags --------------------------------------------------------------------------------------
 */

/* What follows the first n_begun bytes of a tag's beginning. */
static ln_expr *rest_of_tag(tag_reader *t, const json_t *tag, size_t n_begun) {
    ln_grammar_builder *b = t->builder;
    const char *begin = json_string_value(json_object_get(tag, "begin"));
    json_t *end = json_object_get(tag, "end");
    bool is_old = json_object_get(tag, "content") == NULL;
    const json_t *item;
    size_t i;
    if (begin == NULL || (!json_is_string(end) && json_array_size(end) == 0))
        return fail(t, "a tag has no begin or no end", "");
    json_t *ends = json_is_string(end) ? json_pack("[O]", end) : json_incref(end);
    ln_expr *closing = ln_expr_list(b, LN_EXPR_CHOICE);
    json_array_foreach(ends, i, item) {
        if (json_is_string(item))
            ln_expr_add(b, closing, literal(t, json_string_value(item)));
        else
            fail(t, "a tag's end is no string", "");
    }
    json_t *outer = json_array();
    json_array_foreach(ends, i, item) {
        if (json_string_length(item) > 0)
            json_array_append(outer, (json_t *)(uintptr_t)item);
    }
    ln_expr *content = is_old ? read_schema(t, tag, "schema")
                              : read_format(t, json_object_get(tag, "content"), outer);
    json_decref(outer);
    json_decref(ends);
    return ln_expr_sequence(b, n_begun > 0 ? ln_expr_text(b, begin + n_begun) : literal(t, begin),
                            content, closing, NULL);
}

/* The string that `begin` begins with; NULL: none. */
static const char *find_trigger(const json_t *triggers, const char *begin) {
    const json_t *trigger;
    size_t i;
    json_array_foreach(triggers, i, trigger) {
        const char *text = json_string_value(trigger);
        if (text != NULL && begin != NULL && strncmp(begin, text, strlen(text)) == 0)
            return text;
    }
    return NULL;
}

/* Free text up to the first of the triggers, which is `trigger`; or up to it as a special token. */
static ln_expr *text_to(tag_reader *t, const json_t *triggers, const char *trigger,
                        const json_t *excludes, const json_t *ends, bool is_free) {
    ln_grammar_builder *b = t->builder;
    if (!is_free)
        return literal(t, trigger);
    ln_expr *any = ln_expr_list(b, LN_EXPR_CHOICE);
    add_strings(t, triggers, any);
    const ln_dfa *to =
        ln_language_of(b, ln_expr_sequence(b, ln_expr_any(b, 0, LN_NO_LIMIT), any, NULL));
    ln_expr *further = ln_expr_sequence(b, ln_language_expr(b, to), ln_expr_chars(b, NULL, 0, true),
                                        ln_expr_any(b, 0, LN_NO_LIMIT), NULL);
    to = ln_language_minus(b, to, ln_language_of(b, further));
    to = ln_language_and(b, to,
                         ln_language_of(b, ln_expr_sequence(b, ln_expr_any(b, 0, LN_NO_LIMIT),
                                                            ln_expr_text(b, trigger), NULL)));
    const ln_dfa *excluded = containing(t, excludes, ends);
    if (excluded != NULL)
        to = ln_language_minus(b, to, excluded);
    ln_expr *plain =
        ln_expr_rule(b, ln_rule_add_terminal(b, "text up to a trigger", ln_language_expr(b, to)));
    char special[MAX_MARKER + 2] = {LN_SPECIAL_MARK};
    if (strlen(trigger) > MAX_MARKER)
        return plain;
    memcpy(special + 1, trigger, strlen(trigger) + 1);
    json_t *all = json_copy((json_t *)(uintptr_t)triggers);
    json_array_extend(all, (json_t *)(uintptr_t)excludes);
    ln_expr *before = text_without(t, all, ends);
    json_decref(all);
    return ln_expr_choice(b, plain, ln_expr_sequence(b, before, ln_expr_text(b, special), NULL),
                          NULL);
}

/* One tag of each, behind free text or not; NULL after a failure. */
static ln_expr *any_tag(tag_reader *t, const json_t *format, const json_t *ends, bool is_free) {
    ln_grammar_builder *b = t->builder;
    const json_t *tags = json_object_get(format, "tags"), *tag;
    const json_t *triggers = json_object_get(format, "triggers");
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    size_t i;
    if (tags == NULL)
        tags = json_object_get(format, "structures");
    if (json_array_size(tags) == 0)
        return fail(t, "there are no tags", "");
    json_array_foreach(tags, i, tag) {
        const char *begin = json_string_value(json_object_get(tag, "begin"));
        const char *trigger = find_trigger(triggers, begin);
        if (triggers == NULL) {
            ln_expr_add(b, choice, rest_of_tag(t, tag, 0));
            continue;
        }
        if (trigger == NULL || trigger[0] == '\0')
            return fail(t, "no trigger begins the tag ", begin != NULL ? begin : "");
        ln_expr_add(b, choice,
                    ln_expr_sequence(b,
                                     text_to(t, triggers, trigger,
                                             json_object_get(format, "excludes"), ends, is_free),
                                     rest_of_tag(t, tag, strlen(trigger)), NULL));
    }
    return choice;
}

static ln_expr *read_triggered(tag_reader *t, const json_t *format, const json_t *ends) {
    ln_grammar_builder *b = t->builder;
    bool at_least_one = json_is_true(json_object_get(format, "at_least_one"));
    bool only_first = json_is_true(json_object_get(format, "stop_after_first"));
    const json_t *triggers = json_object_get(format, "triggers");
    if (json_array_size(triggers) == 0)
        return fail(t, "there are no triggers", "");
    /* a first tag that must come stands at the beginning */
    ln_expr *first = any_tag(t, format, ends, !at_least_one);
    json_t *excluded = json_copy((json_t *)(uintptr_t)triggers);
    json_array_extend(excluded, json_object_get(format, "excludes"));
    ln_expr *last = text_without(t, excluded, ends);
    json_decref(excluded);
    if (only_first)
        return at_least_one ? first : ln_expr_choice(b, first, last, NULL);
    if (!at_least_one)
        return ln_expr_sequence(b, ln_expr_repeat(b, first, 0, LN_NO_LIMIT), last, NULL);
    ln_expr *more = ln_expr_repeat(b, any_tag(t, format, ends, true), 0, LN_NO_LIMIT);
    return ln_expr_sequence(b, first, more, last, NULL);
}

static ln_expr *read_separated(tag_reader *t, const json_t *format, const json_t *ends) {
    ln_grammar_builder *b = t->builder;
    const char *separator = json_string_value(json_object_get(format, "separator"));
    bool only_first = json_is_true(json_object_get(format, "stop_after_first"));
    if (separator == NULL || json_object_get(format, "triggers") != NULL)
        return fail(t, "tags_with_separator has no separator, or triggers", "");
    uint32_t rule = ln_json_rule(b, "a tag", any_tag(t, format, ends, false));
    ln_expr *more = ln_expr_sequence(b, ln_expr_text(b, separator), ln_expr_rule(b, rule), NULL);
    ln_expr *all = ln_expr_sequence(b, ln_expr_rule(b, rule),
                                    ln_expr_repeat(b, more, 0, only_first ? 0 : LN_NO_LIMIT), NULL);
    return json_is_true(json_object_get(format, "at_least_one")) ? all : ln_expr_optional(b, all);
}

/* Rules of a pattern and what follows it, in free text: tags without an end. */
static ln_expr *read_dispatch(tag_reader *t, const json_t *format, const json_t *ends) {
    const json_t *rules = json_object_get(format, "rules"), *rule;
    bool loops = !json_is_false(json_object_get(format, "loop"));
    json_t *triggers = json_array(), *tags = json_array();
    size_t i;
    json_array_foreach(rules, i, rule) {
        json_t *pattern = json_array_get(rule, 0), *content = json_array_get(rule, 1);
        if (json_string_length(pattern) == 0 || content == NULL)
            fail(t, "a rule of dispatch is no pair of a pattern and a format", "");
        json_array_append(triggers, pattern);
        json_array_append_new(
            tags, json_pack("{sO*, sO*, ss}", "begin", pattern, "content", content, "end", ""));
    }
    json_t *same =
        json_pack("{so, so, sb, sO*}", "triggers", triggers, "tags", tags, "stop_after_first",
                  !loops, "excludes", json_object_get(format, "excludes"));
    ln_expr *expr = read_triggered(t, same, ends);
    json_decref(same);
    return expr;
}

static ln_expr *read_token(tag_reader *t, const json_t *format) {
    const char *token = json_string_value(json_object_get(format, "token"));
    if (token == NULL)
        return refuse(t, "a token by its number");
    if (strlen(token) > MAX_MARKER)
        return fail(t, "the text of a token is too long", "");
    return ln_expr_marker(t->builder, token);
}

static ln_expr *read_const(tag_reader *t, const json_t *format) {
    const char *value = json_string_value(json_object_get(format, "value"));
    return value != NULL ? literal(t, value) : fail(t, "const_string has no value", "");
}

/* ---- formats -----------------------------------------------------------------------------------
 */

static ln_expr *read_type(tag_reader *t, const json_t *format, const char *type,
                          const json_t *ends) {
#define IS(name) (strcmp(type, name) == 0)
    if (IS("const_string"))
        return read_const(t, format);
    if (IS("json_schema"))
        return read_schema(t, format, "json_schema");
    if (IS("any_text"))
        return read_any_text(t, format, ends);
    if (IS("grammar"))
        return read_grammar(t, format);
    if (IS("regex"))
        return read_regex(t, format);
    if (IS("sequence"))
        return read_elements(t, format, LN_EXPR_SEQUENCE, ends);
    if (IS("or"))
        return read_elements(t, format, LN_EXPR_CHOICE, ends);
    if (IS("optional") || IS("plus") || IS("star") || IS("repeat"))
        return read_repeat(t, format, type, ends);
    if (IS("tag"))
        return rest_of_tag(t, format, 0);
    if (IS("triggered_tags"))
        return read_triggered(t, format, ends);
    if (IS("tags_with_separator"))
        return read_separated(t, format, ends);
    if (IS("dispatch"))
        return read_dispatch(t, format, ends);
    if (IS("token"))
        return read_token(t, format);
#undef IS
    ln_grammar_fail(t->builder, LINNET_ERR_UNSUPPORTED,
                    "structural tag: the format %.60s is not supported", type);
    return ln_expr_empty(t->builder);
}

/* `ends`: strings with which what holds the format ends; NULL: none. Free text has none of them. */
static ln_expr *read_format(tag_reader *t, const json_t *format, const json_t *ends) {
    const char *type = json_string_value(json_object_get(format, "type"));
    ln_expr *expr;
    if (type == NULL)
        return fail(t, "a format has no type", "");
    if (t->depth == LN_GRAMMAR_MAX_DEPTH) {
        ln_grammar_fail(t->builder, LINNET_ERR_LIMIT, "structural tag: it is nested too deep");
        return ln_expr_empty(t->builder);
    }
    if (t->builder->status != LINNET_OK)
        return ln_expr_empty(t->builder);
    t->depth++;
    expr = read_type(t, format, type, ends);
    t->depth--;
    return expr;
}

ln_status ln_grammar_read_structural_tag(ln_grammar_builder *builder, const char *text,
                                         size_t n_bytes) {
    tag_reader t = {.builder = builder};
    json_t *root = ln_grammar_parse_json(builder, text, n_bytes, "the structural tag");
    const json_t *format = json_object_get(root, "format"), *type = json_object_get(root, "type");
    ln_json_rules_add(builder, &t.rules);
    ln_expr *body = ln_expr_empty(builder);
    if (type != NULL && !json_is_null(type) && !json_is_string(type))
        body = fail(&t, "type is not a string", "");
    else if (format != NULL)
        body = read_format(&t, format, NULL);
    else if (json_object_get(root, "triggers") != NULL)
        body = read_triggered(&t, root, NULL); /* the old form: structures and triggers */
    else if (root != NULL)
        body = read_format(&t, root, NULL);
    builder->root = ln_json_rule(builder, "a structural tag", body);
    json_decref(root);
    return builder->status;
}
