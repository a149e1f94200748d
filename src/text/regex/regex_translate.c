/* Oniguruma's Ruby syntax to PCRE2's. What both share is copied; what differs is rewritten:
 * properties and shorthands (Unicode tables), \h, \v, (?m), interval quantifiers, and classes
 * with sets in them. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/regex/regex.h"

/* Each set of code points takes some milliseconds. */
enum { DEEPEST_NESTING = 200, MOST_SETS = 64, SET_BYTES = 0x110000 / 8 };

typedef struct parser {
    const char *text;
    size_t n_bytes, at;
    ln_strbuf *out;
    size_t atom;                           /* where the last atom begins in out */
    size_t groups[DEEPEST_NESTING];        /* where the open groups begin in out */
    unsigned options[DEEPEST_NESTING + 1]; /* by depth: groups opened by options like (?i) */
    size_t n_groups, n_sets;
    ln_error *err;
} parser;

static int peek(const parser *p, size_t ahead) {
    return p->at + ahead < p->n_bytes ? (unsigned char)p->text[p->at + ahead] : -1;
}

static ln_status bad(const parser *p, const char *what) {
    return ln_fail(p->err, LINNET_ERR_FORMAT, "%s at byte %zu", what, p->at);
}

static ln_status unsupported(const parser *p, const char *what) {
    return ln_fail(p->err, LINNET_ERR_UNSUPPORTED, "%s at byte %zu is not supported", what, p->at);
}

/* ---- classes ----------------------------------------------------------------------------- */

static ln_status class_set(parser *p, int depth, ln_char_set *set);

static void invert_set(ln_char_set *set) {
    for (size_t i = 0; i < SET_BYTES; i++)
        set->bits[i] = (unsigned char)~set->bits[i];
    memset(set->bits + 0xd800 / 8, 0, 0x800 / 8);
}

static ln_status new_set(const parser *p, ln_char_set *set) {
    set->bits = calloc(SET_BYTES, 1);
    return set->bits ? LINNET_OK : ln_fail_memory(p->err, "a class");
}

/* Appends the ranges of a set as class items. */
static void put_set(ln_strbuf *items, const ln_char_set *set) {
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c % 8 == 0 && set->bits[c / 8] == 0) {
            c += 7;
            continue;
        }
        uint32_t begin = c;
        while (c < 0x110000 && (set->bits[c / 8] >> c % 8 & 1))
            c++;
        if (c > begin)
            ln_strbuf_printf(items, c - begin == 1 ? "\\x{%x}" : "\\x{%x}-\\x{%x}", begin, c - 1);
    }
}

static ln_status add_members(parser *p, const char *items, ln_char_set *set) {
    if (p->n_sets++ == MOST_SETS)
        return ln_fail(p->err, LINNET_ERR_LIMIT, "more than %d sets in classes at byte %zu",
                       MOST_SETS, p->at);
    return ln_regex_class_members(items, set, p->err);
}

/* The items of a complement: [^items] as ranges. */
static ln_status put_complement(parser *p, ln_strbuf *items, const char *of) {
    ln_char_set set;
    LN_TRY(new_set(p, &set));
    ln_status status = add_members(p, of, &set);
    if (status == LINNET_OK) {
        invert_set(&set);
        put_set(items, &set);
    }
    free(set.bits);
    return status;
}

/* \p{..} and \P{..}, \p{^..}: the items, and whether they are to be negated. */
static ln_status property(parser *p, ln_strbuf *items, bool *negated) {
    *negated = peek(p, 1) == 'P';
    size_t begin = p->at + 3;
    const char *close = peek(p, 2) == '{' ? memchr(p->text + begin, '}', p->n_bytes - begin) : NULL;
    if (close == NULL)
        return bad(p, "a property without braces");
    size_t end = (size_t)(close - p->text);
    if (begin < end && p->text[begin] == '^') {
        *negated = !*negated;
        begin++;
    }
    if (!ln_regex_property(items, p->text + begin, end - begin))
        return ln_fail(p->err, LINNET_ERR_UNSUPPORTED, "the property \"%.*s\" is not known",
                       end - begin < 60 ? (int)(end - begin) : 60, p->text + begin);
    p->at = end + 1;
    return LINNET_OK;
}

/* A shorthand (\s \w \d \h, upper case negated) as class items; false when it is none. Oniguruma
 * counts superscripts and fractions of Latin-1 as words outside of classes, but not inside. */
