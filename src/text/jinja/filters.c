/* Filters over texts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "text/jinja/run.h"

#define FILTER(name)                                                                               \
    static ln_status name(ln_jinja_run *run, ln_jinja_value self, ln_jinja_args *args,             \
                          ln_jinja_value *out)

/* ---- text ------------------------------------------------------------------------------- */

/* What Markup makes of itself stays Markup; *out is fresh. */
static ln_status keep_markup(const ln_jinja_string *from, ln_jinja_value *out) {
    out->as.string->markup = from->markup;
    return LINNET_OK;
}

static ln_status change_case(ln_jinja_run *run, ln_jinja_value self, ln_jinja_case to,
                             ln_jinja_value *out) {
    ln_jinja_string *text;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_change_case(run, text, to, out));
    return to == LN_JINJA_CASE_WORDS ? LINNET_OK : keep_markup(text, out);
}

FILTER(filter_upper) {
    (void)args;
    return change_case(run, self, LN_JINJA_CASE_UPPER, out);
}
FILTER(filter_lower) {
    (void)args;
    return change_case(run, self, LN_JINJA_CASE_LOWER, out);
}
FILTER(filter_capitalize) {
    (void)args;
    return change_case(run, self, LN_JINJA_CASE_CAPITAL, out);
}
FILTER(filter_title) {
    (void)args;
    return change_case(run, self, LN_JINJA_CASE_WORDS, out);
}

FILTER(filter_trim) {
    ln_jinja_string *text, *chars = NULL;
    LN_TRY(ln_jinja_str(run, self, &text));
    ln_jinja_value given = ln_jinja_arg(args, 0);
    if (given.kind == LN_JINJA_STRING)
        chars = given.as.string;
    else if (given.kind != LN_JINJA_MISSING && given.kind != LN_JINJA_NONE)
        return ln_jinja_raise(run, "TypeError", "strip arg must be None or str");
    LN_TRY(ln_jinja_strip(run, text, chars, true, true, out));
    return keep_markup(text, out);
}

FILTER(filter_string) {
    (void)args;
    ln_jinja_string *text;
    LN_TRY(ln_jinja_str(run, self, &text));
    *out = ln_jinja_of_string(text);
    return LINNET_OK;
}

FILTER(filter_safe) {
    (void)args;
    ln_jinja_string *text;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_string_part(run, text, 0, text->n_bytes, out));
    out->as.string->markup = true;
    return LINNET_OK;
}

FILTER(filter_escape) {
    (void)args;
    return ln_jinja_escape(run, self, out);
}

FILTER(filter_forceescape) {
    (void)args;
    ln_jinja_string *text;
    ln_jinja_value plain;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_string_part(run, text, 0, text->n_bytes, &plain));
    plain.as.string->markup = false;
    return ln_jinja_escape(run, plain, out);
}

FILTER(filter_replace) {
    ln_jinja_string *text, *old, *new_text;
    int64_t count = -1;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_str(run, ln_jinja_arg(args, 0), &old));
    LN_TRY(ln_jinja_str(run, ln_jinja_arg(args, 1), &new_text));
    if (ln_jinja_has_arg(args, 2) && ln_jinja_arg(args, 2).kind != LN_JINJA_NONE)
        LN_TRY(ln_jinja_arg_int(run, args, 2, -1, &count));
    return ln_jinja_replace(run, text, old, new_text, count, out);
}

FILTER(filter_center) {
    ln_jinja_string *text;
    int64_t width;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_arg_int(run, args, 0, 80, &width));
    LN_TRY(ln_jinja_center(run, text, width, NULL, out));
    return keep_markup(text, out);
}

