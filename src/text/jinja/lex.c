/* The lexer: what Jinja's regular expressions for the default delimiters, trim_blocks and
 * lstrip_blocks match, by hand. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/locale/number.h"
#include "base/strbuf.h"
#include "text/jinja/ast.h"

typedef struct lexer {
    ln_arena *arena;
    const char *source;
    size_t n_bytes, at;
    uint32_t line;
    const char *name;
    ln_jinja_token *tokens;
    size_t n_tokens, capacity;
    char *brackets; /* the closers that are expected, innermost last */
    size_t n_brackets, bracket_capacity;
    bool line_starting; /* the last token ended with a newline */
    ln_error *err;
} lexer;

static ln_status fail(const lexer *lex, uint32_t line, const char *message) {
    return ln_fail(lex->err, LINNET_ERR_FORMAT, "%s, line %u: %s", lex->name, line, message);
}

static ln_status no_memory(const lexer *lex) {
    return ln_fail(lex->err, LINNET_ERR_NOMEM, "%s: out of memory", lex->name);
}

static bool looking_at(const lexer *lex, size_t at, const char *text) {
    size_t n = strlen(text);
    return lex->n_bytes - at >= n && memcmp(lex->source + at, text, n) == 0;
}

static char byte_at(const lexer *lex, size_t at) {
    return at < lex->n_bytes ? lex->source[at] : '\0';
}

static void count_lines(lexer *lex, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        lex->line += lex->source[i] == '\n';
}

/* Where the whitespace that starts at `at` ends. */
static size_t skip_space(const lexer *lex, size_t at) {
    while (at < lex->n_bytes) {
        size_t n = lex->n_bytes - at;
        if (!ln_jinja_is_space(ln_jinja_decode(lex->source + at, &n)))
            break;
        at += n;
    }
    return at;
}

/* Where [begin, end) ends without the whitespace at its end. */
static size_t strip_space(const lexer *lex, size_t begin, size_t end) {
    while (end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)lex->source[at] & 0xc0) == 0x80)
            at--;
        size_t n = end - at;
        if (!ln_jinja_is_space(ln_jinja_decode(lex->source + at, &n)))
            break;
        end = at;
    }
    return end;
}

static ln_status push(lexer *lex, ln_jinja_token token) {
    if (lex->n_tokens == lex->capacity) {
        size_t capacity = lex->capacity == 0 ? 256 : lex->capacity * 2;
        ln_jinja_token *tokens = realloc(lex->tokens, capacity * sizeof *tokens);
        if (tokens == NULL)
            return no_memory(lex);
        lex->tokens = tokens;
        lex->capacity = capacity;
    }
    lex->tokens[lex->n_tokens++] = token;
    return LINNET_OK;
}

static ln_status push_text(lexer *lex, ln_jinja_token_kind kind, size_t begin, size_t end) {
    return push(lex, (ln_jinja_token){.kind = kind,
                                      .line = lex->line,
                                      .text = lex->source + begin,
                                      .n_bytes = end - begin});
}

/* The text before a tag: a minus strips all whitespace, and lstrip_blocks strips what stands
 * between the beginning of the line and the tag. */
static ln_status push_data(lexer *lex, size_t begin, size_t end, char sign, bool is_print) {
    size_t stop = end;
    if (sign == '-') {
        stop = strip_space(lex, begin, end);
    } else if (sign != '+' && !is_print) {
        size_t line_begin = end;
        while (line_begin > begin && lex->source[line_begin - 1] != '\n')
            line_begin--;
        if ((line_begin > begin || lex->line_starting) && skip_space(lex, line_begin) >= end)
            stop = line_begin;
    }
    if (stop > begin)
        LN_TRY(push_text(lex, LN_JINJA_TOKEN_DATA, begin, stop));
    count_lines(lex, begin, end);
    return LINNET_OK;
}

/* The end of a tag that begins at `at` with `close` ("%}"), or 0: -%} takes the whitespace that
 * follows, %} the newline, +%} nothing. */
