/* GBNF: rules as llama.cpp writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash/siphash.h"
#include "base/utf8.h"
#include "grammar/sources.h"

typedef struct gbnf_parser {
    ln_grammar_builder *builder;
    const char *text; /* [n_bytes] in UTF-8 */
    size_t n_bytes, at;
    uint32_t *buckets; /* [n_buckets] of rules by name: rule + 1 */
    uint32_t *chains;  /* [LN_GRAMMAR_MAX_RULES] */
    const char **names;
    size_t *name_bytes;
    ln_range *ranges; /* of the class that is read */
    size_t n_ranges, range_capacity;
    unsigned depth;
} gbnf_parser;

enum { N_BUCKETS = 4096 };

static ln_status fail(gbnf_parser *p, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < p->at && i < p->n_bytes; i++)
        line += p->text[i] == '\n';
    return ln_grammar_fail(p->builder, LINNET_ERR_ARGUMENT, "line %zu: %s", line, what);
}

static bool has_failed(const gbnf_parser *p) {
    return p->builder->status != LINNET_OK;
}

static char peek(const gbnf_parser *p) {
    return p->at < p->n_bytes ? p->text[p->at] : '\0';
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static void skip_space(gbnf_parser *p, bool newlines) {
    for (; p->at < p->n_bytes; p->at++) {
        char c = p->text[p->at];
        if (c == '#')
            while (p->at + 1 < p->n_bytes && p->text[p->at + 1] != '\n')
                p->at++;
        else if (c != ' ' && c != '\t' && !(newlines && (c == '\n' || c == '\r')))
            return;
    }
}

/* The rule of a name; one that is not known yet is added without a body. */
static uint32_t find_rule(gbnf_parser *p, const char *name, size_t n_bytes) {
    static const uint64_t no_secret[2];
    uint32_t *bucket = &p->buckets[ln_siphash(no_secret, name, n_bytes) % N_BUCKETS];
    for (uint32_t at = *bucket; at != 0; at = p->chains[at - 1])
        if (p->name_bytes[at - 1] == n_bytes && memcmp(p->names[at - 1], name, n_bytes) == 0)
            return at - 1;
    uint32_t rule = ln_rule_add(p->builder, name, n_bytes, NULL);
    if (has_failed(p))
        return 0;
    p->names[rule] = name;
    p->name_bytes[rule] = n_bytes;
    p->chains[rule] = *bucket;
    *bucket = rule + 1;
    return rule;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A character of a literal or class, which may be escaped. */
static uint32_t read_char(gbnf_parser *p) {
    size_t n_bytes;
    if (p->at >= p->n_bytes) {
        fail(p, "it ends within a literal or class");
        return 0;
    }
    if (p->text[p->at] != '\\') {
        uint32_t c = ln_utf8_decode(p->text + p->at, &n_bytes);
        p->at += n_bytes;
        return c;
    }
    p->at++;
    char c = peek(p);
    unsigned n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    p->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '^':
    case '-': return (unsigned char)c;
    default: break;
    }
    uint32_t value = 0;
    for (unsigned i = 0; i < n_digits; i++) {
        int digit = hex_digit(peek(p));
        if (digit < 0 || value > 0x10ffff)
            n_digits = 0;
        value = value << 4 | (uint32_t)(digit & 15);
        p->at++;
    }
    if (n_digits == 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
        fail(p, "an escape is none of \\n \\r \\t \\\\ \\\" \\[ \\] \\^ \\- \\xHH "
                "\\uHHHH "
                "\\UHHHHHHHH");
        return 0;
    }
    return value;
}

static ln_expr *read_literal(gbnf_parser *p) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    p->at++;
    while (!has_failed(p) && peek(p) != '"') {
        if (peek(p) == '\n')
            fail(p, "a literal has no end");
        else
            ln_strbuf_put_utf8(&bytes, read_char(p));
    }
    p->at++;
    if (bytes.failed)
        ln_grammar_fail_memory(p->builder);
    ln_expr *expr = ln_expr_bytes(p->builder, bytes.data ? bytes.data : "", bytes.len);
    ln_strbuf_free(&bytes);
    return expr;
}

