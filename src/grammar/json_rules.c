#include "grammar/json_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/big_integers.h"
#include "base/json/load.h"
#include "grammar/regex.h"
#include "grammar/sources.h"

uint32_t ln_json_rule(ln_grammar_builder *builder, const char *name, ln_expr *body) {
    uint32_t rule = ln_rule_add(builder, name, strlen(name), body);
    if (builder->status == LINNET_OK)
        builder->rules[rule].kind = LN_RULE_STRUCTURAL;
    return rule;
}

/* One ASCII character of a set written as pairs: "09af" is [0-9a-f]. */
static ln_expr *ascii(ln_grammar_builder *b, const char *pairs) {
    ln_range ranges[16];
    size_t n = 0;
    for (; pairs[0] != '\0' && n < 16; pairs += 2)
        ranges[n++] = (ln_range){(unsigned char)pairs[0], (unsigned char)pairs[1]};
    return ln_expr_chars(b, ranges, n, false);
}

static ln_expr *hex(ln_grammar_builder *b, uint32_t n) {
    return ln_expr_repeat(b, ascii(b, "09afAF"), n, n);
}

static ln_expr *counted(ln_expr *expr) {
    expr->counts = true;
    return expr;
}

/* \uHHHH, but for U+0000 and halves of pairs. */
static ln_expr *unicode_escape(ln_grammar_builder *b) {
    return ln_expr_choice(
        b, ln_expr_sequence(b, ascii(b, "19acefACEF"), hex(b, 3), NULL),
        ln_expr_sequence(b, ascii(b, "ddDD"), ascii(b, "07"), hex(b, 2), NULL),
        ln_expr_sequence(b, ln_expr_text(b, "0"), ascii(b, "19afAF"), hex(b, 2), NULL),
        ln_expr_sequence(b, ln_expr_text(b, "00"), ascii(b, "19afAF"), hex(b, 1), NULL),
        ln_expr_sequence(b, ln_expr_text(b, "000"), ascii(b, "19afAF"), NULL),
        ln_expr_sequence(b, ascii(b, "ddDD"), ascii(b, "89abAB"), hex(b, 2), ln_expr_text(b, "\\u"),
                         ascii(b, "ddDD"), ascii(b, "cfCF"), hex(b, 2), NULL),
        NULL);
}

static const ln_range not_plain[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};

static ln_expr *string_char(ln_grammar_builder *b) {
    return ln_expr_choice(b, counted(ln_expr_chars(b, not_plain, 3, true)),
                          ln_expr_sequence(b, counted(ln_expr_text(b, "\\")),
                                           ln_expr_choice(b, ascii(b, "\"\"\\\\//bbffnnrrtt"),
                                                          ln_expr_sequence(b, ln_expr_text(b, "u"),
                                                                           unicode_escape(b), NULL),
                                                          NULL),
                                           NULL),
                          NULL);
}

/* The escape of a character that has a short one; 0: it has none. */
static char short_escape(uint32_t c) {
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
    }
}

size_t ln_json_escape_char(uint32_t c, char escape[LN_JSON_MAX_ESCAPE]) {
    char letter = short_escape(c);
    if (letter == 0 && c > 0x1f)
        return 0;
    if (letter == 0)
        return (size_t)snprintf(escape, LN_JSON_MAX_ESCAPE, "\\u%04x", (unsigned)c);
    memcpy(escape, (const char[]){'\\', letter, '\0'}, 3);
    return 2;
}