static size_t match_end(const lexer *lex, size_t at, const char *close, bool plus, bool trim) {
    if (byte_at(lex, at) == '-' && looking_at(lex, at + 1, close))
        return skip_space(lex, at + 3);
    if (plus && byte_at(lex, at) == '+' && looking_at(lex, at + 1, close))
        return at + 3;
    if (!looking_at(lex, at, close))
        return 0;
    return at + 2 + (trim && byte_at(lex, at + 2) == '\n');
}

/* The end of "{%- WORD %}" at `at`, or 0; *sign is what follows the opening. */
static size_t match_word_tag(const lexer *lex, size_t at, const char *word, bool ends, char *sign) {
    if (!looking_at(lex, at, "{%"))
        return 0;
    at += 2;
    *sign = '\0';
    if (byte_at(lex, at) == '-' || byte_at(lex, at) == '+')
        *sign = lex->source[at++];
    at = skip_space(lex, at);
    if (!looking_at(lex, at, word))
        return 0;
    at = skip_space(lex, at + strlen(word));
    return match_end(lex, at, "%}", ends, ends);
}

static ln_status lex_comment(lexer *lex) {
    uint32_t line = lex->line;
    for (size_t at = lex->at; at < lex->n_bytes; at++) {
        size_t end = match_end(lex, at, "#}", true, true);
        if (end == 0)
            continue;
        count_lines(lex, lex->at, end);
        lex->line_starting = lex->source[end - 1] == '\n';
        lex->at = end;
        return LINNET_OK;
    }
    return fail(lex, line, "the comment has no end");
}

static ln_status lex_raw(lexer *lex) {
    uint32_t line = lex->line;
    for (size_t at = lex->at; at < lex->n_bytes; at++) {
        char sign;
        size_t end = lex->source[at] == '{' ? match_word_tag(lex, at, "endraw", true, &sign) : 0;
        if (end == 0)
            continue;
        LN_TRY(push_data(lex, lex->at, at, sign, false));
        count_lines(lex, at, end);
        lex->line_starting = lex->source[end - 1] == '\n';
        lex->at = end;
        return LINNET_OK;
    }
    return fail(lex, line, "the raw block has no end");
}

/* ---- inside tags ------------------------------------------------------------------------ */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int digit_value(char c) {
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* The end of (_?DIGIT)+ or DIGIT(_?DIGIT)*, `at` where there is none. */
static size_t skip_digits(const lexer *lex, size_t at, int base, bool may_begin_with_underscore) {
    size_t begin = at;
    for (;;) {
        size_t digit = at;
        if (byte_at(lex, digit) == '_' && (at > begin || may_begin_with_underscore))
            digit++;
        if (digit_value(byte_at(lex, digit)) >= base)
            return at;
        at = digit + 1;
    }
}

static ln_status lex_float(lexer *lex, size_t end) {
    char text[512];
    size_t n = 0;
    for (size_t i = lex->at; i < end; i++)
        if (lex->source[i] != '_' && n + 1 < sizeof text)
            text[n++] = lex->source[i];
    text[n] = '\0';
    LN_TRY(push(lex, (ln_jinja_token){.kind = LN_JINJA_TOKEN_FLOAT,
                                      .line = lex->line,
                                      .text = lex->source + lex->at,
                                      .n_bytes = end - lex->at,
                                      .real = ln_strtod(text, NULL)}));
    lex->at = end;
    return LINNET_OK;
}

static ln_status lex_int(lexer *lex, size_t digits, size_t end, int base) {
    int64_t value = 0;
    for (size_t i = digits; i < end; i++) {
        if (lex->source[i] == '_')
            continue;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit_value(lex->source[i]), &value))
            return fail(lex, lex->line, "an integer does not fit 64 bits");
    }
    LN_TRY(push(lex, (ln_jinja_token){.kind = LN_JINJA_TOKEN_INT,
                                      .line = lex->line,
                                      .text = lex->source + lex->at,
                                      .n_bytes = end - lex->at,
                                      .integer = value}));
    lex->at = end;
    return LINNET_OK;
}

