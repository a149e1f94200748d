/* How values are written: str, repr and JSON, as Python writes them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/locale/number.h"
#include "text/jinja/run.h"

/* The shortest digits that read back as the same number, laid out as float.__repr__ does. */
size_t ln_jinja_float_repr(double real, char text[LN_JINJA_FLOAT_CHARS]) {
    if (!isfinite(real))
        return (size_t)snprintf(text, LN_JINJA_FLOAT_CHARS, "%s",
                                isnan(real) ? "nan"
                                : real > 0  ? "inf"
                                            : "-inf");
    char digits[LN_JINJA_FLOAT_CHARS];
    for (int precision = 0; precision < 17; precision++) {
        ln_snprintf(digits, sizeof digits, "%.*e", precision, real);
        if (ln_strtod(digits, NULL) == real)
            break;
    }
    char *e = strchr(digits, 'e');
    long exponent = strtol(e + 1, NULL, 10);
    *e = '\0';
    const char *sign = digits[0] == '-' ? "-" : "";
    char *first = digits + (digits[0] == '-');
    char all[LN_JINJA_FLOAT_CHARS];
    size_t n = 0;
    for (char *c = first; *c != '\0'; c++)
        if (*c != '.')
            all[n++] = *c;
    all[n] = '\0';
    long point = exponent + 1; /* digits before the decimal point */
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(text, LN_JINJA_FLOAT_CHARS,
                                "%s%c%s%s"
                                "e%c%02ld",
                                sign, all[0], n > 1 ? "." : "", all + 1, exponent < 0 ? '-' : '+',
                                labs(exponent));
    if (point <= 0)
        return (size_t)snprintf(text, LN_JINJA_FLOAT_CHARS, "%s0.%.*s%s", sign, (int)-point, "0000",
                                all);
    if ((size_t)point >= n)
        return (size_t)snprintf(text, LN_JINJA_FLOAT_CHARS, "%s%s%.*s.0", sign, all,
                                (int)((size_t)point - n), "0000000000000000");
    return (size_t)snprintf(text, LN_JINJA_FLOAT_CHARS, "%s%.*s.%s", sign, (int)point, all,
                            all + point);
}

/* ---- repr ------------------------------------------------------------------------------- */

static bool is_printable(int32_t c) {
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
    }
}

static ln_status put_code(ln_jinja_builder *b, int32_t c) {
    char text[16];
    snprintf(text, sizeof text,
             c < 0x100     ? "\\x%02" PRIx32
             : c < 0x10000 ? "\\u%04" PRIx32
                           : "\\U%08" PRIx32,
             (uint32_t)c);
    return ln_jinja_puts(b, text, false);
}

static ln_status put_string_repr(ln_jinja_builder *b, const ln_jinja_string *string) {
    const char *bytes = ln_jinja_bytes(string);
    bool single = string->n_bytes > 0 && memchr(bytes, '\'', string->n_bytes) != NULL;
    bool both = single && memchr(bytes, '"', string->n_bytes) != NULL;
    int32_t quote = single && !both ? '"' : '\'';
    LN_TRY(ln_jinja_put_char(b, quote, false));
    size_t plain = 0; /* bytes from here to `at` are copied as they are */
    for (size_t at = 0; at < string->n_bytes;) {
        size_t n = string->n_bytes - at;
        int32_t c = ln_jinja_decode(bytes + at, &n);
        bool simple = c == '\n' || c == '\r' || c == '\t' || c == '\\' || c == quote;
        if (simple || !is_printable(c)) {
            LN_TRY(ln_jinja_put(b, bytes + plain, at - plain, false));
            if (!simple)
                LN_TRY(put_code(b, c));
            else
                LN_TRY(ln_jinja_put(b,
                                    (char[]){'\\', (char)(c == '\n'   ? 'n'
                                                          : c == '\r' ? 'r'
                                                          : c == '\t' ? 't'
                                                                      : c)},
                                    2, false));
            plain = at + n;
        }
        at += n;
    }
    LN_TRY(ln_jinja_put(b, bytes + plain, string->n_bytes - plain, false));
    return ln_jinja_put_char(b, quote, false);
}