FILTER(filter_indent) {
    if (self.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, self);
    if (self.kind != LN_JINJA_STRING)
        return ln_jinja_raise(run, "TypeError",
                              "unsupported operand type(s) for +=: '%s' and 'str'",
                              ln_jinja_type_name(self));
    ln_jinja_value width = ln_jinja_arg(args, 0), lines;
    bool first = ln_jinja_arg_truthy(args, 1), blank = ln_jinja_arg_truthy(args, 2);
    ln_jinja_builder b;
    if (width.kind != LN_JINJA_STRING) {
        int64_t n;
        LN_TRY(ln_jinja_arg_int(run, args, 0, 4, &n));
        LN_TRY(ln_jinja_builder_init(run, &b));
        LN_TRY(ln_jinja_put_spaces(&b, n > 0 ? (size_t)n : 0));
        LN_TRY(ln_jinja_finish(&b, &width));
    }
    ln_jinja_value newline, text;
    LN_TRY(ln_jinja_string_c(run, "\n", &newline));
    LN_TRY(ln_jinja_string_concat(run, self.as.string, newline.as.string, &text));
    LN_TRY(ln_jinja_split_lines(run, text.as.string, false, &lines));
    LN_TRY(ln_jinja_builder_init(run, &b));
    for (size_t i = 0; i < lines.as.list->n_items; i++) {
        const ln_jinja_string *line = lines.as.list->items[i].as.string;
        if (i > 0)
            LN_TRY(ln_jinja_put_string(&b, newline.as.string));
        if (i == 0 ? first : blank || line->n_bytes > 0)
            LN_TRY(ln_jinja_put_string(&b, width.as.string));
        LN_TRY(ln_jinja_put_string(&b, line));
    }
    LN_TRY(ln_jinja_finish(&b, out));
    return keep_markup(self.as.string, out);
}

FILTER(filter_truncate) {
    ln_jinja_value dots;
    int64_t length, have, leeway = 5;
    LN_TRY(ln_jinja_length(run, self, &have));
    LN_TRY(ln_jinja_string_c(run, "...", &dots));
    LN_TRY(ln_jinja_arg_int(run, args, 0, 255, &length));
    LN_TRY(ln_jinja_arg_string(run, args, 2, &dots.as.string));
    if (ln_jinja_has_arg(args, 3) && ln_jinja_arg(args, 3).kind != LN_JINJA_NONE)
        LN_TRY(ln_jinja_arg_int(run, args, 3, 5, &leeway));
    int64_t n_dots = (int64_t)dots.as.string->n_chars;
    if (length < n_dots || leeway < 0)
        return ln_jinja_raise(run, "AssertionError", "expected length >= %" PRId64 ", got %" PRId64,
                              n_dots, length);
    *out = self;
    if (leeway > INT64_MAX - length || have <= length + leeway)
        return LINNET_OK;
    if (self.kind != LN_JINJA_STRING)
        return ln_jinja_raise(run, "TypeError", "truncate wants a str, not %s",
                              ln_jinja_type_name(self));
    const ln_jinja_string *text = self.as.string;
    size_t end = ln_jinja_string_offset(text, (size_t)(length - n_dots));
    if (!ln_jinja_arg_truthy(args, 1)) /* back to a space, if there is one */
        for (size_t at = end; at-- > 0;)
            if (ln_jinja_bytes(text)[at] == ' ') {
                end = at;
                break;
            }
    ln_jinja_builder b;
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_put_part(&b, text, 0, end));
    LN_TRY(ln_jinja_put_string(&b, dots.as.string));
    return ln_jinja_finish(&b, out);
}

FILTER(filter_wordcount) {
    (void)args;
    ln_jinja_string *text;
    int64_t count = 0;
    bool inside = false;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_spend(run, text->n_bytes / 2));
    for (size_t at = 0; at < text->n_bytes;) {
        size_t n = text->n_bytes - at;
        int32_t c = ln_jinja_decode(ln_jinja_bytes(text) + at, &n);
        utf8proc_category_t category = utf8proc_category(c);
        bool word = c == '_' ||
                    (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
                    (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
        count += word && !inside;
        inside = word;
        at += n;
    }
    *out = ln_jinja_int(count);
    return LINNET_OK;
}

FILTER(filter_format) {
    ln_jinja_string *text;
    ln_jinja_value values;
    LN_TRY(ln_jinja_str(run, self, &text));
    if (args->n_positional > 0 && args->n_named > 0)
        return ln_jinja_raise(run, "FilterArgumentError",
                              "can't handle positional and keyword arguments at the same time");
    if (args->n_named > 0) {
        LN_TRY(ln_jinja_dict_new(run, &values));
        for (size_t i = 0; i < args->n_named; i++) {
            const ln_jinja_string *name = args->named[i].name;
            ln_jinja_value key;
            LN_TRY(ln_jinja_string_part(run, name, 0, name->n_bytes, &key));
            LN_TRY(ln_jinja_dict_set(run, values.as.dict, key, args->named[i].value));
        }
    } else {
        LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, args->n_positional, &values));
        for (size_t i = 0; i < args->n_positional; i++)
            LN_TRY(ln_jinja_list_push(run, values, args->positional[i]));
    }
    return ln_jinja_percent(run, text, values, out);
}