static ln_status lex_number(lexer *lex) {
    size_t at = lex->at;
    size_t end = skip_digits(lex, at, 10, false);
    if (at == 0 || lex->source[at - 1] != '.') {
        size_t stop = end;
        bool real = false;
        size_t fraction = byte_at(lex, stop) == '.' ? skip_digits(lex, stop + 1, 10, false) : 0;
        if (fraction > stop + 1) {
            stop = fraction;
            real = true;
        }
        if ((byte_at(lex, stop) | 0x20) == 'e') {
            size_t exponent = stop + 1;
            if (byte_at(lex, exponent) == '+' || byte_at(lex, exponent) == '-')
                exponent++;
            size_t exponent_end = skip_digits(lex, exponent, 10, false);
            if (exponent_end > exponent) {
                stop = exponent_end;
                real = true;
            }
        }
        if (real)
            return lex_float(lex, stop);
    }
    if (lex->source[at] != '0')
        return lex_int(lex, at, end, 10);
    char mark = (char)(byte_at(lex, at + 1) | 0x20);
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (base != 0) {
        end = skip_digits(lex, at + 2, base, true);
        if (end > at + 2)
            return lex_int(lex, at + 2, end, base);
    }
    return lex_int(lex, at, skip_digits(lex, at, 1, false), 10);
}

static bool is_name_char(int32_t c) {
    if (c < 0x80)
        return c == '_' || is_digit((char)c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    utf8proc_category_t category = utf8proc_category(c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) ||
           category == UTF8PROC_CATEGORY_PC;
}

static size_t skip_name(const lexer *lex, size_t at) {
    while (at < lex->n_bytes) {
        size_t n = lex->n_bytes - at;
        if (!is_name_char(ln_jinja_decode(lex->source + at, &n)))
            break;
        at += n;
    }
    return at;
}

/* \xhh, \uhhhh, \Uhhhhhhhh and octal: the code point, or -1; *at moves past the digits. */
static int32_t lex_code_point(const lexer *lex, size_t *at, size_t end) {
    char kind = lex->source[*at];
    int base = is_digit(kind) ? 8 : 16;
    size_t most = base == 8 ? 3 : kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    *at += base == 16;
    int64_t value = 0;
    size_t n = 0;
    while (n < most && *at < end && digit_value(lex->source[*at]) < base) {
        value = value * base + digit_value(lex->source[(*at)++]);
        n++;
    }
    if ((base == 16 && n < most) || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return -1;
    return (int32_t)value;
}

static ln_status decode_escape(lexer *lex, size_t *at, size_t end, ln_strbuf *out) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = lex->source[*at];
    const char *simple = c != '\0' ? strchr(from, c) : NULL;
    if (c == '\n') { /* a continued line */
        (*at)++;
    } else if (simple != NULL) {
        ln_strbuf_putc(out, to[simple - from]);
        (*at)++;
    } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
        int32_t code_point = lex_code_point(lex, at, end);
        if (code_point < 0)
            return fail(lex, lex->line, "a string has a malformed escape of a code point");
        ln_strbuf_put_utf8(out, (uint32_t)code_point);
    } else if (c == 'N') {
        return ln_fail(lex->err, LINNET_ERR_UNSUPPORTED,
                       "%s, line %u: the escape \\N{...} is not supported", lex->name, lex->line);
    } else {
        ln_strbuf_putc(out, '\\');
    }
    return LINNET_OK;
}