static ln_status put_list_repr(ln_jinja_builder *b, ln_jinja_value value) {
    const ln_jinja_list *list = value.as.list;
    bool tuple = value.kind == LN_JINJA_TUPLE;
    LN_TRY(ln_jinja_puts(b, tuple ? "(" : "[", false));
    for (size_t i = 0; i < list->n_items; i++) {
        if (i > 0)
            LN_TRY(ln_jinja_puts(b, ", ", false));
        LN_TRY(ln_jinja_put_repr(b, list->items[i]));
    }
    return ln_jinja_puts(b, !tuple ? "]" : list->n_items == 1 ? ",)" : ")", false);
}

static ln_status put_dict_repr(ln_jinja_builder *b, const ln_jinja_dict *dict) {
    LN_TRY(ln_jinja_puts(b, "{", false));
    for (size_t i = 0; i < dict->n_pairs; i++) {
        if (i > 0)
            LN_TRY(ln_jinja_puts(b, ", ", false));
        LN_TRY(ln_jinja_put_repr(b, dict->pairs[i].key));
        LN_TRY(ln_jinja_puts(b, ": ", false));
        LN_TRY(ln_jinja_put_repr(b, dict->pairs[i].item));
    }
    return ln_jinja_puts(b, "}", false);
}

static ln_status put_view_repr(ln_jinja_builder *b, ln_jinja_value value) {
    ln_jinja_value list;
    LN_TRY(ln_jinja_to_list(b->run, value, &list));
    LN_TRY(ln_jinja_puts(b, ln_jinja_type_name(value), false));
    LN_TRY(ln_jinja_puts(b, "(", false));
    LN_TRY(ln_jinja_put_repr(b, list));
    return ln_jinja_puts(b, ")", false);
}

static ln_status put_object_repr(ln_jinja_builder *b, ln_jinja_value value) {
    char text[160];
    switch (value.kind) {
    case LN_JINJA_RANGE: {
        const ln_jinja_range *range = value.as.range;
        if (range->step == 1)
            snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", range->start,
                     range->stop);
        else
            snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                     range->start, range->stop, range->step);
        break;
    }
    case LN_JINJA_MACRO:
        if (value.as.macro->name != NULL)
            snprintf(
                text, sizeof text, "<Macro '%.*s'>",
                (int)(value.as.macro->name->n_bytes < 100 ? value.as.macro->name->n_bytes : 100),
                ln_jinja_bytes(value.as.macro->name));
        else
            snprintf(text, sizeof text, "<Macro anonymous>");
        break;
    default: snprintf(text, sizeof text, "<%s object>", ln_jinja_type_name(value));
    }
    return ln_jinja_puts(b, text, false);
}

static ln_status put_namespace_repr(ln_jinja_builder *b, const ln_jinja_dict *dict) {
    LN_TRY(ln_jinja_puts(b, "<Namespace ", false));
    LN_TRY(put_dict_repr(b, dict));
    return ln_jinja_puts(b, ">", false);
}

/* Numbers and the like; a number written by a template's arithmetic is as trusted as its
 * literal text, since digits cannot spell anything that the template did not mean. */
static ln_status put_scalar(ln_jinja_builder *b, ln_jinja_value value, bool trusted) {
    char text[LN_JINJA_FLOAT_CHARS];
    switch (value.kind) {
    case LN_JINJA_NONE: return ln_jinja_puts(b, "None", trusted);
    case LN_JINJA_BOOL: return ln_jinja_puts(b, value.as.boolean ? "True" : "False", trusted);
    case LN_JINJA_INT:
        snprintf(text, sizeof text, "%" PRId64, value.as.integer);
        return ln_jinja_puts(b, text, trusted);
    default:
        LN_TRY(ln_jinja_spend(b->run, 16));
        ln_jinja_float_repr(value.as.real, text);
        return ln_jinja_puts(b, text, trusted);
    }
}

ln_status ln_jinja_put_repr(ln_jinja_builder *b, ln_jinja_value value) {
    LN_TRY(ln_jinja_enter(b->run));
    ln_status status;
    switch (value.kind) {
    case LN_JINJA_NONE:
    case LN_JINJA_BOOL:
    case LN_JINJA_INT:
    case LN_JINJA_FLOAT: status = put_scalar(b, value, false); break;
    case LN_JINJA_UNDEFINED: status = ln_jinja_puts(b, "Undefined", false); break;
    case LN_JINJA_STRING:
        status = LINNET_OK;
        if (value.as.string->markup)
            status = ln_jinja_puts(b, "Markup(", false);
        if (status == LINNET_OK)
            status = put_string_repr(b, value.as.string);
        if (status == LINNET_OK && value.as.string->markup)
            status = ln_jinja_puts(b, ")", false);
        break;
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE: status = put_list_repr(b, value); break;
    case LN_JINJA_DICT: status = put_dict_repr(b, value.as.dict); break;
    case LN_JINJA_NAMESPACE: status = put_namespace_repr(b, value.as.dict); break;
    case LN_JINJA_VIEW: status = put_view_repr(b, value); break;
    default: status = put_object_repr(b, value);
    }
    ln_jinja_leave(b->run);
    return status;
}

