/* String formatting: the % operator and str.format. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/locale/number.h"
#include "text/jinja/run.h"

enum { MAX_PRECISION = 300, NUMBER_CHARS = 1024 };

typedef struct spec {
    int32_t fill;
    char align; /* '<' '>' '^' '=' or 0: the type's own */
    char sign;  /* '-' '+' ' ' */
    char group; /* ',' '_' or 0 */
    char type;  /* 0: none given */
    bool alternate;
    int64_t width, precision; /* precision -1: none */
} spec;

/* ---- one value -------------------------------------------------------------------------- */

/* prefix (sign, 0x) and body, padded to the width. */
static ln_status put_padded(ln_jinja_builder *b, const spec *s, char align, const char *prefix,
                            const ln_jinja_string *body) {
    int64_t have = (int64_t)(strlen(prefix) + body->n_chars);
    int64_t pad = s->width > have ? s->width - have : 0;
    if (s->align != 0)
        align = s->align;
    int64_t left = align == '>' || align == '=' ? pad : align == '^' ? pad / 2 : 0;
    ln_jinja_value fill;
    LN_TRY(ln_jinja_spend_bytes(b->run, (size_t)pad));
    ln_jinja_builder fill_builder;
    LN_TRY(ln_jinja_builder_init(b->run, &fill_builder));
    LN_TRY(ln_jinja_put_char(&fill_builder, s->fill, true));
    LN_TRY(ln_jinja_finish(&fill_builder, &fill));
    if (align == '=')
        LN_TRY(ln_jinja_puts(b, prefix, true));
    LN_TRY(ln_jinja_put_repeated(b, fill.as.string, (size_t)left));
    if (align != '=')
        LN_TRY(ln_jinja_puts(b, prefix, true));
    LN_TRY(ln_jinja_put_string(b, body));
    return ln_jinja_put_repeated(b, fill.as.string, (size_t)(pad - left));
}

static ln_status put_text(ln_jinja_builder *b, const spec *s, const ln_jinja_string *text,
                          char align) {
    ln_jinja_value part = {.kind = LN_JINJA_MISSING};
    if (s->precision >= 0 && (uint64_t)s->precision < text->n_chars) {
        LN_TRY(ln_jinja_string_part(b->run, text, 0,
                                    ln_jinja_string_offset(text, (size_t)s->precision), &part));
        text = part.as.string;
    }
    return put_padded(b, s, align, "", text);
}

/* Separators between groups of digits in the integer part. */
static void group_digits(char text[NUMBER_CHARS], char separator, size_t every) {
    size_t whole = strspn(text, "0123456789abcdefABCDEF"), length = strlen(text);
    size_t n = whole > 0 ? (whole - 1) / every : 0;
    if (length + n >= NUMBER_CHARS)
        return;
    memmove(text + whole + n, text + whole, length - whole + 1);
    size_t from = whole, to = whole + n;
    for (size_t count = 0; from > 0; count++) {
        if (count > 0 && count % every == 0)
            text[--to] = separator;
        text[--to] = text[--from];
    }
}

static ln_status put_number(ln_jinja_builder *b, const spec *s, bool negative, const char *mark,
                            char text[NUMBER_CHARS]) {
    char prefix[4];
    snprintf(prefix, sizeof prefix, "%s%s",
             negative         ? "-"
             : s->sign == '+' ? "+"
             : s->sign == ' ' ? " "
                              : "",
             mark);
    if (s->group != 0)
        group_digits(text, s->group, mark[0] != '\0' || s->type == 'x' || s->type == 'b' ? 4 : 3);
    ln_jinja_value body;
    LN_TRY(ln_jinja_string_c(b->run, text, &body));
    return put_padded(b, s, '>', prefix, body.as.string);
}

static ln_status put_int(ln_jinja_builder *b, const spec *s, int64_t value) {
    char text[NUMBER_CHARS];
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char *mark = "";
    switch (s->type) {
    case 'x':
        snprintf(text, sizeof text, "%" PRIx64, magnitude);
        mark = "0x";
        break;
    case 'X':
        snprintf(text, sizeof text, "%" PRIX64, magnitude);
        mark = "0X";
        break;
    case 'o':
        snprintf(text, sizeof text, "%" PRIo64, magnitude);
        mark = "0o";
        break;
    case 'b': {
        char *at = text + 65;
        *at = '\0';
        do
            *--at = (char)('0' + (magnitude & 1));
        while ((magnitude >>= 1) != 0);
        memmove(text, at, strlen(at) + 1);
        mark = "0b";
        break;
    }
    default:
        snprintf(text, sizeof text, "%.*" PRIu64,
                 s->precision > 0 && s->precision <= MAX_PRECISION ? (int)s->precision : 1,
                 magnitude);
    }
    return put_number(b, s, value < 0, s->alternate ? mark : "", text);
}