static ln_expr *read_class(gbnf_parser *p) {
    p->at++;
    bool negated = peek(p) == '^';
    p->at += negated;
    p->n_ranges = 0;
    while (!has_failed(p) && peek(p) != ']') {
        if (peek(p) == '\n') {
            fail(p, "a class has no end");
            break;
        }
        uint32_t low = read_char(p), high = low;
        if (peek(p) == '-' && p->at + 1 < p->n_bytes && p->text[p->at + 1] != ']') {
            p->at++;
            high = read_char(p);
        }
        if (high < low)
            fail(p, "a range of a class goes backwards");
        if (!ln_grow((void **)&p->ranges, &p->range_capacity, p->n_ranges + 1, sizeof *p->ranges))
            ln_grammar_fail_memory(p->builder);
        else
            p->ranges[p->n_ranges++] = (ln_range){low, high};
    }
    p->at++;
    return ln_expr_chars(p->builder, p->ranges, p->n_ranges, negated);
}

static uint32_t read_count(gbnf_parser *p) {
    uint64_t value = 0;
    if (peek(p) < '0' || peek(p) > '9')
        fail(p, "a repetition needs a number, as in {2} or {2,5}");
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        value = value * 10 + (uint64_t)(p->text[p->at] - '0');
        value = value < LN_NO_LIMIT ? value : LN_NO_LIMIT - 1;
    }
    return (uint32_t)value;
}

/* `*', `+', `?', `{m}', `{m,}', `{m,n}' or `{,n}' after `body', any number of
 * them. */
static ln_expr *read_repeats(gbnf_parser *p, ln_expr *body) {
    for (unsigned n = 0; !has_failed(p); n++) {
        skip_space(p, p->depth > 0);
        char c = peek(p);
        uint32_t min = c == '+', max = c == '?' ? 1 : LN_NO_LIMIT;
        if (c != '*' && c != '+' && c != '?' && c != '{')
            break;
        if (n == LN_GRAMMAR_MAX_DEPTH)
            fail(p, "too many repetitions of repetitions");
        p->at++;
        if (c == '{') {
            skip_space(p, true);
            min = peek(p) == ',' ? 0 : read_count(p);
            max = min;
            skip_space(p, true);
            if (peek(p) == ',') {
                p->at++;
                skip_space(p, true);
                max = peek(p) == '}' ? LN_NO_LIMIT : read_count(p);
                skip_space(p, true);
            }
            if (peek(p) != '}')
                fail(p, "a repetition has no }");
            if (max < min)
                fail(p, "a repetition's limits are backwards");
            p->at++;
        }
        body = ln_expr_repeat(p->builder, body, min, max);
    }
    return body;
}

static ln_expr *read_choice(gbnf_parser *p);

static ln_expr *read_group(gbnf_parser *p) {
    if (p->depth == LN_GRAMMAR_MAX_DEPTH) {
        ln_grammar_fail(p->builder, LINNET_ERR_LIMIT,
                        "the grammar is nested more than %d groups deep", LN_GRAMMAR_MAX_DEPTH);
        return ln_expr_empty(p->builder);
    }
    p->at++;
    p->depth++;
    ln_expr *expr = read_choice(p);
    p->depth--;
    if (peek(p) != ')')
        fail(p, "a group has no )");
    p->at++;
    return expr;
}

/* A name that `::=' follows begins the next rule. */
static bool begins_rule(const gbnf_parser *p) {
    size_t at = p->at;
    while (at < p->n_bytes && is_name(p->text[at]))
        at++;
    while (at < p->n_bytes && (p->text[at] == ' ' || p->text[at] == '\t'))
        at++;
    return p->n_bytes - at >= 3 && memcmp(p->text + at, "::=", 3) == 0;
}

