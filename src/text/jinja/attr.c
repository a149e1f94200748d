/* Attributes and subscripts as the immutable sandbox of Jinja resolves them: object.name prefers
 * Python's own attributes (methods), object["name"] the item; what would change a list or a
 * dict, and names with underscores, give an undefined value that says so. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/run.h"

/* ---- undefined values ------------------------------------------------------------------- */

ln_status ln_jinja_undefined_hint(ln_jinja_run *run, const char *hint, ln_jinja_value *out) {
    out->kind = LN_JINJA_UNDEFINED;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.undefined, &out->as.undefined));
    out->as.undefined->hint = hint;
    return LINNET_OK;
}

ln_status ln_jinja_undefined_name(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value name,
                                  ln_jinja_value *out) {
    LN_TRY(ln_jinja_undefined_hint(run, NULL, out));
    out->as.undefined->object = object;
    out->as.undefined->name = name;
    return LINNET_OK;
}

static ln_status undefined_unsafe(ln_jinja_run *run, ln_jinja_value object,
                                  const ln_jinja_string *name, ln_jinja_value *out) {
    union {
        const ln_jinja_string *in;
        ln_jinja_string *out;
    } shared = {.in = name};
    LN_TRY(ln_jinja_undefined_name(run, object, ln_jinja_of_string(shared.out), out));
    out->as.undefined->security = true;
    return LINNET_OK;
}

/* "dict object", as jinja2.utils.object_type_repr. */
static void describe_type(ln_jinja_value value, char *text, size_t n_bytes) {
    const char *module = "";
    switch (value.kind) {
    case LN_JINJA_NONE: snprintf(text, n_bytes, "None"); return;
    case LN_JINJA_NAMESPACE:
    case LN_JINJA_CYCLER:
    case LN_JINJA_JOINER: module = "jinja2.utils."; break;
    case LN_JINJA_LOOP:
    case LN_JINJA_MACRO: module = "jinja2.runtime."; break;
    case LN_JINJA_STRING: module = value.as.string->markup ? "markupsafe." : ""; break;
    case LN_JINJA_TUPLE: module = value.as.list->grouped ? "jinja2.filters." : ""; break;
    default: break;
    }
    snprintf(text, n_bytes, "%s%s object", module, ln_jinja_type_name(value));
}

ln_status ln_jinja_raise_undefined(ln_jinja_run *run, ln_jinja_value value) {
    const ln_jinja_undefined *undefined = value.as.undefined;
    char type[80];
    if (undefined->security)
        return ln_jinja_raise(
            run, "SecurityError", "access to attribute %s of '%s' object is unsafe.",
            ln_jinja_quote(run, undefined->name), ln_jinja_type_name(undefined->object));
    if (undefined->hint != NULL)
        return ln_jinja_raise(run, "UndefinedError", "%s", undefined->hint);
    const char *name = ln_jinja_quote(run, undefined->name);
    if (undefined->object.kind == LN_JINJA_MISSING)
        return ln_jinja_raise(run, "UndefinedError", "%s is undefined", name);
    describe_type(undefined->object, type, sizeof type);
    if (undefined->name.kind == LN_JINJA_STRING)
        return ln_jinja_raise(run, "UndefinedError", "'%s' has no attribute %s", type, name);
    return ln_jinja_raise(run, "UndefinedError", "%s has no element %s", type, name);
}

/* ---- attributes ------------------------------------------------------------------------- */

static bool is_mutator(ln_jinja_kind kind, const ln_jinja_string *name) {
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    static const char *const of_list[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};
    const char *const *names = kind == LN_JINJA_DICT ? of_dict : of_list;
    size_t n = kind == LN_JINJA_DICT   ? sizeof of_dict / sizeof *of_dict
               : kind == LN_JINJA_LIST ? sizeof of_list / sizeof *of_list
                                       : 0;
    for (size_t i = 0; i < n; i++)
        if (ln_jinja_string_is(name, names[i]))
            return true;
    return false;
}

static bool is_dunder(const ln_jinja_string *name) {
    const char *bytes = ln_jinja_bytes(name);
    return name->n_bytes > 4 && memcmp(bytes, "__", 2) == 0 &&
           memcmp(bytes + name->n_bytes - 2, "__", 2) == 0;
}