static ln_status lex_string(lexer *lex) {
    char quote = lex->source[lex->at];
    size_t end = lex->at + 1;
    bool escapes = false;
    while (end < lex->n_bytes && lex->source[end] != quote) {
        escapes = escapes || lex->source[end] == '\\';
        end += lex->source[end] == '\\' ? 2 : 1;
    }
    if (end >= lex->n_bytes)
        return fail(lex, lex->line, "a string has no end");
    size_t begin = lex->at + 1;
    if (!escapes) {
        LN_TRY(push_text(lex, LN_JINJA_TOKEN_STRING, begin, end));
    } else {
        ln_strbuf out;
        ln_strbuf_init(&out);
        ln_status status = LINNET_OK;
        for (size_t at = begin; at < end && status == LINNET_OK;) {
            char c = lex->source[at++];
            if (c == '\\')
                status = decode_escape(lex, &at, end, &out);
            else
                ln_strbuf_putc(&out, c);
        }
        const char *text = ln_arena_copy(lex->arena, out.data, out.len);
        if (status == LINNET_OK && (out.failed || text == NULL))
            status = no_memory(lex);
        if (status == LINNET_OK)
            status = push(lex, (ln_jinja_token){.kind = LN_JINJA_TOKEN_STRING,
                                                .line = lex->line,
                                                .text = text,
                                                .n_bytes = out.len});
        ln_strbuf_free(&out);
        LN_TRY(status);
    }
    count_lines(lex, begin, end);
    lex->at = end + 1;
    return LINNET_OK;
}

static ln_status balance(lexer *lex, char c) {
    if (c == '(' || c == '[' || c == '{') {
        if (lex->n_brackets == lex->bracket_capacity) {
            size_t capacity = lex->bracket_capacity == 0 ? 64 : lex->bracket_capacity * 2;
            char *brackets = realloc(lex->brackets, capacity);
            if (brackets == NULL)
                return no_memory(lex);
            lex->brackets = brackets;
            lex->bracket_capacity = capacity;
        }
        lex->brackets[lex->n_brackets++] = (char)(c == '(' ? ')' : c + 2);
    } else if (c == ')' || c == ']' || c == '}') {
        char expected = lex->n_brackets > 0 ? lex->brackets[--lex->n_brackets] : '\0';
        if (expected == '\0')
            return ln_fail(lex->err, LINNET_ERR_FORMAT, "%s, line %u: unexpected '%c'", lex->name,
                           lex->line, c);
        if (expected != c)
            return ln_fail(lex->err, LINNET_ERR_FORMAT,
                           "%s, line %u: unexpected '%c', expected '%c'", lex->name, lex->line, c,
                           expected);
    }
    return LINNET_OK;
}

static ln_status lex_operator(lexer *lex) {
    static const char *const pairs[] = {"**", "//", "==", "!=", ">=", "<="};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (looking_at(lex, lex->at, pairs[i])) {
            LN_TRY(push_text(lex, LN_JINJA_TOKEN_OPERATOR, lex->at, lex->at + 2));
            lex->at += 2;
            return LINNET_OK;
        }
    char c = lex->source[lex->at];
    if (c == '\0' || strchr("+-/*%~[](){}><=.:|,;", c) == NULL)
        return ln_fail(lex->err, LINNET_ERR_FORMAT,
                       "%s, line %u: unexpected character (byte 0x%02x) in a tag", lex->name,
                       lex->line, (unsigned)(unsigned char)c);
    LN_TRY(balance(lex, c));
    LN_TRY(push_text(lex, LN_JINJA_TOKEN_OPERATOR, lex->at, lex->at + 1));
    lex->at++;
    return LINNET_OK;
}

