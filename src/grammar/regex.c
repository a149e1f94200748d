#include "grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"
#include "grammar/sources.h"

enum { MAX_AHEAD = 16 }; /* look-aheads */

typedef struct regex_parser {
    ln_grammar_builder *builder;
    const char *text; /* [n_bytes] in UTF-8 */
    size_t n_bytes, at;
    ln_regex_mode mode;
    ln_range *ranges; /* of the class that is read */
    size_t n_ranges, range_capacity;
    unsigned depth;
    bool negated;      /* the class that is read is one of what it does not name */
    bool begins, ends; /* held by ^ and $ */
    bool ahead_ends;   /* $ holds the look-ahead that is read, */
    unsigned ahead;    /* in groups of this depth; 0: none is */
    unsigned tail;     /* groups of this depth and less have nothing behind them */
    unsigned flags, n_ahead;
} regex_parser;

static void fail(regex_parser *p, const char *what) {
    ln_grammar_fail(p->builder, LINNET_ERR_ARGUMENT, "regular expression, byte %zu: %s", p->at,
                    what);
}

static void fail_unsupported(regex_parser *p, const char *what) {
    ln_grammar_fail(p->builder, LINNET_ERR_UNSUPPORTED,
                    "regular expression, byte %zu: %s is not supported", p->at, what);
}

static bool has_failed(const regex_parser *p) {
    return p->builder->status != LINNET_OK;
}

static int peek(const regex_parser *p) {
    return p->at < p->n_bytes ? (unsigned char)p->text[p->at] : -1;
}