static ln_status macro_attribute(ln_jinja_run *run, const ln_jinja_macro *macro,
                                 const ln_jinja_string *name, ln_jinja_value *out, bool *found) {
    const ln_jinja_signature *signature = macro->signature;
    *found = true;
    if (ln_jinja_string_is(name, "name")) {
        *out = ln_jinja_none();
        if (macro->name != NULL)
            LN_TRY(ln_jinja_string_part(run, macro->name, 0, macro->name->n_bytes, out));
    } else if (ln_jinja_string_is(name, "caller")) {
        *out = ln_jinja_bool(signature->uses_caller);
    } else if (ln_jinja_string_is(name, "catch_kwargs")) {
        *out = ln_jinja_bool(signature->uses_kwargs);
    } else if (ln_jinja_string_is(name, "catch_varargs")) {
        *out = ln_jinja_bool(signature->uses_varargs);
    } else if (ln_jinja_string_is(name, "arguments")) {
        LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, signature->n_parameters, out));
        for (uint32_t i = 0; i < signature->n_parameters; i++)
            LN_TRY(ln_jinja_list_push(
                run, *out, ln_jinja_of_string(run->program->symbols[signature->parameters[i]])));
    } else {
        *found = false;
    }
    return LINNET_OK;
}

static bool number_attribute(ln_jinja_value object, const ln_jinja_string *name,
                             ln_jinja_value *out) {
    ln_jinja_value number = object.kind == LN_JINJA_BOOL ? ln_jinja_int(object.as.boolean) : object;
    bool real = number.kind == LN_JINJA_FLOAT;
    if (ln_jinja_string_is(name, "real") || (!real && ln_jinja_string_is(name, "numerator")))
        *out = number;
    else if (ln_jinja_string_is(name, "imag"))
        *out = real ? ln_jinja_float(0) : ln_jinja_int(0);
    else if (!real && ln_jinja_string_is(name, "denominator"))
        *out = ln_jinja_int(1);
    else
        return false;
    return true;
}

static bool range_attribute(const ln_jinja_range *range, const ln_jinja_string *name,
                            ln_jinja_value *out) {
    if (ln_jinja_string_is(name, "start"))
        *out = ln_jinja_int(range->start);
    else if (ln_jinja_string_is(name, "stop"))
        *out = ln_jinja_int(range->stop);
    else if (ln_jinja_string_is(name, "step"))
        *out = ln_jinja_int(range->step);
    else
        return false;
    return true;
}

/* Attributes that are not methods. */
static ln_status data_attribute(ln_jinja_run *run, ln_jinja_value object,
                                const ln_jinja_string *name, ln_jinja_value *out, bool *found) {
    const ln_jinja_value *value = NULL;
    *found = false;
    switch (object.kind) {
    case LN_JINJA_NAMESPACE:
        for (size_t i = 0; i < object.as.dict->n_pairs && value == NULL; i++)
            if (object.as.dict->pairs[i].key.kind == LN_JINJA_STRING &&
                ln_jinja_string_equal(object.as.dict->pairs[i].key.as.string, name))
                value = &object.as.dict->pairs[i].item;
        break;
    case LN_JINJA_LOOP: return ln_jinja_loop_attribute(run, object.as.loop, name, out, found);
    case LN_JINJA_MACRO: return macro_attribute(run, object.as.macro, name, out, found);
    case LN_JINJA_BOOL:
    case LN_JINJA_INT:
    case LN_JINJA_FLOAT: *found = number_attribute(object, name, out); break;
    case LN_JINJA_RANGE: *found = range_attribute(object.as.range, name, out); break;
    case LN_JINJA_TUPLE:
        if (object.as.list->grouped && ln_jinja_string_is(name, "grouper"))
            value = &object.as.list->items[0];
        else if (object.as.list->grouped && ln_jinja_string_is(name, "list"))
            value = &object.as.list->items[1];
        break;
    case LN_JINJA_CYCLER:
        if (ln_jinja_string_is(name, "current"))
            value = &object.as.cycler->items->items[object.as.cycler->position];
        break;
    default: break;
    }
    if (value != NULL) {
        *out = *value;
        *found = true;
    }
    return LINNET_OK;
}

/* Python's getattr with the checks of the sandbox; items do not count. */
static ln_status python_attribute(ln_jinja_run *run, ln_jinja_value object,
                                  const ln_jinja_string *name, ln_jinja_value *out, bool *found) {
    *found = true;
    if (is_dunder(name) || is_mutator(object.kind, name))
        return undefined_unsafe(run, object, name, out);
    LN_TRY(data_attribute(run, object, name, out, found));
    if (*found && ln_jinja_bytes(name)[0] == '_')
        return undefined_unsafe(run, object, name, out);
    if (*found)
        return LINNET_OK;
    const ln_jinja_builtin *builtin = ln_jinja_find_method(object, name);
    *found = builtin != NULL;
    if (builtin == NULL)
        return LINNET_OK;
    out->kind = LN_JINJA_METHOD;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.method, &out->as.method));
    *out->as.method = (ln_jinja_method){.self = object, .builtin = builtin};
    return LINNET_OK;
}