ln_expr *ln_json_chars(ln_grammar_builder *b, const ln_range *ranges, size_t n_ranges,
                       bool negated) {
    ln_expr *set = ln_expr_chars(b, ranges, n_ranges, negated);
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    ln_range *plain = calloc(set->count + 4, sizeof *plain);
    size_t n = 0;
    if (plain == NULL) {
        ln_grammar_fail_memory(b);
        return choice;
    }
    /* what must be escaped is taken out by complement: outside of the set, or not
     * plain */
    uint32_t next = 0;
    for (uint32_t i = 0; b->status == LINNET_OK && i < set->count; i++) {
        if (set->ranges[i].low > next)
            plain[n++] = (ln_range){next, set->ranges[i].low - 1};
        next = set->ranges[i].high + 1;
        for (uint32_t c = set->ranges[i].low; c <= set->ranges[i].high && c <= '\\'; c++) {
            char escape[LN_JSON_MAX_ESCAPE];
            if (ln_json_escape_char(c, escape) > 0 && c != 0)
                ln_expr_add(b, choice, counted(ln_expr_text(b, escape)));
        }
    }
    if (next <= 0x10ffff)
        plain[n++] = (ln_range){next, 0x10ffff};
    memcpy(plain + n, not_plain, sizeof not_plain);
    ln_expr_add(b, choice, counted(ln_expr_chars(b, plain, n + 3, true)));
    free(plain);
    return choice;
}

/* ---- values ---------------------------------------------------------------------------------- */

static ln_expr *space_body(ln_grammar_builder *b) {
    if ((b->json_form & LINNET_JSON_COMPACT) != 0)
        return ln_expr_empty(b);
    return ln_expr_optional(
        b, ln_expr_choice(b, ln_expr_text(b, " "),
                          ln_expr_sequence(b, ln_expr_text(b, "\n"),
                                           ln_expr_repeat(b, ascii(b, "  \t\t"), 0, 40), NULL),
                          NULL));
}

static ln_expr *integer_body(ln_grammar_builder *b) {
    return ln_expr_sequence(
        b, ln_expr_optional(b, ln_expr_text(b, "-")),
        ln_expr_choice(
            b, ln_expr_text(b, "0"),
            ln_expr_sequence(b, ascii(b, "19"),
                             ln_expr_repeat(b, ascii(b, "09"), 0, LN_JSON_MAX_DIGITS - 1), NULL),
            NULL),
        NULL);
}

static ln_expr *number_body(ln_grammar_builder *b) {
    return ln_expr_sequence(
        b, integer_body(b),
        ln_expr_optional(b, ln_expr_sequence(b, ln_expr_text(b, "."),
                                             ln_expr_repeat(b, ascii(b, "09"), 1, 17), NULL)),
        ln_expr_optional(b, ln_expr_sequence(b, ascii(b, "eeEE"),
                                             ln_expr_optional(b, ascii(b, "++--")),
                                             ln_expr_repeat(b, ascii(b, "09"), 1, 2), NULL)),
        NULL);
}

/* OPEN space (part ("," space part)* space)? CLOSE */
static ln_expr *list_of(ln_grammar_builder *b, const ln_json_rules *rules, const char *open,
                        uint32_t part, const char *close) {
    ln_expr *more = ln_expr_sequence(b, ln_expr_text(b, ","), ln_expr_rule(b, rules->space),
                                     ln_expr_rule(b, part), NULL);
    ln_expr *parts =
        ln_expr_sequence(b, ln_expr_rule(b, part), ln_expr_repeat(b, more, 0, LN_NO_LIMIT),
                         ln_expr_rule(b, rules->space), NULL);
    return ln_expr_sequence(b, ln_expr_text(b, open), ln_expr_rule(b, rules->space),
                            ln_expr_optional(b, parts), ln_expr_text(b, close), NULL);
}

static void set_body(ln_grammar_builder *b, uint32_t rule, ln_expr *body) {
    if (b->status == LINNET_OK)
        b->rules[rule].body = body;
}

void ln_json_rules_add(ln_grammar_builder *b, ln_json_rules *rules) {
    rules->string_body = ln_expr_sequence(b, ln_expr_text(b, "\""),
                                          ln_expr_repeat(b, string_char(b), 0, LN_NO_LIMIT),
                                          ln_expr_text(b, "\""), NULL);
    rules->space = ln_rule_add_terminal(b, "white space", space_body(b));
    rules->string = ln_rule_add_terminal(b, "a string", rules->string_body);
    rules->number = ln_rule_add_terminal(b, "a number", number_body(b));
    rules->integer = ln_rule_add_terminal(b, "an integer", integer_body(b));
    rules->value = ln_json_rule(b, "a value", NULL);
    uint32_t member = ln_json_rule(b, "a member", NULL);
    set_body(b, member,
             ln_expr_sequence(b, ln_expr_rule(b, rules->string), ln_expr_text(b, ":"),
                              ln_expr_rule(b, rules->space), ln_expr_rule(b, rules->value), NULL));
    rules->object = ln_json_rule(b, "an object", list_of(b, rules, "{", member, "}"));
    rules->array = ln_json_rule(b, "an array", list_of(b, rules, "[", rules->value, "]"));
    set_body(b, rules->value,
             ln_expr_choice(b, ln_expr_rule(b, rules->object), ln_expr_rule(b, rules->array),
                            ln_expr_rule(b, rules->string), ln_expr_rule(b, rules->number),
                            ln_expr_text(b, "true"), ln_expr_text(b, "false"),
                            ln_expr_text(b, "null"), NULL));
}

