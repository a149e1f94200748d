/* Methods of strings. */
#include <string.h>
#include <utf8proc.h>

#include "text/jinja/run.h"

#define METHOD(name)                                                                               \
    static ln_status name(ln_jinja_run *run, ln_jinja_value self, ln_jinja_args *args,             \
                          ln_jinja_value *out)

/* ---- arguments -------------------------------------------------------------------------- */

ln_status ln_jinja_arg_int(ln_jinja_run *run, const ln_jinja_args *args, size_t index,
                           int64_t fallback, int64_t *out) {
    ln_jinja_value value = ln_jinja_arg(args, index);
    *out = fallback;
    if (value.kind == LN_JINJA_MISSING)
        return LINNET_OK;
    if (value.kind != LN_JINJA_INT && value.kind != LN_JINJA_BOOL)
        return ln_jinja_raise(run, "TypeError", "'%s' object cannot be interpreted as an integer",
                              ln_jinja_type_name(value));
    *out = value.kind == LN_JINJA_BOOL ? value.as.boolean : value.as.integer;
    return LINNET_OK;
}

ln_status ln_jinja_arg_string(ln_jinja_run *run, const ln_jinja_args *args, size_t index,
                              ln_jinja_string **out) {
    ln_jinja_value value = ln_jinja_arg(args, index);
    if (value.kind == LN_JINJA_MISSING)
        return LINNET_OK;
    if (value.kind != LN_JINJA_STRING)
        return ln_jinja_raise(run, "TypeError", "must be str, not %s", ln_jinja_type_name(value));
    *out = value.as.string;
    return LINNET_OK;
}

/* A str or None (or nothing): *out is NULL then. */
static ln_status optional_string(ln_jinja_run *run, const ln_jinja_args *args, const char *what,
                                 ln_jinja_string **out) {
    ln_jinja_value value = ln_jinja_arg(args, 0);
    *out = NULL;
    if (value.kind == LN_JINJA_MISSING || value.kind == LN_JINJA_NONE)
        return LINNET_OK;
    if (value.kind != LN_JINJA_STRING)
        return ln_jinja_raise(run, "TypeError", what, ln_jinja_type_name(value));
    *out = value.as.string;
    return LINNET_OK;
}

/* start and end (arguments 1 and 2) of find, count, startswith as bytes; false: an empty range
 * past the end, where nothing is found. */
static ln_status byte_range(ln_jinja_run *run, const ln_jinja_string *string,
                            const ln_jinja_args *args, size_t *begin, size_t *end, bool *valid) {
    int64_t bounds[2] = {0, (int64_t)string->n_chars}, length = (int64_t)string->n_chars;
    for (size_t i = 0; i < 2; i++)
        if (ln_jinja_has_arg(args, i + 1) && ln_jinja_arg(args, i + 1).kind != LN_JINJA_NONE)
            LN_TRY(ln_jinja_arg_int(run, args, i + 1, 0, &bounds[i]));
    for (size_t i = 0; i < 2; i++)
        if (bounds[i] < 0)
            bounds[i] = bounds[i] < -length ? 0 : bounds[i] + length;
    bounds[1] = bounds[1] > length ? length : bounds[1];
    *valid = bounds[0] <= bounds[1];
    LN_TRY(ln_jinja_spend_bytes(run, string->n_bytes));
    *begin = *valid ? ln_jinja_string_offset(string, (size_t)bounds[0]) : 0;
    *end = *valid ? ln_jinja_string_offset(string, (size_t)bounds[1]) : 0;
    return LINNET_OK;
}

/* ---- strip, case, padding --------------------------------------------------------------- */

static ln_status strip_sides(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                             bool left, bool right, ln_jinja_value *out) {
    ln_jinja_string *chars;
    LN_TRY(optional_string(run, args, "strip arg must be None or str", &chars));
    return ln_jinja_strip(run, self.as.string, chars, left, right, out);
}

METHOD(str_strip) {
    return strip_sides(run, self, args, true, true, out);
}
METHOD(str_lstrip) {
    return strip_sides(run, self, args, true, false, out);
}
METHOD(str_rstrip) {
    return strip_sides(run, self, args, false, true, out);
}