static bool shorthand(int letter, bool in_class, ln_strbuf *items, bool *negated) {
    *negated = letter >= 'A' && letter <= 'Z';
    switch (letter | 32) {
    case 's': return ln_strbuf_puts(items, ln_regex_space_items);
    case 'w': return (in_class ? ln_regex_bracket : ln_regex_property)(items, "word", 4);
    case 'd': return ln_regex_property(items, "Nd", 2);
    case 'h': return ln_strbuf_puts(items, "0-9a-fA-F");
    default: return false;
    }
}

/* \xHH, \x{H..}, \uHHHH, \0oo and the control letters, as \x{..}; false when it is none. */
static bool code_point_escape(parser *p, ln_strbuf *out) {
    static const char letters[] = "tnrfvae";
    static const unsigned char values[] = {9, 10, 13, 12, 11, 7, 27};
    int letter = peek(p, 1);
    size_t at = p->at + 2, digits = 0;
    uint32_t value = 0;
    const char *found = letter > 0 ? strchr(letters, letter) : NULL;
    if (found != NULL) {
        value = values[found - letters];
    } else if (letter == 'x' || letter == 'u' || letter == '0') {
        bool braces = letter == 'x' && peek(p, 2) == '{';
        size_t most = braces ? 8 : letter == 'u' ? 4 : 2;
        unsigned base = letter == '0' ? 8 : 16;
        at += braces;
        for (; digits < most && at < p->n_bytes; digits++, at++) {
            int c = (unsigned char)p->text[at];
            unsigned digit = c >= '0' && c <= '9'                 ? (unsigned)c - '0'
                             : (c | 32) >= 'a' && (c | 32) <= 'f' ? (unsigned)(c | 32) - 'a' + 10
                                                                  : 99;
            if (digit >= base)
                break;
            value = value * base + digit;
        }
        if (braces && (at >= p->n_bytes || p->text[at++] != '}'))
            return false;
        if (letter == 'u' && digits != 4)
            return false;
    } else {
        return false;
    }
    ln_strbuf_printf(out, "\\x{%x}", value);
    p->at = at;
    return true;
}

static void put_literal(ln_strbuf *out, uint32_t code_point) {
    if (code_point < 0x80 && !(code_point >= '0' && code_point <= '9') &&
        !((code_point | 32) >= 'a' && (code_point | 32) <= 'z'))
        ln_strbuf_printf(out, "\\x{%x}", code_point);
    else
        ln_strbuf_put_utf8(out, code_point);
}

static ln_status class_escape(parser *p, ln_strbuf *items) {
    int letter = peek(p, 1);
    bool negated = false;
    if (letter < 0)
        return bad(p, "a backslash at the end");
    ln_strbuf part;
    ln_strbuf_init(&part);
    ln_status status = LINNET_OK;
    if (letter == 'p' || letter == 'P') {
        status = property(p, &part, &negated);
    } else if (shorthand(letter, true, &part, &negated)) {
        p->at += 2;
    } else if (letter == 'b') {
        ln_strbuf_puts(&part, "\\x{8}");
        p->at += 2;
    } else if (!code_point_escape(p, &part)) {
        size_t length;
        put_literal(&part, ln_utf8_decode(p->text + p->at + 1, &length));
        p->at += 1 + length;
    }
    if (status == LINNET_OK && part.data != NULL) {
        if (negated)
            status = put_complement(p, items, part.data);
        else
            ln_strbuf_puts(items, part.data);
    }
    items->failed |= part.failed;
    ln_strbuf_free(&part);
    return status;
}

/* [:alpha:] and [:^alpha:]; *done is false when it is no such bracket. */
static ln_status posix_bracket(parser *p, ln_strbuf *items, bool *done) {
    *done = false;
    if (peek(p, 1) != ':')
        return LINNET_OK;
    size_t begin = p->at + 2, end = begin;
    bool negated = begin < p->n_bytes && p->text[begin] == '^';
    begin += negated;
    for (end = begin; end < p->n_bytes && (p->text[end] | 32) >= 'a' && (p->text[end] | 32) <= 'z';)
        end++;
    if (end + 1 >= p->n_bytes || p->text[end] != ':' || p->text[end + 1] != ']')
        return LINNET_OK;
    ln_strbuf part;
    ln_strbuf_init(&part);
    if (!ln_regex_bracket(&part, p->text + begin, end - begin)) {
        ln_strbuf_free(&part);
        return unsupported(p, "this bracket name");
    }
    p->at = end + 2;
    *done = true;
    ln_status status = LINNET_OK;
    if (negated)
        status = put_complement(p, items, part.data ? part.data : "");
    else
        ln_strbuf_puts(items, part.data ? part.data : "");
    items->failed |= part.failed;
    ln_strbuf_free(&part);
    return status;
}