FILTER(filter_pprint) {
    (void)args;
    ln_jinja_builder b;
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_put_repr(&b, self));
    return ln_jinja_finish(&b, out);
}

/* ---- web -------------------------------------------------------------------------------- */

static ln_status put_quoted(ln_jinja_builder *b, ln_jinja_value value, bool query) {
    ln_jinja_string *text;
    LN_TRY(ln_jinja_str(b->run, value, &text));
    for (size_t i = 0; i < text->n_bytes; i++) {
        char c = ln_jinja_bytes(text)[i], hex[8];
        bool kept = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    (c != '\0' && strchr("_.-~", c) != NULL) || (c == '/' && !query);
        if (kept)
            snprintf(hex, sizeof hex, "%c", c);
        else if (c == ' ' && query)
            snprintf(hex, sizeof hex, "+");
        else
            snprintf(hex, sizeof hex, "%%%02X", (unsigned)(unsigned char)c);
        LN_TRY(ln_jinja_puts(b, hex, false));
    }
    return LINNET_OK;
}

FILTER(filter_urlencode) {
    (void)args;
    ln_jinja_builder b;
    ln_jinja_value pairs, pair;
    LN_TRY(ln_jinja_builder_init(run, &b));
    if (self.kind == LN_JINJA_STRING || !ln_jinja_has_length(self)) {
        LN_TRY(put_quoted(&b, self, false));
        return ln_jinja_finish(&b, out);
    }
    if (self.kind == LN_JINJA_DICT) {
        ln_jinja_view view = {.dict = self.as.dict, .kind = LN_JINJA_VIEW_ITEMS};
        LN_TRY(ln_jinja_to_list(run, (ln_jinja_value){.kind = LN_JINJA_VIEW, .as.view = &view},
                                &pairs));
    } else {
        LN_TRY(ln_jinja_to_list(run, self, &pairs));
    }
    for (size_t i = 0; i < pairs.as.list->n_items; i++) {
        LN_TRY(ln_jinja_to_list(run, pairs.as.list->items[i], &pair));
        if (pair.as.list->n_items != 2)
            return ln_jinja_raise(run, "ValueError", "urlencode wants pairs");
        if (i > 0)
            LN_TRY(ln_jinja_puts(&b, "&", false));
        LN_TRY(put_quoted(&b, pair.as.list->items[0], true));
        LN_TRY(ln_jinja_puts(&b, "=", false));
        LN_TRY(put_quoted(&b, pair.as.list->items[1], true));
    }
    return ln_jinja_finish(&b, out);
}

FILTER(filter_xmlattr) {
    ln_jinja_builder b;
    if (self.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, self);
    if (self.kind != LN_JINJA_DICT)
        return ln_jinja_raise(run, "AttributeError", "'%s' object has no attribute 'items'",
                              ln_jinja_type_name(self));
    LN_TRY(ln_jinja_builder_init(run, &b));
    bool space = !ln_jinja_has_arg(args, 0) || ln_jinja_arg_truthy(args, 0), any = false;
    for (size_t i = 0; i < self.as.dict->n_pairs; i++) {
        ln_jinja_value key = self.as.dict->pairs[i].key, item = self.as.dict->pairs[i].item;
        if (item.kind == LN_JINJA_NONE || item.kind == LN_JINJA_UNDEFINED)
            continue;
        LN_TRY(ln_jinja_escape(run, key, &key));
        for (size_t k = 0; k < key.as.string->n_bytes; k++)
            if (strchr(" \t\n\r\f\v/>=", ln_jinja_bytes(key.as.string)[k]) != NULL)
                return ln_jinja_raise(run, "ValueError", "Invalid character in attribute name: %s",
                                      ln_jinja_quote(run, key));
        LN_TRY(ln_jinja_escape(run, item, &item));
        if (any || space)
            LN_TRY(ln_jinja_puts(&b, " ", false));
        LN_TRY(ln_jinja_put_string(&b, key.as.string));
        LN_TRY(ln_jinja_puts(&b, "=\"", false));
        LN_TRY(ln_jinja_put_string(&b, item.as.string));
        LN_TRY(ln_jinja_puts(&b, "\"", false));
        any = true;
    }
    return ln_jinja_finish(&b, out);
}