METHOD(str_upper) {
    (void)args;
    return ln_jinja_change_case(run, self.as.string, LN_JINJA_CASE_UPPER, out);
}
METHOD(str_lower) {
    (void)args;
    return ln_jinja_change_case(run, self.as.string, LN_JINJA_CASE_LOWER, out);
}
METHOD(str_title) {
    (void)args;
    return ln_jinja_change_case(run, self.as.string, LN_JINJA_CASE_TITLE, out);
}
METHOD(str_capitalize) {
    (void)args;
    return ln_jinja_change_case(run, self.as.string, LN_JINJA_CASE_CAPITAL, out);
}
METHOD(str_swapcase) {
    (void)args;
    return ln_jinja_change_case(run, self.as.string, LN_JINJA_CASE_SWAP, out);
}

static ln_status justify(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                         bool left, ln_jinja_value *out) {
    int64_t width;
    ln_jinja_string *fill = NULL;
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &width));
    LN_TRY(ln_jinja_arg_string(run, args, 1, &fill));
    int64_t pad = width - (int64_t)self.as.string->n_chars;
    if (width < 0)
        pad = 0;
    return ln_jinja_pad(run, self.as.string, left ? pad : 0, left ? 0 : pad, fill, out);
}

METHOD(str_ljust) {
    return justify(run, self, args, false, out);
}
METHOD(str_rjust) {
    return justify(run, self, args, true, out);
}

METHOD(str_center) {
    int64_t width;
    ln_jinja_string *fill = NULL;
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &width));
    LN_TRY(ln_jinja_arg_string(run, args, 1, &fill));
    return ln_jinja_center(run, self.as.string, width, fill, out);
}

METHOD(str_zfill) {
    const ln_jinja_string *string = self.as.string;
    int64_t width;
    ln_jinja_builder b;
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &width));
    char first = string->n_bytes > 0 ? ln_jinja_bytes(string)[0] : '\0';
    size_t sign = first == '-' || first == '+';
    LN_TRY(ln_jinja_builder_init(run, &b));
    LN_TRY(ln_jinja_put_part(&b, string, 0, sign));
    for (int64_t i = (int64_t)string->n_chars; i < width; i++)
        LN_TRY(ln_jinja_put(&b, "0", 1, true));
    LN_TRY(ln_jinja_put_part(&b, string, sign, string->n_bytes));
    return ln_jinja_finish(&b, out);
}

/* ---- split, join, replace --------------------------------------------------------------- */

static ln_status push_part(ln_jinja_run *run, ln_jinja_value list, const ln_jinja_string *string,
                           size_t begin, size_t end) {
    ln_jinja_value part;
    LN_TRY(ln_jinja_string_part(run, string, begin, end, &part));
    return ln_jinja_list_push(run, list, part);
}

/* Reverses the items in place (a list that nobody has seen). */
static void reverse_list(const ln_jinja_list *list) {
    for (size_t i = 0; i + 1 < list->n_items - i; i++) {
        ln_jinja_value item = list->items[i];
        list->items[i] = list->items[list->n_items - 1 - i];
        list->items[list->n_items - 1 - i] = item;
    }
}

static ln_status split_spaces(ln_jinja_run *run, const ln_jinja_string *string, int64_t most,
                              ln_jinja_value list) {
    const char *bytes = ln_jinja_bytes(string);
    size_t at = 0, n = string->n_bytes;
    for (;;) {
        size_t width = n - at;
        while (at < n && ln_jinja_is_space(ln_jinja_decode(bytes + at, &width))) {
            at += width;
            width = n - at;
        }
        if (at >= n)
            return LINNET_OK;
        size_t end = at;
        width = n - end;
        while (end < n && !ln_jinja_is_space(ln_jinja_decode(bytes + end, &width))) {
            end += width;
            width = n - end;
        }
        if (most == 0) /* the rest, as it is */
            return push_part(run, list, string, at, n);
        LN_TRY(push_part(run, list, string, at, end));
        most -= most > 0;
        at = end;
    }
}