/* Adds items (as text) to a set. */
static ln_status add_items(parser *p, ln_strbuf *items, ln_char_set *set) {
    ln_status status = LINNET_OK;
    if (items->failed)
        return ln_fail_memory(p->err, "a class");
    if (items->len > 0)
        status = add_members(p, items->data, set);
    ln_strbuf_clear(items);
    return status;
}

/* One member of a class at p->at, not "]" nor "&&": to items as text, or, a class within the
 * class, to the set; *nested tells that one was met when set is NULL. */
static ln_status class_member(parser *p, int depth, ln_strbuf *items, ln_char_set *set,
                              bool *nested) {
    bool done;
    if (peek(p, 0) == '\\')
        return class_escape(p, items);
    if (peek(p, 0) == '[') {
        LN_TRY(posix_bracket(p, items, &done));
        if (done)
            return LINNET_OK;
        *nested = true;
        if (set == NULL)
            return LINNET_OK;
        ln_char_set inner;
        LN_TRY(new_set(p, &inner));
        ln_status status = class_set(p, depth + 1, &inner);
        for (size_t i = 0; i < SET_BYTES; i++)
            set->bits[i] |= inner.bits[i];
        free(inner.bits);
        return status;
    }
    size_t length;
    uint32_t code_point = ln_utf8_decode(p->text + p->at, &length);
    if (code_point == '-')
        ln_strbuf_putc(items, '-');
    else
        put_literal(items, code_point);
    p->at += length;
    return LINNET_OK;
}

/* A class with sets in it, from "[" to "]": unions, intersections (&&), negation. */
static ln_status class_set(parser *p, int depth, ln_char_set *set) {
    if (depth > 8)
        return unsupported(p, "a class nested so deep");
    p->at++;
    bool negated = peek(p, 0) == '^', has_left = false, nested;
    p->at += negated;
    ln_char_set left = {0};
    ln_strbuf items;
    ln_strbuf_init(&items);
    ln_status status = LINNET_OK;
    for (size_t first = p->at; status == LINNET_OK;) {
        int c = peek(p, 0);
        bool closes = c == ']' && p->at != first, intersects = c == '&' && peek(p, 1) == '&';
        if (c < 0)
            status = bad(p, "a class that does not end");
        else if (!closes && !intersects)
            status = class_member(p, depth, &items, set, &nested);
        if (status != LINNET_OK || (!closes && !intersects))
            continue;
        status = add_items(p, &items, set);
        for (size_t i = 0; has_left && i < SET_BYTES; i++)
            set->bits[i] &= left.bits[i];
        p->at += closes ? 1 : 2;
        if (closes || status != LINNET_OK)
            break;
        if (left.bits == NULL)
            status = new_set(p, &left);
        if (status != LINNET_OK)
            break;
        memcpy(left.bits, set->bits, SET_BYTES);
        memset(set->bits, 0, SET_BYTES);
        has_left = true;
    }
    free(left.bits);
    ln_strbuf_free(&items);
    if (status == LINNET_OK && negated)
        invert_set(set);
    return status;
}

/* A plain class as text; *complex tells that it has sets in it (nothing is written then). */
static ln_status plain_class(parser *p, bool *complex) {
    size_t begin = p->at, mark = p->out->len;
    p->at++;
    ln_strbuf_putc(p->out, '[');
    if (peek(p, 0) == '^') {
        ln_strbuf_putc(p->out, '^');
        p->at++;
    }
    *complex = false;
    for (size_t first = p->at;;) {
        int c = peek(p, 0);
        if (c < 0)
            return bad(p, "a class that does not end");
        if (c == ']' && p->at != first)
            break;
        if (c == '&' && peek(p, 1) == '&')
            *complex = true;
        else
            LN_TRY(class_member(p, 0, p->out, NULL, complex));
        if (*complex) {
            p->at = begin;
            p->out->len = mark;
            return LINNET_OK;
        }
    }
    p->at++;
    ln_strbuf_putc(p->out, ']');
    return LINNET_OK;
}

