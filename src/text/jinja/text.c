/* What filters and methods do to text; the provenance of every piece is kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/locale/number.h"
#include "text/jinja/run.h"

/* ---- strip, replace, split, join -------------------------------------------------------- */

static bool stripped(int32_t c, const ln_jinja_string *chars) {
    if (chars == NULL)
        return ln_jinja_is_space(c);
    const char *bytes = ln_jinja_bytes(chars);
    for (size_t at = 0; at < chars->n_bytes;) {
        size_t n = chars->n_bytes - at;
        if (ln_jinja_decode(bytes + at, &n) == c)
            return true;
        at += n;
    }
    return false;
}

ln_status ln_jinja_strip(ln_jinja_run *run, const ln_jinja_string *string,
                         const ln_jinja_string *chars, bool left, bool right, ln_jinja_value *out) {
    const char *bytes = ln_jinja_bytes(string);
    size_t begin = 0, end = string->n_bytes, cost = chars == NULL ? 0 : chars->n_bytes / 8;
    while (left && begin < end) {
        size_t n = end - begin;
        LN_TRY(ln_jinja_spend(run, cost));
        if (!stripped(ln_jinja_decode(bytes + begin, &n), chars))
            break;
        begin += n;
    }
    while (right && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)bytes[at] & 0xc0) == 0x80)
            at--;
        size_t n = end - at;
        LN_TRY(ln_jinja_spend(run, cost));
        if (!stripped(ln_jinja_decode(bytes + at, &n), chars))
            break;
        end = at;
    }
    LN_TRY(ln_jinja_spend(run, (string->n_bytes - (end - begin)) / 8));
    return ln_jinja_string_part(run, string, begin, end, out);
}

/* An empty `old` matches before every code point and at the end. */
static ln_status insert_everywhere(ln_jinja_builder *b, const ln_jinja_string *string,
                                   const ln_jinja_string *new_text, int64_t count) {
    const char *bytes = ln_jinja_bytes(string);
    size_t at = 0;
    while (count != 0) {
        LN_TRY(ln_jinja_put_string(b, new_text));
        count--;
        if (at >= string->n_bytes)
            return LINNET_OK;
        size_t n = string->n_bytes - at;
        ln_jinja_decode(bytes + at, &n);
        LN_TRY(ln_jinja_put_part(b, string, at, at + n));
        at += n;
    }
    return ln_jinja_put_part(b, string, at, string->n_bytes);
}

ln_status ln_jinja_replace(ln_jinja_run *run, const ln_jinja_string *string,
                           const ln_jinja_string *old, const ln_jinja_string *new_text,
                           int64_t count, ln_jinja_value *out) {
    ln_jinja_builder b;
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_spend_bytes(run, string->n_bytes));
    if (old->n_bytes == 0) {
        LN_TRY(insert_everywhere(&b, string, new_text, count));
        return ln_jinja_finish(&b, out);
    }
    size_t at = 0;
    for (; count != 0; count--) {
        size_t found = ln_jinja_string_find(string, old, at);
        if (found == SIZE_MAX)
            break;
        LN_TRY(ln_jinja_put_part(&b, string, at, found));
        LN_TRY(ln_jinja_put_string(&b, new_text));
        at = found + old->n_bytes;
    }
    LN_TRY(ln_jinja_put_part(&b, string, at, string->n_bytes));
    return ln_jinja_finish(&b, out);
}

ln_status ln_jinja_split_lines(ln_jinja_run *run, const ln_jinja_string *string, bool keep_ends,
                               ln_jinja_value *out) {
    const char *bytes = ln_jinja_bytes(string);
    LN_TRY(ln_jinja_spend_bytes(run, string->n_bytes));
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 0, out));
    for (size_t begin = 0; begin < string->n_bytes;) {
        size_t end = begin, next = string->n_bytes;
        while (end < string->n_bytes) {
            size_t n = string->n_bytes - end;
            int32_t c = ln_jinja_decode(bytes + end, &n);
            if (ln_jinja_is_line_end(c)) {
                next = end + n;
                next += c == '\r' && next < string->n_bytes && bytes[next] == '\n';
                break;
            }
            end += n;
        }
        ln_jinja_value line;
        LN_TRY(ln_jinja_string_part(run, string, begin, keep_ends ? next : end, &line));
        LN_TRY(ln_jinja_list_push(run, *out, line));
        begin = next;
    }
    return LINNET_OK;
}

ln_status ln_jinja_join(ln_jinja_run *run, const ln_jinja_string *separator, ln_jinja_value items,
                        bool convert, ln_jinja_value *out) {
    ln_jinja_builder b;
    ln_jinja_iter iter;
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_iter_init(run, &iter, items));
    for (size_t i = 0;; i++) {
        ln_jinja_value item;
        bool done;
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            return ln_jinja_finish(&b, out);
        if (!convert && item.kind != LN_JINJA_STRING)
            return ln_jinja_raise(run, "TypeError",
                                  "sequence item %zu: expected str instance, %s found", i,
                                  ln_jinja_type_name(item));
        if (!convert && separator->markup && !item.as.string->markup)
            LN_TRY(ln_jinja_escape(run, item, &item));
        if (i > 0)
            LN_TRY(ln_jinja_put_string(&b, separator));
        LN_TRY(ln_jinja_put_str(&b, item));
    }
}