/* The byte where the code point before `end` begins. */
static size_t step_back(const char *bytes, size_t end) {
    end--;
    while (end > 0 && ((unsigned char)bytes[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static bool space_before(const char *bytes, size_t end) {
    size_t at = step_back(bytes, end), width = end - at;
    return ln_jinja_is_space(ln_jinja_decode(bytes + at, &width));
}

static ln_status rsplit_spaces(ln_jinja_run *run, const ln_jinja_string *string, int64_t most,
                               ln_jinja_value list) {
    const char *bytes = ln_jinja_bytes(string);
    size_t end = string->n_bytes;
    for (;;) {
        while (end > 0 && space_before(bytes, end))
            end = step_back(bytes, end);
        if (end == 0)
            break;
        size_t begin = most == 0 ? 0 : end;
        while (begin > 0 && !space_before(bytes, begin))
            begin = step_back(bytes, begin);
        LN_TRY(push_part(run, list, string, begin, end));
        if (most == 0)
            break;
        most -= most > 0;
        end = begin;
    }
    reverse_list(list.as.list);
    return LINNET_OK;
}

static ln_status split_by(ln_jinja_run *run, const ln_jinja_string *string,
                          const ln_jinja_string *separator, int64_t most, bool from_right,
                          ln_jinja_value list) {
    size_t begin = 0, end = string->n_bytes;
    for (; most != 0; most -= most > 0) {
        size_t found;
        if (from_right)
            LN_TRY(ln_jinja_string_rfind(run, string, separator, end, &found));
        else
            found = ln_jinja_string_find(string, separator, begin);
        if (found == SIZE_MAX)
            break;
        if (from_right) {
            LN_TRY(push_part(run, list, string, found + separator->n_bytes, end));
            end = found;
        } else {
            LN_TRY(push_part(run, list, string, begin, found));
            begin = found + separator->n_bytes;
        }
    }
    LN_TRY(push_part(run, list, string, begin, end));
    if (from_right)
        reverse_list(list.as.list);
    return LINNET_OK;
}

static ln_status split(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                       bool from_right, ln_jinja_value *out) {
    ln_jinja_string *separator;
    int64_t most;
    LN_TRY(optional_string(run, args, "must be str or None, not %s", &separator));
    LN_TRY(ln_jinja_arg_int(run, args, 1, -1, &most));
    LN_TRY(ln_jinja_spend_bytes(run, self.as.string->n_bytes));
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 0, out));
    if (separator != NULL && separator->n_bytes == 0)
        return ln_jinja_raise(run, "ValueError", "empty separator");
    if (separator != NULL)
        return split_by(run, self.as.string, separator, most, from_right, *out);
    return from_right ? rsplit_spaces(run, self.as.string, most, *out)
                      : split_spaces(run, self.as.string, most, *out);
}

METHOD(str_split) {
    return split(run, self, args, false, out);
}
METHOD(str_rsplit) {
    return split(run, self, args, true, out);
}

METHOD(str_splitlines) {
    return ln_jinja_split_lines(run, self.as.string, ln_jinja_arg_truthy(args, 0), out);
}

static ln_status partition(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                           bool from_right, ln_jinja_value *out) {
    const ln_jinja_string *string = self.as.string;
    ln_jinja_string *separator = NULL;
    LN_TRY(ln_jinja_arg_string(run, args, 0, &separator));
    if (separator->n_bytes == 0)
        return ln_jinja_raise(run, "ValueError", "empty separator");
    LN_TRY(ln_jinja_spend_bytes(run, string->n_bytes));
    size_t found = ln_jinja_string_find(string, separator, 0);
    if (from_right)
        LN_TRY(ln_jinja_string_rfind(run, string, separator, string->n_bytes, &found));
    size_t begin = found, end = found + separator->n_bytes;
    if (found == SIZE_MAX)
        begin = end = from_right ? 0 : string->n_bytes;
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, 3, out));
    LN_TRY(push_part(run, *out, string, 0, begin));
    LN_TRY(push_part(run, *out, string, begin, end));
    return push_part(run, *out, string, end, string->n_bytes);
}

METHOD(str_partition) {
    return partition(run, self, args, false, out);
}
METHOD(str_rpartition) {
    return partition(run, self, args, true, out);
}

METHOD(str_join) {
    return ln_jinja_join(run, self.as.string, ln_jinja_arg(args, 0), false, out);
}

METHOD(str_replace) {
    ln_jinja_string *old = NULL, *new_text = NULL;
    int64_t count;
    LN_TRY(ln_jinja_arg_string(run, args, 0, &old));
    LN_TRY(ln_jinja_arg_string(run, args, 1, &new_text));
    LN_TRY(ln_jinja_arg_int(run, args, 2, -1, &count));
    if (self.as.string->markup) {
        ln_jinja_value escaped;
        LN_TRY(ln_jinja_escape(run, ln_jinja_of_string(new_text), &escaped));
        new_text = escaped.as.string;
    }
    return ln_jinja_replace(run, self.as.string, old, new_text, count, out);
}

/* ---- searching -------------------------------------------------------------------------- */