static ln_status class(parser *p) {
    bool complex;
    LN_TRY(plain_class(p, &complex));
    if (!complex)
        return LINNET_OK;
    ln_char_set set;
    LN_TRY(new_set(p, &set));
    ln_status status = class_set(p, 0, &set);
    if (status == LINNET_OK) {
        size_t mark = p->out->len;
        ln_strbuf_putc(p->out, '[');
        put_set(p->out, &set);
        if (p->out->len == mark + 1) { /* an empty set matches nothing */
            p->out->len = mark;
            ln_strbuf_puts(p->out, "(?!)");
        } else {
            ln_strbuf_putc(p->out, ']');
        }
    }
    free(set.bits);
    return status;
}

/* ---- outside classes --------------------------------------------------------------------- */

static ln_status escape(parser *p) {
    int letter = peek(p, 1);
    bool negated = false;
    if (letter < 0)
        return bad(p, "a backslash at the end");
    ln_strbuf items;
    ln_strbuf_init(&items);
    ln_status status = LINNET_OK;
    if (letter == 'p' || letter == 'P')
        status = property(p, &items, &negated);
    else if (shorthand(letter, false, &items, &negated))
        p->at += 2;
    if (status == LINNET_OK && items.len > 0)
        ln_strbuf_printf(p->out, "[%s%s]", negated ? "^" : "", items.data);
    bool done = items.len > 0 || items.failed;
    p->out->failed |= items.failed;
    ln_strbuf_free(&items);
    if (status != LINNET_OK || done || code_point_escape(p, p->out))
        return status;
    if (letter == 'b' || letter == 'B') {
        ln_strbuf word;
        ln_strbuf_init(&word);
        ln_regex_property(&word, "word", 4);
        const char *w = word.data ? word.data : "";
        ln_strbuf_printf(p->out,
                         letter == 'b' ? "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))"
                                       : "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))",
                         w, w, w, w);
        p->out->failed |= word.failed;
        ln_strbuf_free(&word);
        p->at += 2;
        return LINNET_OK;
    }
    if (letter < 0x80 && strchr("AzZGKRX", letter) != NULL) {
        ln_strbuf_append(p->out, p->text + p->at, 2);
        p->at += 2;
        return LINNET_OK;
    }
    if (letter < 0x80 && strchr("123456789gkyYOcCM", letter) != NULL)
        return unsupported(p, "this escape");
    size_t length;
    put_literal(p->out, ln_utf8_decode(p->text + p->at + 1, &length));
    p->at += 1 + length;
    return LINNET_OK;
}

/* What opens a group: "(" with its kind. Options: i and x as they are, m lets the dot match a
 * newline, which PCRE2 calls s. */
static ln_status open_group(parser *p, bool *is_options) {
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    *is_options = false;
    if (peek(p, 1) == '*')
        return unsupported(p, "a verb");
    if (peek(p, 1) != '?') {
        p->at++;
        ln_strbuf_puts(p->out, "(?:"); /* nothing uses the captures but back references */
        return LINNET_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i]);
        if (p->n_bytes - p->at >= n && memcmp(p->text + p->at, kinds[i], n) == 0) {
            ln_strbuf_puts(p->out, kinds[i]);
            p->at += n;
            return LINNET_OK;
        }
    }
    size_t at = p->at + 2;
    if (peek(p, 2) == '<') { /* a name */
        const char *close = memchr(p->text + at, '>', p->n_bytes - at);
        if (close == NULL)
            return bad(p, "a group name that does not end");
        p->at = (size_t)(close - p->text) + 1;
        ln_strbuf_puts(p->out, "(?:");
        return LINNET_OK;
    }
    ln_strbuf_puts(p->out, "(?");
    while (at < p->n_bytes && strchr("imx-", p->text[at]) != NULL && p->text[at] != '\0') {
        ln_strbuf_putc(p->out, p->text[at] == 'm' ? 's' : p->text[at]);
        at++;
    }
    if (at >= p->n_bytes || (p->text[at] != ':' && p->text[at] != ')') || at == p->at + 2)
        return unsupported(p, "this group");
    *is_options = p->text[at] == ')';
    ln_strbuf_putc(p->out, ':');
    p->at = at + 1;
    return LINNET_OK;
}