static bool take(regex_parser *p, const char *text) {
    size_t n = strlen(text);
    if (p->at > p->n_bytes || p->n_bytes - p->at < n || memcmp(p->text + p->at, text, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* The part of low to high that is within `first` to `last`, moved. */
static void add_range(regex_parser *p, uint32_t low, uint32_t high);
static void add_case(regex_parser *p, uint32_t low, uint32_t high, uint32_t first, uint32_t other) {
    uint32_t last = first + 25;
    if (low > last || high < first)
        return;
    low = (low > first ? low : first) - first + other;
    high = (high < last ? high : last) - first + other;
    unsigned flags = p->flags;
    p->flags &= ~(unsigned)LN_REGEX_IGNORE_CASE;
    add_range(p, low, high);
    p->flags = flags;
}

static void add_range(regex_parser *p, uint32_t low, uint32_t high) {
    if ((p->flags & LN_REGEX_IGNORE_CASE) != 0) {
        add_case(p, low, high, 'a', 'A');
        add_case(p, low, high, 'A', 'a');
    }
    if (!ln_grow((void **)&p->ranges, &p->range_capacity, p->n_ranges + 1, sizeof *p->ranges))
        ln_grammar_fail_memory(p->builder);
    else
        p->ranges[p->n_ranges++] = (ln_range){low, high};
}

static const ln_range digits[] = {{'0', '9'}};
static const ln_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const ln_range spaces[] = {{'\t', '\r'}, {' ', ' '}};
/* What one dialect or the other takes for white space. */
static const ln_range all_spaces[] = {{'\t', '\r'},     {0x1c, ' '},      {0x85, 0x85},
                                      {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                                      {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                      {0x3000, 0x3000}, {0xfeff, 0xfeff}};
enum { N_ALL_SPACES = sizeof all_spaces / sizeof *all_spaces };

/* The set of \d, \w, \s or their negations; false for another letter. White space is that of ASCII
 * where it may stand, and all that there is where it must not: a match is one in every dialect. */
static bool add_shorthand(regex_parser *p, int letter) {
    const ln_range *ranges = NULL;
    bool is_forbidden = p->negated != ((letter & 0x20) == 0);
    size_t n = 0;
    switch (letter | 0x20) {
    case 'd': ranges = digits, n = 1; break;
    case 'w': ranges = words, n = 4; break;
    case 's':
        ranges = is_forbidden ? all_spaces : spaces;
        n = is_forbidden ? N_ALL_SPACES : 2;
        break;
    default: return false;
    }
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if ((letter & 0x20) != 0)
            add_range(p, ranges[i].low, ranges[i].high);
        else if (ranges[i].low > next)
            add_range(p, next, ranges[i].low - 1);
        next = ranges[i].high + 1;
    }
    if ((letter & 0x20) == 0)
        add_range(p, next, 0x10ffff);
    return true;
}

static uint32_t read_hex(regex_parser *p, unsigned n_digits) {
    uint32_t value = 0;
    bool braces = take(p, "{");
    for (unsigned i = 0; i < (braces ? 7 : n_digits); i++, p->at++) {
        int c = peek(p);
        if (braces && c == '}' && i > 0)
            break;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        if (digit < 0 || digit > 15 || (digit > 9 && (c | 0x20) > 'f')) {
            fail(p, "an escape has no hexadecimal digits");
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
    }
    if ((braces && !take(p, "}")) || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        fail(p, "an escape is no code point");
    return value;
}

/* The code point of an escape, after its backslash. */
static uint32_t read_escape(regex_parser *p) {
    int c = peek(p);
    size_t n_bytes;
    if (c < 0) {
        fail(p, "it ends with a backslash");
        return 0;
    }
    if (c >= 0x80) {
        uint32_t code_point = ln_utf8_decode(p->text + p->at, &n_bytes);
        p->at += n_bytes;
        return code_point;
    }
    p->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'x': return read_hex(p, 2);
    case 'u': return read_hex(p, 4);
    case '0': return 0;
    default: break;
    }
    p->at--;
    if (c >= '1' && c <= '9')
        fail_unsupported(p, "a reference back");
    else if (c == 'b' || c == 'B')
        fail_unsupported(p, "a word boundary");
    else if (c == 'p' || c == 'P')
        fail_unsupported(p, "a Unicode property");
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
        fail_unsupported(p, "this escape");
    p->at++;
    return (uint32_t)c;
}

static uint32_t read_char(regex_parser *p) {
    size_t n_bytes;
    if (take(p, "\\"))
        return read_escape(p);
    uint32_t c = ln_utf8_decode(p->text + p->at, &n_bytes);
    p->at += n_bytes;
    return c;
}

/* One or a range of a class. */
static void read_class_item(regex_parser *p) {
    if (peek(p) == '[' && p->at + 1 < p->n_bytes && strchr(":.=", p->text[p->at + 1]) != NULL)
        fail_unsupported(p, "a class in a class");
    if (peek(p) == '\\' && p->at + 1 < p->n_bytes && add_shorthand(p, p->text[p->at + 1])) {
        p->at += 2;
        return;
    }
    if (take(p, "\\b")) {
        add_range(p, '\b', '\b');
        return;
    }
    uint32_t low = read_char(p), high = low;
    if (peek(p) == '-' && p->at + 1 < p->n_bytes && p->text[p->at + 1] != ']') {
        p->at++;
        if (peek(p) == '\\' && p->at + 1 < p->n_bytes && strchr("dDwWsS", p->text[p->at + 1]))
            fail(p, "a range of a class ends with a set");
        else
            high = read_char(p);
    }
    if (high < low)
        fail(p, "a range of a class goes backwards");
    add_range(p, low, high);
}

static ln_expr *make_chars(regex_parser *p, bool negated) {
    if (p->mode == LN_REGEX_IN_JSON)
        return ln_json_chars(p->builder, p->ranges, p->n_ranges, negated);
    return ln_expr_chars(p->builder, p->ranges, p->n_ranges, negated);
}

static ln_expr *read_class(regex_parser *p) {
    p->at++;
    p->n_ranges = 0;
    p->negated = take(p, "^");
    while (!has_failed(p) && peek(p) != ']') {
        if (peek(p) < 0)
            fail(p, "a class has no ]");
        else
            read_class_item(p);
    }
    p->at++;
    return make_chars(p, p->negated);
}

static ln_expr *read_single(regex_parser *p) {
    p->n_ranges = 0;
    p->negated = false;
    if (take(p, ".")) {
        if ((p->flags & LN_REGEX_DOT_ALL) == 0)
            add_range(p, '\n', '\n');
        if ((p->flags & (LN_REGEX_DOT_ALL | LN_REGEX_RUST)) == 0) {
            add_range(p, '\r', '\r');
            add_range(p, 0x2028, 0x2029);
        }
        return make_chars(p, true);
    }
    if (peek(p) == '\\' && p->at + 1 < p->n_bytes && add_shorthand(p, p->text[p->at + 1])) {
        p->at += 2;
        return make_chars(p, false);
    }
    uint32_t c = read_char(p);
    if (has_failed(p))
        return ln_expr_empty(p->builder);
    bool has_case =
        (p->flags & LN_REGEX_IGNORE_CASE) != 0 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    if (p->mode == LN_REGEX_PLAIN && !has_case) {
        char bytes[4];
        return ln_expr_bytes(p->builder, bytes, ln_utf8_encode(c, bytes));
    }
    add_range(p, c, c);
    return make_chars(p, false);
}

/* ---- structure ------------------------------------------------------------------------------- */

static bool read_number(regex_parser *p, uint32_t *value) {
    uint64_t sum = 0;
    size_t begin = p->at;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        sum = sum * 10 + (uint64_t)(peek(p) - '0');
        sum = sum < LN_NO_LIMIT ? sum : LN_NO_LIMIT - 1;
    }
    *value = (uint32_t)sum;
    return p->at > begin;
}

/* {m}, {m,} or {m,n}; a brace that begins none of them stands for itself. */
static bool read_braces(regex_parser *p, uint32_t *min, uint32_t *max) {
    size_t begin = p->at;
    bool has_min = take(p, "{") && read_number(p, min);
    *max = *min;
    if (has_min && take(p, ",") && !read_number(p, max))
        *max = LN_NO_LIMIT;
    if (has_min && take(p, "}")) {
        if (*max < *min)
            fail(p, "a repetition's limits are backwards");
        return true;
    }
    p->at = begin;
    return false;
}

static ln_expr *read_repeats(regex_parser *p, ln_expr *body) {
    uint32_t min = 0, max = LN_NO_LIMIT;
    int c = peek(p);
    if (c == '*' || c == '+' || c == '?') {
        p->at++;
        min = c == '+';
        max = c == '?' ? 1 : LN_NO_LIMIT;
    } else if (c != '{' || !read_braces(p, &min, &max)) {
        return body;
    }
    if (peek(p) == '+')
        fail_unsupported(p, "a possessive repetition");
    else
        take(p, "?"); /* lazy: the same texts */
    c = peek(p);
    if (c == '*' || c == '+' || c == '?')
        fail(p, "a repetition of a repetition");
    return ln_expr_repeat(p->builder, body, min, max);
}

static ln_expr *read_choice(regex_parser *p);

/* (?is-x:...) and (?is), which holds up to the end of the group; *is_group: the former. False:
 * none of them. */
static bool take_flags(regex_parser *p, bool *is_group) {
    size_t at = p->at + 1;
    unsigned set = 0, cleared = 0;
    bool is_off = false;
    for (; at < p->n_bytes && strchr("isumx-", p->text[at]) != NULL && p->text[at] != '\0'; at++) {
        unsigned bit = p->text[at] == 'i'   ? LN_REGEX_IGNORE_CASE
                       : p->text[at] == 's' ? LN_REGEX_DOT_ALL
                                            : 0;
        if (p->text[at] == 'm' || p->text[at] == 'x')
            return false;
        is_off |= p->text[at] == '-';
        set |= is_off ? 0 : bit;
        cleared |= is_off ? bit : 0;
    }
    if (peek(p) != '?' || at >= p->n_bytes || (p->text[at] != ':' && p->text[at] != ')'))
        return false;
    *is_group = p->text[at] == ':';
    p->flags = (p->flags | set) & ~cleared;
    p->at = at + 1;
    return true;
}

/* Whether nothing follows the group that begins here. */
static bool is_last(const regex_parser *p) {
    size_t at = p->at, depth = 0;
    for (bool in_class = false; at < p->n_bytes; at++) {
        char c = p->text[at];
        if (c == '\\')
            at++;
        else if (in_class || c == '[')
            in_class = c != ']';
        else if (c == '(')
            depth++;
        else if (c == ')' && --depth == 0)
            break;
    }
    return at + 1 == p->n_bytes;
}

static ln_expr *read_group(regex_parser *p) {
    unsigned flags = p->flags, tail = p->tail;
    if (p->tail == p->depth && is_last(p))
        p->tail++;
    bool is_group = true;
    if (p->depth == LN_GRAMMAR_MAX_DEPTH) {
        ln_grammar_fail(p->builder, LINNET_ERR_LIMIT,
                        "the regular expression is nested more than %d groups deep",
                        LN_GRAMMAR_MAX_DEPTH);
        return ln_expr_empty(p->builder);
    }
    p->at++;
    if (take(p, "?:")) {
    } else if (take(p, "?P<") ||
               (peek(p) == '?' && p->n_bytes - p->at > 2 && p->text[p->at + 1] == '<' &&
                p->text[p->at + 2] != '=' && p->text[p->at + 2] != '!')) {
        while (peek(p) >= 0 && peek(p) != '>')
            p->at++;
        take(p, ">");
    } else if (take_flags(p, &is_group)) {
        if (!is_group)
            return ln_expr_empty(p->builder);
    } else if (peek(p) == '?') {
        fail_unsupported(p, "look-around within a group, or this flag,");
    }
    p->depth++;
    ln_expr *expr = read_choice(p);
    p->depth--;
    p->flags = flags;
    p->tail = tail;
    if (!take(p, ")"))
        fail(p, "a group has no )");
    return expr;
}

/* ^ and $. In JSON they are the quotes, which nothing else of a pattern matches; elsewhere they are
 * known at the ends of the expression only. NULL: none, or one that adds nothing. */
static ln_expr *take_anchor(regex_parser *p, bool is_first, bool *taken) {
    int c = peek(p);
    *taken = c == '^' || c == '$';
    if (!*taken)
        return NULL;
    p->at++;
    if (p->depth == 0 && is_first && c == '^')
        p->begins = true;
    if (p->depth == 0 && p->at == p->n_bytes && c == '$')
        p->ends = true;
    if (p->mode == LN_REGEX_IN_JSON)
        return ln_expr_text(p->builder, "\"");
    if (c == '^' && (!is_first || p->depth > 0))
        fail_unsupported(p, "^ within an expression");
    if (c == '$' && p->depth == p->ahead && peek(p) == ')')
        p->ahead_ends = true;
    else if (c == '$' && (p->depth > 0 || p->at < p->n_bytes))
        fail_unsupported(p, "$ within an expression");
    return NULL;
}

/* ---- look-ahead ------------------------------------------------------------------------------ */

static ln_expr *any_chars(const regex_parser *p) {
    ln_grammar_builder *b = p->builder;
    ln_expr *chars = p->mode == LN_REGEX_IN_JSON ? ln_json_chars(b, NULL, 0, true)
                                                 : ln_expr_chars(b, NULL, 0, true);
    return ln_expr_repeat(b, chars, 0, LN_NO_LIMIT);
}

/* A part of a string up to its end, when what follows the part may be anything: its quote, unless
 * the part has that. */
static const ln_dfa *up_to_end(const regex_parser *p, ln_expr *part, bool ends) {
    ln_grammar_builder *b = p->builder;
    if (p->mode == LN_REGEX_PLAIN)
        return ln_language_of(b, ends ? part : ln_expr_sequence(b, part, any_chars(p), NULL));
    ln_expr *rest = ln_expr_sequence(b, any_chars(p), ln_expr_text(b, "\""), NULL);
    ln_expr *all = ln_expr_sequence(b, any_chars(p), ln_expr_text(b, "\""), NULL);
    return ln_language_and(
        b, ln_language_of(b, ln_expr_sequence(b, part, ln_expr_optional(b, rest), NULL)),
        ln_language_of(b, all));
}

static ln_expr *read_sequence(regex_parser *p, bool is_at_start);

/* (?=...) or (?!...) in no group, or one that nothing follows, and all that follows it up to the
 * end of the text, so that both are regular languages and what they have in common is one. NULL:
 * there is none. */
static ln_expr *take_ahead(regex_parser *p, bool is_at_start) {
    bool negated = p->at + 2 < p->n_bytes && p->text[p->at + 2] == '!';
    unsigned tail = p->tail;
    if (p->depth > p->tail || p->ahead > 0 || !(take(p, "(?=") || take(p, "(?!")))
        return NULL;
    if (++p->n_ahead > MAX_AHEAD)
        fail_unsupported(p, "so much look-around");
    if (is_at_start)
        take(p, "^"); /* where it stands anyway */
    p->ahead = ++p->depth;
    ln_expr *ahead = read_choice(p);
    p->depth--;
    bool ends = p->ahead_ends;
    p->ahead_ends = false;
    p->ahead = 0;
    p->tail = tail;
    if (!take(p, ")"))
        fail(p, "a group has no )");
    ln_expr *rest = read_sequence(p, is_at_start);
    if (has_failed(p))
        return rest;
    const ln_dfa *other = up_to_end(p, ahead, ends), *own = up_to_end(p, rest, true);
    return ln_language_expr(p->builder, negated ? ln_language_minus(p->builder, own, other)
                                                : ln_language_and(p->builder, own, other));
}

static ln_expr *read_sequence(regex_parser *p, bool is_at_start) {
    ln_expr *list = ln_expr_list(p->builder, LN_EXPR_SEQUENCE);
    while (!has_failed(p)) {
        int c = peek(p);
        ln_expr *part;
        bool taken;
        if (c < 0 || c == '|' || c == ')')
            break;
        part = take_anchor(p, is_at_start || p->at == 0, &taken);
        if (part != NULL)
            ln_expr_add(p->builder, list, part);
        if (taken) {
            is_at_start = c == '^' && p->depth == 0;
            continue;
        }
        if (c == '(' && (part = take_ahead(p, is_at_start)) != NULL) {
            ln_expr_add(p->builder, list, part);
            break; /* it has all that follows */
        }
        is_at_start = false;
        if (c == '(') {
            part = read_group(p);
        } else if (c == '[') {
            part = read_class(p);
        } else if (c == '*' || c == '+' || c == '?') {
            fail(p, "a repetition of nothing");
            break;
        } else {
            part = read_single(p);
        }
        ln_expr_add(p->builder, list, read_repeats(p, part));
    }
    return list;
}

static ln_expr *read_choice(regex_parser *p) {
    ln_expr *list = ln_expr_list(p->builder, LN_EXPR_CHOICE);
    size_t n_parts = 1;
    ln_expr_add(p->builder, list, read_sequence(p, false));
    for (; !has_failed(p) && take(p, "|"); n_parts++)
        ln_expr_add(p->builder, list, read_sequence(p, false));
    if (n_parts > 1 && p->depth == p->ahead && p->ahead_ends)
        fail_unsupported(p, "$ beside | in a look-ahead"); /* it would hold the last part only */
    if (n_parts == 1 || p->depth > 0)
        return list;
    if (p->mode == LN_REGEX_PLAIN && (p->begins || p->ends))
        fail_unsupported(p, "^ or $ beside | (put the choice in a group)");
    p->begins = p->ends = false; /* they hold one part only */
    return list;
}

static ln_expr *read_whole(regex_parser *p) {
    ln_expr *expr = read_choice(p);
    if (!has_failed(p) && p->at < p->n_bytes)
        fail(p, "a ) has no group");
    free(p->ranges);
    return expr;
}

ln_expr *ln_regex_read(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    regex_parser p = {.builder = builder, .text = text, .n_bytes = n_bytes};
    return read_whole(&p);
}

ln_expr *ln_regex_read_flags(ln_grammar_builder *builder, const char *text, size_t n_bytes,
                             unsigned flags) {
    regex_parser p = {.builder = builder, .text = text, .n_bytes = n_bytes, .flags = flags};
    return read_whole(&p);
}

/* A match within a string: text before it, with the quote, and after it; where ^ or $ holds it, the
 * quote is its own. */
static ln_expr *within_string(const regex_parser *p, ln_expr *match, bool begins, bool ends) {
    ln_grammar_builder *b = p->builder;
    ln_expr *list = ln_expr_list(b, LN_EXPR_SEQUENCE);
    if (!begins)
        ln_expr_add(
            b, list,
            ln_expr_optional(b, ln_expr_sequence(b, ln_expr_text(b, "\""), any_chars(p), NULL)));
    ln_expr_add(b, list, match);
    if (!ends)
        ln_expr_add(
            b, list,
            ln_expr_optional(b, ln_expr_sequence(b, any_chars(p), ln_expr_text(b, "\""), NULL)));
    return list;
}

const ln_dfa *ln_regex_language(ln_grammar_builder *b, const char *text, size_t n_bytes,
                                const ln_dfa *all) {
    regex_parser p = {.builder = b, .text = text, .n_bytes = n_bytes, .mode = LN_REGEX_IN_JSON};
    ln_expr *expr = read_whole(&p);
    if (has_failed(&p))
        return all;
    return ln_language_and(b, all, ln_language_of(b, within_string(&p, expr, p.begins, p.ends)));
}

ln_status ln_grammar_read_regex(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    ln_expr *expr = ln_regex_read(builder, text, n_bytes);
    builder->root = ln_rule_add_terminal(builder, "the regular expression", expr);
    return builder->status;
}