static ln_status find(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                      bool from_right, int64_t *index) {
    const ln_jinja_string *string = self.as.string;
    ln_jinja_string *needle = NULL;
    size_t begin, end;
    bool valid;
    LN_TRY(ln_jinja_arg_string(run, args, 0, &needle));
    LN_TRY(byte_range(run, string, args, &begin, &end, &valid));
    *index = -1;
    if (!valid || needle->n_bytes > end - begin)
        return LINNET_OK;
    size_t found = ln_jinja_string_find(string, needle, begin);
    if (from_right)
        LN_TRY(ln_jinja_string_rfind(run, string, needle, end, &found));
    if (found != SIZE_MAX && found >= begin && found + needle->n_bytes <= end)
        *index = (int64_t)ln_jinja_count_chars(ln_jinja_bytes(string), found);
    return LINNET_OK;
}

static ln_status find_or_raise(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                               bool from_right, bool raises, ln_jinja_value *out) {
    int64_t index;
    LN_TRY(find(run, self, args, from_right, &index));
    if (raises && index < 0)
        return ln_jinja_raise(run, "ValueError", "substring not found");
    *out = ln_jinja_int(index);
    return LINNET_OK;
}

METHOD(str_find) {
    return find_or_raise(run, self, args, false, false, out);
}
METHOD(str_rfind) {
    return find_or_raise(run, self, args, true, false, out);
}
METHOD(str_index) {
    return find_or_raise(run, self, args, false, true, out);
}
METHOD(str_rindex) {
    return find_or_raise(run, self, args, true, true, out);
}

METHOD(str_count) {
    const ln_jinja_string *string = self.as.string;
    ln_jinja_string *needle = NULL;
    size_t begin, end;
    bool valid;
    int64_t count = 0;
    LN_TRY(ln_jinja_arg_string(run, args, 0, &needle));
    LN_TRY(byte_range(run, string, args, &begin, &end, &valid));
    if (valid && needle->n_bytes == 0)
        count = (int64_t)ln_jinja_count_chars(ln_jinja_bytes(string) + begin, end - begin) + 1;
    while (valid && needle->n_bytes > 0) {
        begin = ln_jinja_string_find(string, needle, begin);
        if (begin == SIZE_MAX || begin + needle->n_bytes > end)
            break;
        begin += needle->n_bytes;
        count++;
        LN_TRY(ln_jinja_spend(run, 1));
    }
    *out = ln_jinja_int(count);
    return LINNET_OK;
}

static bool has_affix(const ln_jinja_string *string, const ln_jinja_string *affix, size_t begin,
                      size_t end, bool at_end) {
    if (affix->n_bytes > end - begin)
        return false;
    size_t at = at_end ? end - affix->n_bytes : begin;
    return affix->n_bytes == 0 ||
           memcmp(ln_jinja_bytes(string) + at, ln_jinja_bytes(affix), affix->n_bytes) == 0;
}

static ln_status test_affix(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                            bool at_end, ln_jinja_value *out) {
    ln_jinja_value affix = ln_jinja_arg(args, 0);
    const char *name = at_end ? "endswith" : "startswith";
    size_t begin, end;
    bool valid, holds = false;
    if (affix.kind != LN_JINJA_STRING && affix.kind != LN_JINJA_TUPLE)
        return ln_jinja_raise(run, "TypeError",
                              "%s first arg must be str or a tuple of str, not %s", name,
                              ln_jinja_type_name(affix));
    LN_TRY(byte_range(run, self.as.string, args, &begin, &end, &valid));
    if (affix.kind == LN_JINJA_STRING)
        holds = valid && has_affix(self.as.string, affix.as.string, begin, end, at_end);
    for (size_t i = 0; affix.kind == LN_JINJA_TUPLE && !holds && i < affix.as.list->n_items; i++) {
        ln_jinja_value item = affix.as.list->items[i];
        if (item.kind != LN_JINJA_STRING)
            return ln_jinja_raise(run, "TypeError", "tuple for %s must only contain str, not %s",
                                  name, ln_jinja_type_name(item));
        holds = valid && has_affix(self.as.string, item.as.string, begin, end, at_end);
    }
    *out = ln_jinja_bool(holds);
    return LINNET_OK;
}

METHOD(str_startswith) {
    return test_affix(run, self, args, false, out);
}
METHOD(str_endswith) {
    return test_affix(run, self, args, true, out);
}