ln_status ln_jinja_put_str(ln_jinja_builder *b, ln_jinja_value value) {
    switch (value.kind) {
    case LN_JINJA_STRING: return ln_jinja_put_string(b, value.as.string);
    case LN_JINJA_UNDEFINED: return LINNET_OK;
    case LN_JINJA_NONE:
    case LN_JINJA_BOOL:
    case LN_JINJA_INT:
    case LN_JINJA_FLOAT: return put_scalar(b, value, true);
    default: return ln_jinja_put_repr(b, value);
    }
}

ln_status ln_jinja_str(ln_jinja_run *run, ln_jinja_value value, ln_jinja_string **out) {
    if (value.kind == LN_JINJA_STRING) {
        *out = value.as.string;
        return LINNET_OK;
    }
    ln_jinja_builder builder;
    ln_jinja_value string;
    LN_TRY(ln_jinja_builder_init(run, &builder));
    LN_TRY(ln_jinja_put_str(&builder, value));
    LN_TRY(ln_jinja_finish(&builder, &string));
    *out = string.as.string;
    return LINNET_OK;
}

/* ---- JSON ------------------------------------------------------------------------------- */

static ln_status put_json_escape(ln_jinja_builder *b, int32_t c) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *simple = c > 0 && c < 0x80 ? strchr(from, (char)c) : NULL;
    char text[16];
    if (simple != NULL)
        snprintf(text, sizeof text, "\\%c", to[simple - from]);
    else if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04" PRIx32, (uint32_t)c);
    else
        snprintf(text, sizeof text, "\\u%04" PRIx32 "\\u%04" PRIx32, (uint32_t)(0xd7c0 + (c >> 10)),
                 (uint32_t)(0xdc00 + (c & 0x3ff)));
    return ln_jinja_puts(b, text, false);
}

static ln_status put_json_string(ln_jinja_builder *b, const ln_jinja_string *string, bool ascii) {
    const char *bytes = ln_jinja_bytes(string);
    size_t plain = 0;
    LN_TRY(ln_jinja_puts(b, "\"", false));
    for (size_t at = 0; at < string->n_bytes;) {
        size_t n = string->n_bytes - at;
        int32_t c = ln_jinja_decode(bytes + at, &n);
        if (c < 0x20 || c == '"' || c == '\\' || (ascii && c > 0x7e)) {
            LN_TRY(ln_jinja_put(b, bytes + plain, at - plain, false));
            LN_TRY(put_json_escape(b, c));
            plain = at + n;
        }
        at += n;
    }
    LN_TRY(ln_jinja_put(b, bytes + plain, string->n_bytes - plain, false));
    return ln_jinja_puts(b, "\"", false);
}