/* Puts text[n] before what `out` holds from `at` on. */
static void insert(ln_strbuf *out, size_t at, const char *text) {
    size_t n = strlen(text);
    if (!ln_strbuf_append(out, text, n))
        return;
    memmove(out->data + at + n, out->data + at, out->len - n - at);
    memcpy(out->data + at, text, n);
}

/* {n}, {n,}, {n,m}, {,m}: in Ruby "+" after it is another quantifier, not a possessive one, and
 * so is "?" after {n}. False when it is no interval but text. */
static bool interval(parser *p) {
    size_t at = p->at + 1, low = at, comma = 0;
    while (at < p->n_bytes && p->text[at] >= '0' && p->text[at] <= '9')
        at++;
    size_t low_bytes = at - low, high = at, high_bytes = 0;
    if (at < p->n_bytes && p->text[at] == ',') {
        comma = 1;
        high = ++at;
        while (at < p->n_bytes && p->text[at] >= '0' && p->text[at] <= '9')
            at++;
        high_bytes = at - high;
    }
    if (at >= p->n_bytes || p->text[at] != '}' || (low_bytes == 0 && high_bytes == 0))
        return false;
    p->at = at + 1;
    ln_strbuf_printf(p->out, "{%.*s%s%.*s}", low_bytes ? (int)low_bytes : 1,
                     low_bytes ? p->text + low : "0", comma ? "," : "", (int)high_bytes,
                     p->text + high);
    int after = peek(p, 0);
    if (after == '+' || after == '*' || after == '{' || (after == '?' && !comma)) {
        insert(p->out, p->atom, "(?:");
        ln_strbuf_putc(p->out, ')');
    } else if (after == '?') {
        ln_strbuf_putc(p->out, '?');
        p->at++;
    }
    return true;
}

/* * + ? with ? (reluctant) or + (possessive) after them. A quantifier of a quantified atom wraps
 * it, since PCRE2 would read two signs as one. */
static void quantifier(parser *p) {
    ln_strbuf_putc(p->out, (char)peek(p, 0));
    p->at++;
    int after = peek(p, 0);
    if (after == '?' || after == '+') {
        ln_strbuf_putc(p->out, (char)after);
        p->at++;
    }
    after = peek(p, 0);
    if (after == '*' || after == '+' || after == '?' || after == '{') {
        insert(p->out, p->atom, "(?:");
        ln_strbuf_putc(p->out, ')');
    }
}

/* Closes what options opened at this depth. */
static void close_options(parser *p) {
    for (; p->options[p->n_groups] > 0; p->options[p->n_groups]--)
        ln_strbuf_putc(p->out, ')');
}

static ln_status group_sign(parser *p) {
    bool is_options;
    if (peek(p, 0) == ')') {
        if (p->n_groups == 0)
            return bad(p, "a group that closes but never opened");
        close_options(p);
        p->atom = p->groups[--p->n_groups];
        ln_strbuf_putc(p->out, ')');
        p->at++;
        return LINNET_OK;
    }
    size_t begin = p->out->len;
    LN_TRY(open_group(p, &is_options));
    if (is_options) { /* a(?i)b|c is a(?i:b|c) in Ruby */
        p->options[p->n_groups]++;
        return LINNET_OK;
    }
    if (p->n_groups == DEEPEST_NESTING)
        return unsupported(p, "a group nested so deep");
    p->groups[p->n_groups++] = begin;
    return LINNET_OK;
}

ln_status ln_regex_translate(const char *pattern, size_t n_bytes, ln_strbuf *out, ln_error *err) {
    parser p = {.text = pattern, .n_bytes = n_bytes, .out = out, .atom = out->len, .err = err};
    while (p.at < n_bytes) {
        int c = peek(&p, 0);
        size_t length = ln_utf8_length((unsigned char)c);
        if (c == '(' || c == ')') {
            LN_TRY(group_sign(&p));
        } else if (c == '*' || c == '+' || c == '?') {
            quantifier(&p);
        } else if (c == '{' && interval(&p)) {
            continue;
        } else {
            p.atom = out->len;
            if (c == '[') {
                LN_TRY(class(&p));
            } else if (c == '\\') {
                LN_TRY(escape(&p));
            } else if (c == '{' || c == '}' || c == ']') {
                put_literal(out, (uint32_t)c);
                p.at++;
            } else {
                ln_strbuf_append(out, pattern + p.at, length);
                p.at += length;
            }
        }
    }
    if (p.n_groups > 0)
        return bad(&p, "a group that does not close");
    close_options(&p);
    return LINNET_OK;
}