static ln_status remove_affix(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                              bool at_end, ln_jinja_value *out) {
    const ln_jinja_string *string = self.as.string;
    ln_jinja_string *affix = NULL;
    LN_TRY(ln_jinja_arg_string(run, args, 0, &affix));
    size_t begin = 0, end = string->n_bytes;
    if (has_affix(string, affix, 0, end, at_end)) {
        begin = at_end ? 0 : affix->n_bytes;
        end = at_end ? end - affix->n_bytes : end;
    }
    return ln_jinja_string_part(run, string, begin, end, out);
}

METHOD(str_removeprefix) {
    return remove_affix(run, self, args, false, out);
}
METHOD(str_removesuffix) {
    return remove_affix(run, self, args, true, out);
}

/* ---- classes of characters -------------------------------------------------------------- */

static bool is_alpha(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
static bool is_decimal(int32_t c) {
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}
static bool is_digit(int32_t c) {
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}
static bool is_numeric(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_NO;
}
static bool is_alnum(int32_t c) {
    return is_alpha(c) || is_numeric(c);
}

static ln_status all_chars(ln_jinja_run *run, ln_jinja_value self, bool (*holds)(int32_t c),
                           ln_jinja_value *out) {
    const ln_jinja_string *string = self.as.string;
    bool all = string->n_bytes > 0;
    LN_TRY(ln_jinja_spend(run, string->n_bytes / 2));
    for (size_t at = 0; all && at < string->n_bytes;) {
        size_t n = string->n_bytes - at;
        all = holds(ln_jinja_decode(ln_jinja_bytes(string) + at, &n));
        at += n;
    }
    *out = ln_jinja_bool(all);
    return LINNET_OK;
}

#define CLASS_METHOD(name, function)                                                               \
    METHOD(name) {                                                                                 \
        (void)args;                                                                                \
        return all_chars(run, self, function, out);                                                \
    }
CLASS_METHOD(str_isalpha, is_alpha)
CLASS_METHOD(str_isdigit, is_digit)
CLASS_METHOD(str_isdecimal, is_decimal)
CLASS_METHOD(str_isnumeric, is_numeric)
CLASS_METHOD(str_isalnum, is_alnum)
CLASS_METHOD(str_isspace, ln_jinja_is_space)

METHOD(str_isascii) {
    (void)args, (void)run;
    *out = ln_jinja_bool(self.as.string->n_chars == self.as.string->n_bytes);
    return LINNET_OK;
}
METHOD(str_isupper) {
    (void)args;
    LN_TRY(ln_jinja_spend(run, self.as.string->n_bytes / 2));
    *out = ln_jinja_bool(ln_jinja_is_case(self.as.string, true));
    return LINNET_OK;
}
METHOD(str_islower) {
    (void)args;
    LN_TRY(ln_jinja_spend(run, self.as.string->n_bytes / 2));
    *out = ln_jinja_bool(ln_jinja_is_case(self.as.string, false));
    return LINNET_OK;
}

/* ---- formatting ------------------------------------------------------------------------- */

METHOD(str_format) {
    return ln_jinja_brace_format(run, self.as.string, args, out);
}

METHOD(str_format_map) {
    ln_jinja_value map = ln_jinja_arg(args, 0);
    ln_jinja_args named = {0};
    if (map.kind != LN_JINJA_DICT)
        return ln_jinja_raise(run, "TypeError", "format_map() wants a dict, not %s",
                              ln_jinja_type_name(map));
    LN_TRY(ln_jinja_alloc(run, map.as.dict->n_pairs, sizeof *named.named, &named.named));
    for (size_t i = 0; i < map.as.dict->n_pairs; i++) {
        const ln_jinja_pair *pair = &map.as.dict->pairs[i];
        if (pair->key.kind == LN_JINJA_STRING)
            named.named[named.n_named++] =
                (ln_jinja_named){.name = pair->key.as.string, .value = pair->item};
    }
    return ln_jinja_brace_format(run, self.as.string, &named, out);
}

METHOD(str_encode) {
    (void)self, (void)args, (void)out;
    return ln_jinja_raise(run, "TypeError", "bytes are not supported in chat templates");
}

static const ln_jinja_builtin methods[] = {
#include "text/jinja/methods.inc"
};

const ln_jinja_builtin *ln_jinja_find_string_method(const ln_jinja_string *name) {
    return ln_jinja_find(methods, sizeof methods / sizeof *methods, name);
}