static ln_status put_float(ln_jinja_builder *b, const spec *s, double value) {
    char text[NUMBER_CHARS], format[8];
    char type = s->type;
    double magnitude = fabs(value);
    if (s->precision > MAX_PRECISION)
        return ln_jinja_raise(b->run, "ValueError", "precision too big");
    int precision = s->precision >= 0 ? (int)s->precision : 6;
    LN_TRY(ln_jinja_spend(b->run, 32));
    if (type == 0 && s->precision < 0) {
        ln_jinja_float_repr(magnitude, text);
    } else {
        char c = type == '%' ? 'f' : type == 0 || type == 'n' ? 'g' : type;
        snprintf(format, sizeof format, s->alternate ? "%%#.*%c" : "%%.*%c", c);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        ln_snprintf(text, sizeof text, format, precision,
                    type == '%' ? magnitude * 100 : magnitude);
#pragma GCC diagnostic pop
        if (type == 0 && strpbrk(text, ".en") == NULL)
            strcat(text, ".0");
        if (type == '%')
            strcat(text, "%");
    }
    return put_number(b, s, signbit(value) && !isnan(value), "", text);
}

/* ---- % ---------------------------------------------------------------------------------- */

typedef struct percent {
    ln_jinja_run *run;
    ln_jinja_builder b;
    const ln_jinja_string *format;
    size_t at;
    ln_jinja_value args; /* a tuple, or the one value */
    size_t next;
    bool used_mapping;
} percent;

static ln_status next_percent_arg(percent *p, ln_jinja_value *out) {
    bool tuple = p->args.kind == LN_JINJA_TUPLE;
    if (p->next >= (tuple ? p->args.as.list->n_items : 1))
        return ln_jinja_raise(p->run, "TypeError", "not enough arguments for format string");
    *out = tuple ? p->args.as.list->items[p->next] : p->args;
    p->next++;
    return LINNET_OK;
}

static char percent_byte(const percent *p) {
    return p->at < p->format->n_bytes ? ln_jinja_bytes(p->format)[p->at] : '\0';
}

static ln_status percent_number(percent *p, int64_t *out) {
    if (percent_byte(p) == '*') {
        ln_jinja_value value;
        p->at++;
        LN_TRY(next_percent_arg(p, &value));
        if (value.kind != LN_JINJA_INT)
            return ln_jinja_raise(p->run, "TypeError", "* wants int");
        *out = value.as.integer;
        return LINNET_OK;
    }
    *out = 0;
    for (; percent_byte(p) >= '0' && percent_byte(p) <= '9'; p->at++)
        if (*out < INT32_MAX)
            *out = *out * 10 + (percent_byte(p) - '0');
    return LINNET_OK;
}

/* The key of %(key)s, whose value replaces the arguments. */
static ln_status percent_key(percent *p, ln_jinja_value *value) {
    if (p->args.kind != LN_JINJA_DICT)
        return ln_jinja_raise(p->run, "TypeError", "format requires a mapping");
    size_t begin = ++p->at, depth = 1;
    for (; depth > 0 && p->at < p->format->n_bytes; p->at++)
        depth = percent_byte(p) == '(' ? depth + 1 : percent_byte(p) == ')' ? depth - 1 : depth;
    if (depth > 0)
        return ln_jinja_raise(p->run, "ValueError", "incomplete format key");
    ln_jinja_value key, *found;
    LN_TRY(ln_jinja_string_part(p->run, p->format, begin, p->at - 1, &key));
    LN_TRY(ln_jinja_dict_get(p->run, p->args.as.dict, key, &found));
    if (found == NULL)
        return ln_jinja_raise(p->run, "KeyError", "%s", ln_jinja_quote(p->run, key));
    *value = *found;
    p->used_mapping = true;
    return LINNET_OK;
}