/* json.dumps's indent: a count of spaces or the text itself. */
static ln_status json_indent(ln_jinja_run *run, const ln_jinja_args *args,
                             ln_jinja_json_style *style) {
    ln_jinja_value indent = ln_jinja_arg(args, 1);
    if (indent.kind == LN_JINJA_MISSING || indent.kind == LN_JINJA_NONE)
        return LINNET_OK;
    if (indent.kind != LN_JINJA_STRING) {
        int64_t n;
        ln_jinja_builder b;
        LN_TRY(ln_jinja_arg_int(run, args, 1, 0, &n));
        LN_TRY(ln_jinja_builder_init(run, &b));
        LN_TRY(ln_jinja_put_spaces(&b, n > 0 ? (size_t)n : 0));
        LN_TRY(ln_jinja_finish(&b, &indent));
    }
    style->indent = indent.as.string;
    style->item_separator_bytes = 1;
    return LINNET_OK;
}

static ln_status json_separators(ln_jinja_run *run, ln_jinja_value separators,
                                 ln_jinja_json_style *style) {
    if (separators.kind == LN_JINJA_MISSING || separators.kind == LN_JINJA_NONE)
        return LINNET_OK;
    bool list = separators.kind == LN_JINJA_LIST || separators.kind == LN_JINJA_TUPLE;
    if (!list || separators.as.list->n_items != 2 ||
        separators.as.list->items[0].kind != LN_JINJA_STRING ||
        separators.as.list->items[1].kind != LN_JINJA_STRING)
        return ln_jinja_raise(run, "TypeError", "separators must be two strings");
    const ln_jinja_string *item = separators.as.list->items[0].as.string;
    const ln_jinja_string *key = separators.as.list->items[1].as.string;
    style->item_separator = ln_jinja_bytes(item);
    style->item_separator_bytes = item->n_bytes;
    style->key_separator = ln_jinja_bytes(key);
    style->key_separator_bytes = key->n_bytes;
    return LINNET_OK;
}

/* The tojson of Hugging Face: no HTML escaping, and json.dumps's own arguments. */
FILTER(filter_tojson) {
    ln_jinja_json_style style = {.ascii = ln_jinja_arg_truthy(args, 0),
                                 .sort_keys = ln_jinja_arg_truthy(args, 3),
                                 .item_separator = ", ",
                                 .item_separator_bytes = 2,
                                 .key_separator = ": ",
                                 .key_separator_bytes = 2};
    ln_jinja_builder b;
    LN_TRY(json_indent(run, args, &style));
    LN_TRY(json_separators(run, ln_jinja_arg(args, 2), &style));
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_put_json(&b, self, &style));
    return ln_jinja_finish(&b, out);
}

/* ---- anything --------------------------------------------------------------------------- */

FILTER(filter_default) {
    (void)run;
    bool replace =
        self.kind == LN_JINJA_UNDEFINED || (ln_jinja_arg_truthy(args, 1) && !ln_jinja_truthy(self));
    *out = self;
    if (!replace)
        return LINNET_OK;
    if (!ln_jinja_has_arg(args, 0))
        return ln_jinja_string_c(run, "", out);
    *out = ln_jinja_arg(args, 0);
    return LINNET_OK;
}

FILTER(filter_length) {
    (void)args;
    int64_t length;
    LN_TRY(ln_jinja_length(run, self, &length));
    *out = ln_jinja_int(length);
    return LINNET_OK;
}

FILTER(filter_attr) {
    ln_jinja_string *name;
    LN_TRY(ln_jinja_str(run, ln_jinja_arg(args, 0), &name));
    if (self.kind == LN_JINJA_DICT && ln_jinja_find_method(self, name) == NULL)
        return ln_jinja_undefined_name(run, self, ln_jinja_of_string(name), out);
    return ln_jinja_get_attribute(run, self, name, out);
}

FILTER(filter_refused) {
    (void)self, (void)args, (void)out;
    return ln_jinja_raise(run, "TemplateRuntimeError",
                          "this filter is not supported in chat templates");
}

static const ln_jinja_builtin filters[] = {
#include "text/jinja/filters.inc"
};

const ln_jinja_builtin *ln_jinja_find_filter(const ln_jinja_string *name) {
    const ln_jinja_builtin *found = ln_jinja_find(filters, sizeof filters / sizeof *filters, name);
    if (found == NULL)
        found = ln_jinja_find_number_filter(name);
    return found != NULL ? found : ln_jinja_find_list_filter(name);
}