static ln_expr *read_sequence(gbnf_parser *p) {
    ln_expr *list = ln_expr_list(p->builder, LN_EXPR_SEQUENCE);
    while (!has_failed(p)) {
        skip_space(p, p->depth > 0);
        char c = peek(p);
        ln_expr *part;
        if (c == '"') {
            part = read_literal(p);
        } else if (c == '[') {
            part = read_class(p);
        } else if (c == '(') {
            part = read_group(p);
        } else if (c == '.') {
            p->at++;
            part = ln_expr_chars(p->builder, NULL, 0, true);
        } else if (is_name(c) && !begins_rule(p)) {
            size_t begin = p->at;
            while (is_name(peek(p)))
                p->at++;
            part = ln_expr_rule(p->builder, find_rule(p, p->text + begin, p->at - begin));
        } else {
            break;
        }
        ln_expr_add(p->builder, list, read_repeats(p, part));
    }
    return list;
}

static ln_expr *read_choice(gbnf_parser *p) {
    ln_expr *list = ln_expr_list(p->builder, LN_EXPR_CHOICE);
    for (;;) {
        ln_expr_add(p->builder, list, read_sequence(p));
        skip_space(p, p->depth > 0);
        if (p->depth == 0 && (peek(p) == '\n' || peek(p) == '\r')) { /* `|' may begin a line */
            size_t before = p->at;
            skip_space(p, true);
            if (peek(p) != '|')
                p->at = before;
        }
        if (peek(p) != '|' || has_failed(p))
            return list;
        p->at++;
        skip_space(p, true);
    }
}

static void read_rule(gbnf_parser *p) {
    size_t begin = p->at;
    while (is_name(peek(p)))
        p->at++;
    size_t n_bytes = p->at - begin;
    skip_space(p, false);
    if (n_bytes == 0 || p->n_bytes - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0) {
        fail(p, "a rule begins with its name and ::=");
        return;
    }
    p->at += 3;
    skip_space(p, true);
    uint32_t rule = find_rule(p, p->text + begin, n_bytes);
    ln_expr *body = read_choice(p);
    if (has_failed(p))
        return;
    if (p->builder->rules[rule].body != NULL)
        fail(p, "a rule is there twice");
    p->builder->rules[rule].body = body;
    skip_space(p, false);
    if (p->at < p->n_bytes && peek(p) != '\n' && peek(p) != '\r')
        fail(p, "a part of a rule is none of \"literal\", [class], (group), . and "
                "a rule's name");
}

static ln_status read_rules(gbnf_parser *p) {
    ln_grammar_builder *builder = p->builder;
    size_t first = builder->n_rules;
    uint32_t root = find_rule(p, "root", 4);
    for (skip_space(p, true); p->at < p->n_bytes && !has_failed(p); skip_space(p, true))
        read_rule(p);
    for (size_t i = first; i < builder->n_rules && !has_failed(p); i++)
        if (builder->rules[i].body == NULL)
            ln_grammar_fail(builder, LINNET_ERR_ARGUMENT, "there is no rule \"%s\"",
                            builder->rules[i].name);
    builder->root = root;
    return builder->status;
}

ln_status ln_grammar_read_gbnf(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    gbnf_parser p = {.builder = builder, .text = text, .n_bytes = n_bytes};
    p.buckets = calloc(N_BUCKETS, sizeof *p.buckets);
    p.chains = calloc(LN_GRAMMAR_MAX_RULES, sizeof *p.chains);
    p.names = calloc(LN_GRAMMAR_MAX_RULES, sizeof *p.names);
    p.name_bytes = calloc(LN_GRAMMAR_MAX_RULES, sizeof *p.name_bytes);
    if (p.buckets == NULL || p.chains == NULL || p.names == NULL || p.name_bytes == NULL)
        ln_grammar_fail_memory(builder);
    else
        read_rules(&p);
    free(p.buckets);
    free(p.chains);
    free((void *)p.names);
    free(p.name_bytes);
    free(p.ranges);
    return builder->status;
}