static ln_status put_percent_text(percent *p, spec *s, ln_jinja_value value) {
    ln_jinja_string *text;
    if (s->type == 's') {
        LN_TRY(ln_jinja_str(p->run, value, &text));
    } else {
        ln_jinja_builder repr;
        ln_jinja_value out;
        LN_TRY(ln_jinja_builder_init(p->run, &repr));
        LN_TRY(ln_jinja_put_repr(&repr, value));
        LN_TRY(ln_jinja_finish(&repr, &out));
        text = out.as.string;
    }
    if (p->format->markup && !text->markup) {
        ln_jinja_value escaped;
        LN_TRY(ln_jinja_escape(p->run, ln_jinja_of_string(text), &escaped));
        text = escaped.as.string;
    }
    s->fill = ' ';
    return put_text(&p->b, s, text, '>');
}

static ln_status put_percent_number(percent *p, spec *s, ln_jinja_value value) {
    bool is_float = value.kind == LN_JINJA_FLOAT;
    if (value.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(p->run, value);
    bool number = is_float || value.kind == LN_JINJA_INT || value.kind == LN_JINJA_BOOL;
    int64_t integer = value.kind == LN_JINJA_INT    ? value.as.integer
                      : value.kind == LN_JINJA_BOOL ? value.as.boolean
                                                    : 0;
    if (strchr("eEfFgG", s->type) != NULL) {
        if (!number)
            return ln_jinja_raise(p->run, "TypeError", "must be real number, not %s",
                                  ln_jinja_type_name(value));
        return put_float(&p->b, s, is_float ? value.as.real : (double)integer);
    }
    bool decimal = s->type == 'd' || s->type == 'i' || s->type == 'u';
    if (!number || (is_float && !decimal))
        return ln_jinja_raise(p->run, "TypeError", "%%%c format: %s is required, not %s", s->type,
                              decimal ? "a real number" : "an integer", ln_jinja_type_name(value));
    if (is_float) {
        if (!(fabs(value.as.real) < 0x1p63))
            return ln_jinja_raise(p->run, "OverflowError", "an integer does not fit 64 bits");
        integer = (int64_t)value.as.real;
    }
    return put_int(&p->b, s, integer);
}

static ln_status put_percent_char(percent *p, spec *s, ln_jinja_value value) {
    ln_jinja_value text = value;
    if (value.kind == LN_JINJA_INT && value.as.integer >= 0 && value.as.integer < 0x110000 &&
        (value.as.integer < 0xd800 || value.as.integer > 0xdfff)) {
        ln_jinja_builder builder;
        LN_TRY(ln_jinja_builder_init(p->run, &builder));
        LN_TRY(ln_jinja_put_char(&builder, (int32_t)value.as.integer, false));
        LN_TRY(ln_jinja_finish(&builder, &text));
    } else if (value.kind != LN_JINJA_STRING || value.as.string->n_chars != 1) {
        return ln_jinja_raise(p->run, "TypeError", "%%c requires int or char");
    }
    s->precision = -1;
    return put_text(&p->b, s, text.as.string, '>');
}

/* One conversion, from behind its %. */
static ln_status put_conversion(percent *p) {
    spec s = {.fill = ' ', .precision = -1};
    ln_jinja_value value = {.kind = LN_JINJA_MISSING};
    bool zero = false;
    if (percent_byte(p) == '(')
        LN_TRY(percent_key(p, &value));
    for (;; p->at++) {
        char c = percent_byte(p);
        if (c == '-')
            s.align = '<';
        else if (c == '+' || (c == ' ' && s.sign != '+'))
            s.sign = c;
        else if (c == '#')
            s.alternate = true;
        else if (c == '0')
            zero = true;
        else if (c != ' ')
            break;
    }
    LN_TRY(percent_number(p, &s.width));
    if (s.width < 0) {
        s.align = '<';
        s.width = s.width > INT64_MIN ? -s.width : INT64_MAX;
    }
    if (percent_byte(p) == '.') {
        p->at++;
        LN_TRY(percent_number(p, &s.precision));
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    while (percent_byte(p) == 'h' || percent_byte(p) == 'l' || percent_byte(p) == 'L')
        p->at++;
    if (p->at >= p->format->n_bytes)
        return ln_jinja_raise(p->run, "ValueError", "incomplete format");
    s.type = ln_jinja_bytes(p->format)[p->at++];
    if (s.type == '%')
        return ln_jinja_puts(&p->b, "%", ln_jinja_trusted_at(p->format, p->at - 1));
    if (s.type == '\0' || strchr("srdiuoxXeEfFgGca", s.type) == NULL)
        return ln_jinja_raise(
            p->run, "ValueError", "unsupported format character '%c' (0x%x) at index %zu",
            s.type >= ' ' && s.type < 0x7f ? s.type : '?', (unsigned)(unsigned char)s.type,
            ln_jinja_count_chars(ln_jinja_bytes(p->format), p->at - 1));
    if (value.kind == LN_JINJA_MISSING)
        LN_TRY(next_percent_arg(p, &value));
    if (s.type == 's' || s.type == 'r' || s.type == 'a')
        return put_percent_text(p, &s, value);
    if (s.type == 'c')
        return put_percent_char(p, &s, value);
    if (zero && s.align != '<') {
        s.fill = '0';
        s.align = '=';
    }
    return put_percent_number(p, &s, value);
}

ln_status ln_jinja_percent(ln_jinja_run *run, const ln_jinja_string *format, ln_jinja_value args,
                           ln_jinja_value *out) {
    percent p = {.run = run, .format = format, .args = args};
    LN_TRY(ln_jinja_builder_init(run, &p.b));
    while (p.at < format->n_bytes) {
        const char *bytes = ln_jinja_bytes(format);
        const char *sign = memchr(bytes + p.at, '%', format->n_bytes - p.at);
        size_t end = sign == NULL ? format->n_bytes : (size_t)(sign - bytes);
        LN_TRY(ln_jinja_put_part(&p.b, format, p.at, end));
        p.at = end + 1;
        if (sign != NULL)
            LN_TRY(put_conversion(&p));
    }
    bool single = args.kind != LN_JINJA_TUPLE;
    bool mapping = args.kind == LN_JINJA_DICT || args.kind == LN_JINJA_LIST ||
                   args.kind == LN_JINJA_UNDEFINED || args.kind == LN_JINJA_RANGE;
    if (!mapping && p.next < (single ? 1 : args.as.list->n_items))
        return ln_jinja_raise(run, "TypeError",
                              "not all arguments converted during string formatting");
    LN_TRY(ln_jinja_finish(&p.b, out));
    out->as.string->markup = format->markup;
    return LINNET_OK;
}

/* ---- str.format ------------------------------------------------------------------------- */

static bool parse_spec(const ln_jinja_string *text, spec *s) {
    const char *bytes = ln_jinja_bytes(text);
    size_t at = 0, n = text->n_bytes;
    *s = (spec){.fill = ' ', .precision = -1};
    if (n == 0)
        return true;
    size_t first = n;
    int32_t c = ln_jinja_decode(bytes, &first);
    if (first < n && bytes[first] != '\0' && strchr("<>^=", bytes[first]) != NULL) {
        s->fill = c;
        s->align = bytes[first];
        at = first + 1;
    } else if (c != 0 && c < 0x80 && strchr("<>^=", c) != NULL) {
        s->align = bytes[0];
        at = 1;
    }
    if (at < n && bytes[at] != '\0' && strchr("+- ", bytes[at]) != NULL)
        s->sign = bytes[at++];
    if (at < n && bytes[at] == '#')
        s->alternate = bytes[at++] == '#';
    if (at < n && bytes[at] == '0') {
        if (s->align == 0) {
            s->fill = '0';
            s->align = '=';
        }
        at++;
    }
    for (; at < n && bytes[at] >= '0' && bytes[at] <= '9'; at++)
        s->width = s->width < INT32_MAX ? s->width * 10 + (bytes[at] - '0') : s->width;
    if (at < n && (bytes[at] == ',' || bytes[at] == '_'))
        s->group = bytes[at++];
    if (at + 1 < n && bytes[at] == '.') {
        s->precision = 0;
        for (at++; at < n && bytes[at] >= '0' && bytes[at] <= '9'; at++)
            s->precision =
                s->precision < INT32_MAX ? s->precision * 10 + (bytes[at] - '0') : s->precision;
    }
    if (at < n)
        s->type = bytes[at++];
    return at == n;
}

/* format(value, text) */
static ln_status put_formatted(ln_jinja_builder *b, ln_jinja_value value,
                               const ln_jinja_string *text) {
    spec s;
    ln_jinja_run *run = b->run;
    if (text->n_bytes == 0)
        return ln_jinja_put_str(b, value);
    if (!parse_spec(text, &s))
        return ln_jinja_raise(run, "ValueError", "Invalid format specifier");
    if (value.kind == LN_JINJA_BOOL && s.type != 0)
        value = ln_jinja_int(value.as.boolean);
    switch (value.kind) {
    case LN_JINJA_STRING:
        if (s.type != 0 && s.type != 's')
            break;
        if (s.align == '=') /* 0 before the width fills on the right of a text */
            s.align = '<';
        return put_text(b, &s, value.as.string, '<');
    case LN_JINJA_INT:
        if (s.type == 'c')
            break;
        if (s.type == 0 || strchr("dxXobn", s.type) != NULL)
            return put_int(b, &s, value.as.integer);
        value = ln_jinja_float((double)value.as.integer); /* fall through */
        __attribute__((fallthrough));
    case LN_JINJA_FLOAT:
        if (s.type != 0 && strchr("eEfFgGn%", s.type) == NULL)
            break;
        return put_float(b, &s, value.as.real);
    default:
        return ln_jinja_raise(run, "TypeError", "unsupported format string passed to %s.__format__",
                              ln_jinja_type_name(value));
    }
    return ln_jinja_raise(run, "ValueError", "Unknown format code '%c' for object of type '%s'",
                          s.type >= ' ' && s.type < 0x7f ? s.type : '?', ln_jinja_type_name(value));
}

typedef struct brace {
    ln_jinja_run *run;
    ln_jinja_builder b;
    const ln_jinja_args *args;
    size_t next; /* automatic number */
    int depth;
    bool markup; /* what is put in is escaped */
} brace;

static ln_status put_braces(brace *f, const ln_jinja_string *format);

static ln_status brace_argument(brace *f, const ln_jinja_string *name, ln_jinja_value *out) {
    int64_t index = 0;
    bool overflow = false;
    bool number = name->n_bytes == 0 || ln_jinja_parse_int(name, 10, &index, &overflow);
    if (number) {
        size_t at = name->n_bytes == 0 ? f->next++ : (size_t)index;
        if (overflow || at >= f->args->n_positional)
            return ln_jinja_raise(f->run, "IndexError", "tuple index out of range");
        *out = f->args->positional[at];
        return LINNET_OK;
    }
    for (size_t i = 0; i < f->args->n_named; i++)
        if (ln_jinja_string_equal(f->args->named[i].name, name)) {
            *out = f->args->named[i].value;
            return LINNET_OK;
        }
    union {
        const ln_jinja_string *in;
        ln_jinja_string *out;
    } shared = {.in = name};
    return ln_jinja_raise(f->run, "KeyError", "%s",
                          ln_jinja_quote(f->run, ln_jinja_of_string(shared.out)));
}

/* `name.attribute[item]` */
static ln_status brace_field(brace *f, const ln_jinja_string *field, ln_jinja_value *out) {
    const char *bytes = ln_jinja_bytes(field);
    size_t at = 0, n = field->n_bytes;
    while (at < n && bytes[at] != '.' && bytes[at] != '[')
        at++;
    ln_jinja_value part;
    LN_TRY(ln_jinja_string_part(f->run, field, 0, at, &part));
    LN_TRY(brace_argument(f, part.as.string, out));
    while (at < n) {
        bool item = bytes[at++] == '[';
        size_t begin = at;
        while (at < n && (item ? bytes[at] != ']' : bytes[at] != '.' && bytes[at] != '['))
            at++;
        LN_TRY(ln_jinja_string_part(f->run, field, begin, at, &part));
        int64_t index;
        bool overflow;
        if (!item)
            LN_TRY(ln_jinja_get_attribute(f->run, *out, part.as.string, out));
        else if (ln_jinja_parse_int(part.as.string, 10, &index, &overflow) && !overflow)
            LN_TRY(ln_jinja_get_item(f->run, *out, ln_jinja_int(index), out));
        else
            LN_TRY(ln_jinja_get_item(f->run, *out, part, out));
        if (item && at < n)
            at++;
    }
    return LINNET_OK;
}

/* [begin, end) of the format is what stands between a pair of braces. */
static ln_status put_field(brace *f, const ln_jinja_string *format, size_t begin, size_t end) {
    const char *bytes = ln_jinja_bytes(format);
    size_t name_end = begin, spec_begin = end;
    char conversion = 's';
    bool converts = false;
    while (name_end < end && bytes[name_end] != '!' && bytes[name_end] != ':')
        name_end++;
    size_t at = name_end;
    if (at < end && bytes[at] == '!') {
        converts = true;
        conversion = at + 1 < end ? bytes[at + 1] : '\0';
        at += 2;
        if ((conversion != 's' && conversion != 'r' && conversion != 'a') ||
            (at < end && bytes[at] != ':'))
            return ln_jinja_raise(f->run, "ValueError", "malformed conversion in format string");
    }
    if (at < end)
        spec_begin = at + 1;
    ln_jinja_value field, value, spec_text;
    LN_TRY(ln_jinja_string_part(f->run, format, begin, name_end, &field));
    LN_TRY(brace_field(f, field.as.string, &value));
    if (converts) {
        ln_jinja_builder converted;
        LN_TRY(ln_jinja_builder_init(f->run, &converted));
        if (conversion == 's')
            LN_TRY(ln_jinja_put_str(&converted, value));
        else
            LN_TRY(ln_jinja_put_repr(&converted, value));
        LN_TRY(ln_jinja_finish(&converted, &value));
    }
    LN_TRY(ln_jinja_string_part(f->run, format, spec_begin, end, &spec_text));
    if (memchr(bytes + spec_begin, '{', end - spec_begin) != NULL) {
        brace inner = {.run = f->run, .args = f->args, .next = f->next, .depth = f->depth + 1};
        LN_TRY(ln_jinja_builder_init(f->run, &inner.b));
        LN_TRY(put_braces(&inner, spec_text.as.string));
        LN_TRY(ln_jinja_finish(&inner.b, &spec_text));
        f->next = inner.next;
    }
    if (!f->markup)
        return put_formatted(&f->b, value, spec_text.as.string);
    ln_jinja_builder plain;
    LN_TRY(ln_jinja_builder_init(f->run, &plain));
    LN_TRY(put_formatted(&plain, value, spec_text.as.string));
    bool safe = value.kind == LN_JINJA_STRING && value.as.string->markup;
    LN_TRY(ln_jinja_finish(&plain, &value));
    value.as.string->markup = safe;
    LN_TRY(ln_jinja_escape(f->run, value, &value));
    return ln_jinja_put_string(&f->b, value.as.string);
}

static ln_status put_braces(brace *f, const ln_jinja_string *format) {
    const char *bytes = ln_jinja_bytes(format);
    size_t n = format->n_bytes;
    if (f->depth > 1)
        return ln_jinja_raise(f->run, "ValueError", "Max string recursion exceeded");
    for (size_t at = 0; at < n; at++) {
        size_t begin = at;
        while (at < n && bytes[at] != '{' && bytes[at] != '}')
            at++;
        LN_TRY(ln_jinja_put_part(&f->b, format, begin, at));
        if (at >= n)
            break;
        if (at + 1 < n && bytes[at + 1] == bytes[at]) {
            LN_TRY(ln_jinja_put_part(&f->b, format, at, at + 1));
            at++;
            continue;
        }
        if (bytes[at] == '}')
            return ln_jinja_raise(f->run, "ValueError", "Single '}' encountered in format string");
        size_t depth = 1;
        begin = at + 1;
        for (at++; at < n && depth > 0; at++)
            depth = bytes[at] == '{' ? depth + 1 : bytes[at] == '}' ? depth - 1 : depth;
        if (depth > 0)
            return ln_jinja_raise(f->run, "ValueError",
                                  n == begin ? "Single '{' encountered in format string"
                                             : "expected '}' before end of string");
        at--;
        LN_TRY(put_field(f, format, begin, at));
    }
    return LINNET_OK;
}

ln_status ln_jinja_brace_format(ln_jinja_run *run, const ln_jinja_string *format,
                                const ln_jinja_args *args, ln_jinja_value *out) {
    brace f = {.run = run, .args = args, .markup = format->markup};
    LN_TRY(ln_jinja_builder_init(run, &f.b));
    LN_TRY(put_braces(&f, format));
    LN_TRY(ln_jinja_finish(&f.b, out));
    out->as.string->markup = format->markup;
    return LINNET_OK;
}