/* From behind the opening of a tag to behind its end. */
static ln_status lex_tag(lexer *lex, bool is_print) {
    uint32_t line = lex->line;
    while (lex->at < lex->n_bytes) {
        size_t at = lex->at;
        size_t end = 0;
        if (lex->n_brackets == 0)
            end = match_end(lex, at, is_print ? "}}" : "%}", !is_print, !is_print);
        if (end != 0) {
            LN_TRY(push_text(lex, is_print ? LN_JINJA_TOKEN_PRINT_END : LN_JINJA_TOKEN_BLOCK_END,
                             at, end));
            count_lines(lex, at, end);
            lex->line_starting = lex->source[end - 1] == '\n';
            lex->at = end;
            return LINNET_OK;
        }
        size_t space = skip_space(lex, at);
        size_t name = skip_name(lex, at);
        if (space > at) {
            count_lines(lex, at, space);
            lex->at = space;
        } else if (is_digit(lex->source[at])) {
            LN_TRY(lex_number(lex));
        } else if (name > at) {
            LN_TRY(push_text(lex, LN_JINJA_TOKEN_NAME, at, name));
            lex->at = name;
        } else if (lex->source[at] == '\'' || lex->source[at] == '"') {
            LN_TRY(lex_string(lex));
        } else {
            LN_TRY(lex_operator(lex));
        }
    }
    return fail(lex, line, is_print ? "the expression has no end" : "the statement has no end");
}

/* ---- the text around tags --------------------------------------------------------------- */

static ln_status lex_root(lexer *lex) {
    while (lex->at < lex->n_bytes) {
        size_t open = lex->at;
        while (open < lex->n_bytes && !looking_at(lex, open, "{%") &&
               !looking_at(lex, open, "{{") && !looking_at(lex, open, "{#"))
            open++;
        if (open >= lex->n_bytes) {
            LN_TRY(push_text(lex, LN_JINJA_TOKEN_DATA, lex->at, lex->n_bytes));
            count_lines(lex, lex->at, lex->n_bytes);
            lex->at = lex->n_bytes;
            break;
        }
        char kind = lex->source[open + 1];
        char sign = '\0';
        size_t raw = match_word_tag(lex, open, "raw", false, &sign);
        if (raw == 0) {
            sign = byte_at(lex, open + 2);
            sign = sign == '-' || sign == '+' ? sign : '\0';
        }
        LN_TRY(push_data(lex, lex->at, open, sign, kind == '{'));
        lex->at = raw != 0 ? raw : open + 2 + (sign != '\0');
        lex->line_starting = false;
        if (raw != 0) {
            count_lines(lex, open, raw);
            lex->line_starting = lex->source[raw - 1] == '\n';
            LN_TRY(lex_raw(lex));
        } else if (kind == '#') {
            LN_TRY(lex_comment(lex));
        } else {
            LN_TRY(push_text(lex,
                             kind == '{' ? LN_JINJA_TOKEN_PRINT_BEGIN : LN_JINJA_TOKEN_BLOCK_BEGIN,
                             open, lex->at));
            LN_TRY(lex_tag(lex, kind == '{'));
        }
    }
    return push_text(lex, LN_JINJA_TOKEN_END, lex->n_bytes, lex->n_bytes);
}

/* Newlines of every kind become \n, and one at the end is dropped. */
static char *normalise(ln_arena *arena, const char *source, size_t *n_bytes) {
    char *out = ln_arena_alloc(arena, *n_bytes + 1, 1);
    if (out == NULL)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < *n_bytes; i++) {
        if (source[i] != '\r') {
            out[n++] = source[i];
            continue;
        }
        out[n++] = '\n';
        i += i + 1 < *n_bytes && source[i + 1] == '\n';
    }
    if (n > 0 && out[n - 1] == '\n')
        n--;
    *n_bytes = n;
    return out;
}

ln_status ln_jinja_lex(ln_arena *arena, const char *source, size_t n_bytes, const char *name,
                       ln_jinja_token **tokens, size_t *n_tokens, ln_error *err) {
    lexer lex = {.arena = arena, .line = 1, .name = name, .line_starting = true, .err = err};
    lex.source = normalise(arena, source, &n_bytes);
    lex.n_bytes = n_bytes;
    ln_status status = lex.source == NULL ? no_memory(&lex) : lex_root(&lex);
    free(lex.brackets);
    if (status != LINNET_OK) {
        free(lex.tokens);
        return status;
    }
    *tokens = lex.tokens;
    *n_tokens = lex.n_tokens;
    return LINNET_OK;
}