/* ---- padding ---------------------------------------------------------------------------- */

ln_status ln_jinja_pad(ln_jinja_run *run, const ln_jinja_string *string, int64_t left,
                       int64_t right, const ln_jinja_string *fill, ln_jinja_value *out) {
    ln_jinja_builder b;
    if (fill != NULL && fill->n_chars != 1)
        return ln_jinja_raise(run, "TypeError",
                              "The fill character must be exactly one character long");
    size_t before = left > 0 ? (size_t)left : 0, after = right > 0 ? (size_t)right : 0;
    LN_TRY(ln_jinja_builder_init(run, &b));
    if (fill != NULL)
        LN_TRY(ln_jinja_put_repeated(&b, fill, before));
    else
        LN_TRY(ln_jinja_put_spaces(&b, before));
    LN_TRY(ln_jinja_put_string(&b, string));
    if (fill != NULL)
        LN_TRY(ln_jinja_put_repeated(&b, fill, after));
    else
        LN_TRY(ln_jinja_put_spaces(&b, after));
    return ln_jinja_finish(&b, out);
}

ln_status ln_jinja_center(ln_jinja_run *run, const ln_jinja_string *string, int64_t width,
                          const ln_jinja_string *fill, ln_jinja_value *out) {
    int64_t have = (int64_t)string->n_chars;
    int64_t pad = width > have ? width - have : 0;
    int64_t left = pad / 2 + (pad & width & 1); /* as CPython */
    return ln_jinja_pad(run, string, left, pad - left, fill, out);
}

/* ---- case ------------------------------------------------------------------------------- */

static bool is_upper(int32_t c) {
    return utf8proc_category(c) == UTF8PROC_CATEGORY_LU;
}