/* ---- constants ------------------------------------------------------------------------------- */

char *ln_json_dump(ln_grammar_builder *b, const json_t *value) {
    char *text = NULL;
    bool is_same = false;
    /* with as many digits as its longest number needs */
    for (size_t digits = 15; digits <= 17 && !is_same; digits++) {
        free(text);
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *again = text != NULL ? ln_json_load_bytes(text, strlen(text),
                                                          JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                                     : NULL;
        is_same = text == NULL || json_equal(again, value);
        json_decref(again);
    }
    if (text == NULL)
        ln_grammar_fail_memory(b);
    return text;
}

/* ---- sources --------------------------------------------------------------------------------- */

json_t *ln_grammar_parse_json(ln_grammar_builder *builder, const char *text, size_t n_bytes,
                              const char *what) {
    static const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_error_t where;
    json_t *root = ln_json_load_bytes(text, n_bytes, flags, &where);
    if (root == NULL && json_error_code(&where) == json_error_numeric_overflow) {
        /* such as the greatest uint64, which schemas have as a maximum */
        ln_strbuf rewritten;
        ln_strbuf_init(&rewritten);
        if (ln_json_rewrite_big_integers(text, n_bytes, false, &rewritten))
            root = ln_json_load_bytes(rewritten.data, rewritten.len, flags, &where);
        else
            ln_grammar_fail_memory(builder);
        ln_strbuf_free(&rewritten);
    }
    if (root == NULL && json_error_code(&where) == json_error_out_of_memory)
        ln_grammar_fail_memory(builder);
    else if (root == NULL)
        ln_grammar_fail(builder, LINNET_ERR_ARGUMENT, "%s, line %d column %d: %s", what, where.line,
                        where.column, where.text);
    return root;
}

ln_status ln_grammar_read_json(ln_grammar_builder *builder) {
    ln_json_rules rules;
    ln_json_rules_add(builder, &rules);
    builder->root = rules.object;
    return builder->status;
}

ln_status ln_grammar_read_choice(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    json_t *root = ln_grammar_parse_json(builder, text, n_bytes, "the choice");
    size_t i, n = json_array_size(root);
    ln_text *texts = calloc(n + 1, sizeof *texts);
    json_t *value;
    if (texts == NULL)
        ln_grammar_fail_memory(builder);
    if (root != NULL && n == 0)
        ln_grammar_fail(builder, LINNET_ERR_ARGUMENT,
                        "the choice is no JSON array of at least one string");
    json_array_foreach(root, i, value) {
        if (json_string_length(value) == 0)
            ln_grammar_fail(builder, LINNET_ERR_ARGUMENT,
                            "the choice has a value that is no string, or empty");
        else if (texts != NULL)
            texts[i] = (ln_text){json_string_value(value), json_string_length(value)};
    }
    builder->root = ln_rule_add_terminal(builder, "the choice", ln_expr_texts(builder, texts, n));
    free(texts);
    json_decref(root);
    return builder->status;
}

ln_status ln_grammar_read_schema(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    ln_json_rules rules;
    json_t *root = ln_grammar_parse_json(builder, text, n_bytes, "the JSON schema");
    ln_json_rules_add(builder, &rules);
    if (root != NULL)
        builder->root =
            ln_schema_add(builder, &rules, root, (builder->json_form & LINNET_JSON_CLOSED) != 0);
    json_decref(root);
    return builder->status;
}