static ln_status put_json_float(ln_jinja_builder *b, double real) {
    char text[LN_JINJA_FLOAT_CHARS];
    if (!isfinite(real))
        return ln_jinja_puts(b, isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity", false);
    LN_TRY(ln_jinja_spend(b->run, 16));
    ln_jinja_float_repr(real, text);
    return ln_jinja_puts(b, text, false);
}

typedef struct json_writer {
    ln_jinja_builder *b;
    const ln_jinja_json_style *style;
    size_t level;
} json_writer;

static ln_status put_json(json_writer *w, ln_jinja_value value);

static ln_status json_break(json_writer *w) {
    if (w->style->indent == NULL)
        return LINNET_OK;
    LN_TRY(ln_jinja_puts(w->b, "\n", false));
    return ln_jinja_put_repeated(w->b, w->style->indent, w->level);
}

static ln_status json_separator(json_writer *w, bool first) {
    if (!first)
        LN_TRY(ln_jinja_put(w->b, w->style->item_separator, w->style->item_separator_bytes, false));
    return json_break(w);
}

static ln_status put_json_list(json_writer *w, const ln_jinja_list *list) {
    if (list->n_items == 0)
        return ln_jinja_puts(w->b, "[]", false);
    LN_TRY(ln_jinja_puts(w->b, "[", false));
    w->level++;
    for (size_t i = 0; i < list->n_items; i++) {
        LN_TRY(json_separator(w, i == 0));
        LN_TRY(put_json(w, list->items[i]));
    }
    w->level--;
    LN_TRY(json_break(w));
    return ln_jinja_puts(w->b, "]", false);
}

static ln_status put_json_key(json_writer *w, ln_jinja_value key) {
    switch (key.kind) {
    case LN_JINJA_STRING: return put_json(w, key);
    case LN_JINJA_NONE:
    case LN_JINJA_BOOL:
    case LN_JINJA_INT:
    case LN_JINJA_FLOAT:
        LN_TRY(ln_jinja_puts(w->b, "\"", false));
        LN_TRY(put_json(w, key));
        return ln_jinja_puts(w->b, "\"", false);
    default:
        return ln_jinja_raise(w->b->run, "TypeError",
                              "keys must be str, int, float, bool or None, not %s",
                              ln_jinja_type_name(key));
    }
}

/* The pairs in the order of their keys. */
static ln_status sort_pairs(ln_jinja_run *run, const ln_jinja_dict *dict, ln_jinja_pair **sorted) {
    ln_jinja_value *keys, *items;
    LN_TRY(ln_jinja_alloc(run, dict->n_pairs, sizeof *keys, &keys));
    LN_TRY(ln_jinja_alloc(run, dict->n_pairs, sizeof *items, &items));
    LN_TRY(ln_jinja_alloc(run, dict->n_pairs, sizeof **sorted, sorted));
    for (size_t i = 0; i < dict->n_pairs; i++) {
        keys[i] = dict->pairs[i].key;
        items[i] = ln_jinja_int((int64_t)i);
    }
    LN_TRY(ln_jinja_sort(run, items, keys, dict->n_pairs, false));
    for (size_t i = 0; i < dict->n_pairs; i++)
        (*sorted)[i] = dict->pairs[items[i].as.integer];
    return LINNET_OK;
}

static ln_status put_json_dict(json_writer *w, const ln_jinja_dict *dict) {
    if (dict->n_pairs == 0)
        return ln_jinja_puts(w->b, "{}", false);
    ln_jinja_pair *pairs = dict->pairs;
    if (w->style->sort_keys)
        LN_TRY(sort_pairs(w->b->run, dict, &pairs));
    LN_TRY(ln_jinja_puts(w->b, "{", false));
    w->level++;
    for (size_t i = 0; i < dict->n_pairs; i++) {
        LN_TRY(json_separator(w, i == 0));
        LN_TRY(put_json_key(w, pairs[i].key));
        LN_TRY(ln_jinja_put(w->b, w->style->key_separator, w->style->key_separator_bytes, false));
        LN_TRY(put_json(w, pairs[i].item));
    }
    w->level--;
    LN_TRY(json_break(w));
    return ln_jinja_puts(w->b, "}", false);
}

static ln_status put_json(json_writer *w, ln_jinja_value value) {
    ln_jinja_run *run = w->b->run;
    LN_TRY(ln_jinja_enter(run));
    ln_status status;
    switch (value.kind) {
    case LN_JINJA_NONE: status = ln_jinja_puts(w->b, "null", false); break;
    case LN_JINJA_BOOL:
        status = ln_jinja_puts(w->b, value.as.boolean ? "true" : "false", false);
        break;
    case LN_JINJA_INT: status = put_scalar(w->b, value, false); break;
    case LN_JINJA_FLOAT: status = put_json_float(w->b, value.as.real); break;
    case LN_JINJA_STRING: status = put_json_string(w->b, value.as.string, w->style->ascii); break;
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE: status = put_json_list(w, value.as.list); break;
    case LN_JINJA_DICT: status = put_json_dict(w, value.as.dict); break;
    default:
        status = ln_jinja_raise(run, "TypeError", "Object of type %s is not JSON serializable",
                                ln_jinja_type_name(value));
    }
    ln_jinja_leave(run);
    return status;
}

ln_status ln_jinja_put_json(ln_jinja_builder *builder, ln_jinja_value value,
                            const ln_jinja_json_style *style) {
    json_writer writer = {.b = builder, .style = style};
    return put_json(&writer, value);
}