static bool is_cased(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

bool ln_jinja_is_case(const ln_jinja_string *string, bool upper) {
    bool any = false;
    for (size_t at = 0; at < string->n_bytes;) {
        size_t n = string->n_bytes - at;
        int32_t c = ln_jinja_decode(ln_jinja_bytes(string) + at, &n);
        if (is_cased(c) && is_upper(c) != upper)
            return false;
        any = any || is_cased(c);
        at += n;
    }
    return any;
}

/* Letters whose upper case is several letters (Unicode, SpecialCasing, the common ones). */
static const struct {
    int32_t c;
    const char *upper, *title;
} special_cases[] = {
    {0xdf, "SS", "Ss"},     {0x149, "\u02bcN", "\u02bcN"}, {0x1f0, "J\u030c", "J\u030c"},
    {0xfb00, "FF", "Ff"},   {0xfb01, "FI", "Fi"},          {0xfb02, "FL", "Fl"},
    {0xfb03, "FFI", "Ffi"}, {0xfb04, "FFL", "Ffl"},        {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"},
};

static ln_status put_upper(ln_jinja_builder *b, int32_t c, bool title, bool trusted) {
    for (size_t i = 0; c >= 0xdf && i < sizeof special_cases / sizeof *special_cases; i++)
        if (special_cases[i].c == c)
            return ln_jinja_puts(b, title ? special_cases[i].title : special_cases[i].upper,
                                 trusted);
    return ln_jinja_put_char(b, title ? utf8proc_totitle(c) : utf8proc_toupper(c), trusted);
}

static ln_status put_lower(ln_jinja_builder *b, int32_t c, bool final, bool trusted) {
    if (c == 0x3a3 && final)
        return ln_jinja_put_char(b, 0x3c2, trusted);
    if (c == 0x130)
        return ln_jinja_puts(b, "i\u0307", trusted);
    return ln_jinja_put_char(b, utf8proc_tolower(c), trusted);
}

static bool begins_word(int32_t previous) {
    return previous == 0 || ln_jinja_is_space(previous) ||
           (previous < 0x80 && strchr("-({[<", previous) != NULL);
}

ln_status ln_jinja_change_case(ln_jinja_run *run, const ln_jinja_string *string, ln_jinja_case to,
                               ln_jinja_value *out) {
    ln_jinja_builder b;
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_spend(run, string->n_bytes / 4));
    int32_t previous = 0;
    for (size_t at = 0; at < string->n_bytes;) {
        const char *bytes = ln_jinja_bytes(string);
        size_t n = string->n_bytes - at, next = 1;
        int32_t c = ln_jinja_decode(bytes + at, &n);
        bool trusted = ln_jinja_trusted_at(string, at), upper = false, title = false;
        switch (to) {
        case LN_JINJA_CASE_UPPER: upper = true; break;
        case LN_JINJA_CASE_LOWER: break;
        case LN_JINJA_CASE_CAPITAL: title = at == 0; break;
        case LN_JINJA_CASE_TITLE: title = !is_cased(previous); break;
        case LN_JINJA_CASE_WORDS: upper = begins_word(previous); break;
        case LN_JINJA_CASE_SWAP: upper = !is_upper(c); break;
        }
        at += n;
        bool final = c == 0x3a3 && is_cased(previous);
        if (final && at < string->n_bytes) {
            next = string->n_bytes - at;
            final = !is_cased(ln_jinja_decode(bytes + at, &next));
        }
        if (upper || title)
            LN_TRY(put_upper(&b, c, title, trusted));
        else
            LN_TRY(put_lower(&b, c, final, trusted));
        previous = c;
    }
    return ln_jinja_finish(&b, out);
}

/* ---- escaping --------------------------------------------------------------------------- */

ln_status ln_jinja_escape(ln_jinja_run *run, ln_jinja_value value, ln_jinja_value *out) {
    ln_jinja_string *string;
    ln_jinja_builder b;
    if (value.kind == LN_JINJA_STRING && value.as.string->markup) {
        *out = value;
        return LINNET_OK;
    }
    LN_TRY(ln_jinja_str(run, value, &string));
    LN_TRY(ln_jinja_builder_init(run, &b));
    const char *bytes = ln_jinja_bytes(string);
    size_t plain = 0;
    for (size_t at = 0; at < string->n_bytes; at++) {
        const char *entity = bytes[at] == '&'    ? "&amp;"
                             : bytes[at] == '<'  ? "&lt;"
                             : bytes[at] == '>'  ? "&gt;"
                             : bytes[at] == '"'  ? "&#34;"
                             : bytes[at] == '\'' ? "&#39;"
                                                 : NULL;
        if (entity == NULL)
            continue;
        LN_TRY(ln_jinja_put_part(&b, string, plain, at));
        LN_TRY(ln_jinja_puts(&b, entity, ln_jinja_trusted_at(string, at)));
        plain = at + 1;
    }
    LN_TRY(ln_jinja_put_part(&b, string, plain, string->n_bytes));
    LN_TRY(ln_jinja_finish(&b, out));
    out->as.string->markup = true;
    return LINNET_OK;
}

/* ---- numbers in text -------------------------------------------------------------------- */

static int digit_value(int32_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
        return (c | 0x20) - 'a' + 10;
    return 99;
}

/* The text without surrounding whitespace, as bytes [*begin, *end). */
static void trim(const ln_jinja_string *text, size_t *begin, size_t *end) {
    const char *bytes = ln_jinja_bytes(text);
    *begin = 0;
    *end = text->n_bytes;
    while (*begin < *end) {
        size_t n = *end - *begin;
        if (!ln_jinja_is_space(ln_jinja_decode(bytes + *begin, &n)))
            break;
        *begin += n;
    }
    while (*end > *begin && ln_jinja_is_space((unsigned char)bytes[*end - 1]))
        (*end)--;
}

bool ln_jinja_parse_int(const ln_jinja_string *text, int base, int64_t *out, bool *overflow) {
    const char *bytes = ln_jinja_bytes(text);
    size_t at, end;
    *overflow = false;
    trim(text, &at, &end);
    bool negative = at < end && bytes[at] == '-';
    at += at < end && (bytes[at] == '-' || bytes[at] == '+');
    bool marked = false;
    if (end - at > 2 && bytes[at] == '0') {
        char mark = (char)(bytes[at + 1] | 0x20);
        int marked_base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        marked = marked_base != 0 && (base == marked_base || base == 0);
        if (marked) {
            base = marked_base;
            at += 2;
        }
    }
    bool zeros_only = base == 0 && at < end && bytes[at] == '0';
    base = base == 0 ? 10 : base;
    int64_t value = 0;
    bool digit = false, underscore = marked;
    for (; at < end; at++) {
        if (bytes[at] == '_' && (digit || underscore)) {
            if (!digit && !marked)
                return false;
            digit = false;
            marked = false;
            underscore = false;
            continue;
        }
        int d = digit_value((unsigned char)bytes[at]);
        if (d >= base || (zeros_only && d != 0))
            return false;
        digit = true;
        *overflow = *overflow || __builtin_mul_overflow(value, base, &value) ||
                    __builtin_sub_overflow(value, d, &value);
    }
    *overflow = *overflow || (!negative && value == INT64_MIN);
    if (!*overflow)
        *out = negative ? value : -value;
    return digit;
}

bool ln_jinja_parse_float(const ln_jinja_string *text, double *out) {
    char buffer[512];
    size_t n = 0, at, end;
    const char *bytes = ln_jinja_bytes(text);
    trim(text, &at, &end);
    bool digit = false;
    for (; at < end; at++) {
        char c = bytes[at];
        bool is_digit = c >= '0' && c <= '9';
        if (c == '_' && digit && at + 1 < end && bytes[at + 1] >= '0' && bytes[at + 1] <= '9')
            continue;
        if (c == '\0' || c == 'x' || c == 'X' || c == '(' || n + 1 >= sizeof buffer)
            return false; /* C reads hexadecimal floats and nan(...), Python does not */
        buffer[n++] = c;
        digit = is_digit;
    }
    buffer[n] = '\0';
    if (n == 0 || ln_jinja_is_space((unsigned char)buffer[0]))
        return false;
    char *rest;
    *out = ln_strtod(buffer, &rest);
    return *rest == '\0';
}