/* Python's object[index]; *found is false where it would raise. */
static ln_status python_item(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value index,
                             ln_jinja_value *out, bool *found) {
    *found = false;
    if (object.kind == LN_JINJA_DICT) {
        ln_jinja_value *value = NULL;
        if (index.kind != LN_JINJA_LIST && index.kind != LN_JINJA_DICT)
            LN_TRY(ln_jinja_dict_get(run, object.as.dict, index, &value));
        *found = value != NULL;
        if (*found)
            *out = *value;
        return LINNET_OK;
    }
    bool sequence = object.kind == LN_JINJA_STRING || object.kind == LN_JINJA_LIST ||
                    object.kind == LN_JINJA_TUPLE || object.kind == LN_JINJA_RANGE;
    if (!sequence || (index.kind != LN_JINJA_INT && index.kind != LN_JINJA_BOOL))
        return LINNET_OK;
    int64_t at = index.kind == LN_JINJA_BOOL ? index.as.boolean : index.as.integer, length;
    LN_TRY(ln_jinja_length(run, object, &length));
    at += at < 0 ? length : 0;
    *found = at >= 0 && at < length;
    if (!*found)
        return LINNET_OK;
    if (object.kind == LN_JINJA_LIST || object.kind == LN_JINJA_TUPLE) {
        *out = object.as.list->items[at];
        return LINNET_OK;
    }
    if (object.kind == LN_JINJA_RANGE) {
        *out = ln_jinja_int(object.as.range->start + at * object.as.range->step);
        return LINNET_OK;
    }
    ln_jinja_value bounds[3] = {ln_jinja_int(at), ln_jinja_int(at + 1), ln_jinja_none()};
    return ln_jinja_get_slice(run, object, bounds, out);
}

ln_status ln_jinja_get_attribute(ln_jinja_run *run, ln_jinja_value object, ln_jinja_string *name,
                                 ln_jinja_value *out) {
    bool found;
    if (object.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, object);
    LN_TRY(python_attribute(run, object, name, out, &found));
    if (!found)
        LN_TRY(python_item(run, object, ln_jinja_of_string(name), out, &found));
    return found ? LINNET_OK : ln_jinja_undefined_name(run, object, ln_jinja_of_string(name), out);
}

ln_status ln_jinja_get_item(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value index,
                            ln_jinja_value *out) {
    bool found;
    if (object.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, object);
    LN_TRY(python_item(run, object, index, out, &found));
    if (!found && index.kind == LN_JINJA_STRING)
        LN_TRY(python_attribute(run, object, index.as.string, out, &found));
    return found ? LINNET_OK : ln_jinja_undefined_name(run, object, index, out);
}

/* One step of a path: digits are an index. */
static ln_status path_step(ln_jinja_run *run, ln_jinja_value object, const ln_jinja_string *path,
                           size_t begin, size_t end, ln_jinja_value *out) {
    ln_jinja_value part;
    int64_t number;
    bool overflow, digits = end > begin;
    for (size_t i = begin; i < end; i++)
        digits = digits && ln_jinja_bytes(path)[i] >= '0' && ln_jinja_bytes(path)[i] <= '9';
    LN_TRY(ln_jinja_string_part(run, path, begin, end, &part));
    if (digits && ln_jinja_parse_int(part.as.string, 10, &number, &overflow) && !overflow)
        part = ln_jinja_int(number);
    return ln_jinja_get_item(run, object, part, out);
}

ln_status ln_jinja_get_path(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value path,
                            ln_jinja_value fallback, ln_jinja_value *out) {
    *out = object;
    if (path.kind == LN_JINJA_NONE || path.kind == LN_JINJA_MISSING)
        return LINNET_OK;
    bool replace = fallback.kind != LN_JINJA_MISSING && fallback.kind != LN_JINJA_NONE;
    if (path.kind != LN_JINJA_STRING) {
        LN_TRY(ln_jinja_get_item(run, object, path, out));
        if (replace && out->kind == LN_JINJA_UNDEFINED)
            *out = fallback;
        return LINNET_OK;
    }
    const ln_jinja_string *text = path.as.string;
    for (size_t begin = 0;;) {
        const char *bytes = ln_jinja_bytes(text);
        size_t end = begin;
        while (end < text->n_bytes && bytes[end] != '.')
            end++;
        LN_TRY(path_step(run, *out, text, begin, end, out));
        if (replace && out->kind == LN_JINJA_UNDEFINED)
            *out = fallback;
        if (end >= text->n_bytes)
            return LINNET_OK;
        begin = end + 1;
    }
}
