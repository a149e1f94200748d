/* What values of every kind have: a type, a length, truth, equality and order. */
#include <math.h>
#include <string.h>

#include "text/jinja/run.h"

const char *ln_jinja_type_name(ln_jinja_value value) {
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    switch (value.kind) {
    case LN_JINJA_MISSING: return "missing";
    case LN_JINJA_UNDEFINED: return "Undefined";
    case LN_JINJA_NONE: return "NoneType";
    case LN_JINJA_BOOL: return "bool";
    case LN_JINJA_INT: return "int";
    case LN_JINJA_FLOAT: return "float";
    case LN_JINJA_STRING: return value.as.string->markup ? "Markup" : "str";
    case LN_JINJA_LIST: return "list";
    case LN_JINJA_TUPLE: return value.as.list->grouped ? "_GroupTuple" : "tuple";
    case LN_JINJA_DICT: return "dict";
    case LN_JINJA_VIEW: return views[value.as.view->kind];
    case LN_JINJA_RANGE: return "range";
    case LN_JINJA_GENERATOR: return value.as.generator->type_name;
    case LN_JINJA_NAMESPACE: return "Namespace";
    case LN_JINJA_LOOP: return "LoopContext";
    case LN_JINJA_MACRO: return "Macro";
    case LN_JINJA_FUNCTION: return "function";
    case LN_JINJA_METHOD: return "builtin_function_or_method";
    case LN_JINJA_CYCLER: return "Cycler";
    case LN_JINJA_JOINER: return "Joiner";
    }
    return "object";
}

bool ln_jinja_has_length(ln_jinja_value value) {
    switch (value.kind) {
    case LN_JINJA_UNDEFINED:
    case LN_JINJA_STRING:
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE:
    case LN_JINJA_DICT:
    case LN_JINJA_VIEW:
    case LN_JINJA_RANGE:
    case LN_JINJA_LOOP: return true;
    default: return false;
    }
}

bool ln_jinja_is_iterable(ln_jinja_value value) {
    return value.kind == LN_JINJA_GENERATOR || ln_jinja_has_length(value);
}

/* The length of a kind that has one without running anything. */
static size_t plain_length(ln_jinja_value value) {
    switch (value.kind) {
    case LN_JINJA_STRING: return value.as.string->n_chars;
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE: return value.as.list->n_items;
    case LN_JINJA_DICT: return value.as.dict->n_pairs;
    case LN_JINJA_VIEW: return value.as.view->dict->n_pairs;
    case LN_JINJA_RANGE: return value.as.range->length;
    default: return 0;
    }
}

ln_status ln_jinja_length(ln_jinja_run *run, ln_jinja_value value, int64_t *length) {
    if (!ln_jinja_has_length(value))
        return ln_jinja_raise(run, "TypeError", "object of type '%s' has no len()",
                              ln_jinja_type_name(value));
    *length = (int64_t)plain_length(value);
    if (value.kind != LN_JINJA_LOOP)
        return LINNET_OK;
    ln_jinja_value attribute;
    bool found;
    ln_jinja_value name;
    LN_TRY(ln_jinja_string_c(run, "length", &name));
    LN_TRY(ln_jinja_loop_attribute(run, value.as.loop, name.as.string, &attribute, &found));
    *length = attribute.as.integer;
    return LINNET_OK;
}

bool ln_jinja_truthy(ln_jinja_value value) {
    switch (value.kind) {
    case LN_JINJA_MISSING:
    case LN_JINJA_UNDEFINED:
    case LN_JINJA_NONE: return false;
    case LN_JINJA_BOOL: return value.as.boolean;
    case LN_JINJA_INT: return value.as.integer != 0;
    case LN_JINJA_FLOAT: return value.as.real != 0;
    case LN_JINJA_STRING:
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE:
    case LN_JINJA_DICT:
    case LN_JINJA_VIEW:
    case LN_JINJA_RANGE: return plain_length(value) > 0;
    default: return true;
    }
}

bool ln_jinja_same(ln_jinja_value a, ln_jinja_value b) {
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case LN_JINJA_MISSING:
    case LN_JINJA_NONE: return true;
    case LN_JINJA_BOOL: return a.as.boolean == b.as.boolean;
    case LN_JINJA_INT: return a.as.integer == b.as.integer;
    case LN_JINJA_FLOAT: return false;
    case LN_JINJA_STRING: /* CPython shares the empty string and single characters */
        return a.as.string == b.as.string ||
               (a.as.string->n_bytes <= 1 && ln_jinja_string_equal(a.as.string, b.as.string));
    case LN_JINJA_TUPLE:
        return a.as.list == b.as.list || (a.as.list->n_items == 0 && b.as.list->n_items == 0);
    default: return a.as.object == b.as.object;
    }
}

/* ---- equality and order ----------------------------------------------------------------- */

static bool is_number(ln_jinja_value value) {
    return value.kind == LN_JINJA_BOOL || value.kind == LN_JINJA_INT ||
           value.kind == LN_JINJA_FLOAT;
}

static int64_t as_int(ln_jinja_value value) {
    return value.kind == LN_JINJA_BOOL ? value.as.boolean : value.as.integer;
}

/* -1, 0, 1, or 2 where a NaN is in it. An int and a float compare exactly. */
static int order_numbers(ln_jinja_value a, ln_jinja_value b) {
    if (a.kind != LN_JINJA_FLOAT && b.kind != LN_JINJA_FLOAT)
        return (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
    if (a.kind == LN_JINJA_FLOAT && b.kind == LN_JINJA_FLOAT) {
        if (isnan(a.as.real) || isnan(b.as.real))
            return 2;
        return (a.as.real > b.as.real) - (a.as.real < b.as.real);
    }
    bool swap = a.kind == LN_JINJA_FLOAT;
    double real = swap ? a.as.real : b.as.real;
    int64_t integer = as_int(swap ? b : a);
    if (isnan(real))
        return 2;
    int order;
    if (real >= 0x1p63 || real < -0x1p63) {
        order = real > 0 ? -1 : 1;
    } else {
        int64_t whole = (int64_t)real;
        double rest = real - (double)whole;
        order = (integer > whole) - (integer < whole);
        if (order == 0)
            order = (rest < 0) - (rest > 0);
    }
    return swap ? -order : order;
}

static ln_status equal_lists(ln_jinja_run *run, const ln_jinja_list *a, const ln_jinja_list *b,
                             bool *equal) {
    *equal = a->n_items == b->n_items;
    for (size_t i = 0; *equal && i < a->n_items; i++)
        LN_TRY(ln_jinja_equal(run, a->items[i], b->items[i], equal));
    return LINNET_OK;
}

static ln_status equal_dicts(ln_jinja_run *run, const ln_jinja_dict *a, const ln_jinja_dict *b,
                             bool *equal) {
    *equal = a->n_pairs == b->n_pairs;
    for (size_t i = 0; *equal && i < a->n_pairs; i++) {
        ln_jinja_value *other;
        LN_TRY(ln_jinja_dict_get(run, b, a->pairs[i].key, &other));
        *equal = other != NULL;
        if (*equal)
            LN_TRY(ln_jinja_equal(run, a->pairs[i].item, *other, equal));
    }
    return LINNET_OK;
}

/* Keys and items compare as sets, values by identity. */
static ln_status equal_views(ln_jinja_run *run, const ln_jinja_view *a, const ln_jinja_view *b,
                             bool *equal) {
    *equal = a == b;
    if (a->kind != b->kind || a->kind == LN_JINJA_VIEW_VALUES)
        return LINNET_OK;
    LN_TRY(ln_jinja_enter(run));
    *equal = a->dict->n_pairs == b->dict->n_pairs;
    for (size_t i = 0; *equal && i < a->dict->n_pairs; i++) {
        ln_jinja_value *other;
        LN_TRY(ln_jinja_dict_get(run, b->dict, a->dict->pairs[i].key, &other));
        *equal = other != NULL;
        if (*equal && a->kind == LN_JINJA_VIEW_ITEMS)
            LN_TRY(ln_jinja_equal(run, a->dict->pairs[i].item, *other, equal));
    }
    ln_jinja_leave(run);
    return LINNET_OK;
}

ln_status ln_jinja_equal(ln_jinja_run *run, ln_jinja_value a, ln_jinja_value b, bool *equal) {
    if (is_number(a) && is_number(b)) {
        *equal = order_numbers(a, b) == 0;
        return LINNET_OK;
    }
    *equal = false;
    if (a.kind != b.kind)
        return LINNET_OK;
    switch (a.kind) {
    case LN_JINJA_UNDEFINED:
    case LN_JINJA_NONE: *equal = true; return LINNET_OK;
    case LN_JINJA_STRING:
        *equal = ln_jinja_string_equal(a.as.string, b.as.string);
        return ln_jinja_spend(run, *equal ? a.as.string->n_bytes / 64 : 0);
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE:
    case LN_JINJA_DICT:
        LN_TRY(ln_jinja_enter(run));
        if (a.kind == LN_JINJA_DICT)
            LN_TRY(equal_dicts(run, a.as.dict, b.as.dict, equal));
        else
            LN_TRY(equal_lists(run, a.as.list, b.as.list, equal));
        ln_jinja_leave(run);
        return LINNET_OK;
    case LN_JINJA_RANGE:
        *equal = a.as.range->length == b.as.range->length &&
                 (a.as.range->length == 0 ||
                  (a.as.range->start == b.as.range->start &&
                   (a.as.range->length == 1 || a.as.range->step == b.as.range->step)));
        return LINNET_OK;
    case LN_JINJA_VIEW: return equal_views(run, a.as.view, b.as.view, equal);
    default: *equal = a.as.object == b.as.object; return LINNET_OK;
    }
}

static bool order_holds(ln_jinja_order order, int sign) {
    if (sign == 2)
        return false;
    switch (order) {
    case LN_JINJA_LT: return sign < 0;
    case LN_JINJA_LE: return sign <= 0;
    case LN_JINJA_GT: return sign > 0;
    default: return sign >= 0;
    }
}

static ln_status compare_lists(ln_jinja_run *run, ln_jinja_order order, const ln_jinja_list *a,
                               const ln_jinja_list *b, bool *holds) {
    size_t n = a->n_items < b->n_items ? a->n_items : b->n_items;
    for (size_t i = 0; i < n; i++) {
        bool equal;
        LN_TRY(ln_jinja_equal(run, a->items[i], b->items[i], &equal));
        if (!equal)
            return ln_jinja_compare(run, order, a->items[i], b->items[i], holds);
    }
    *holds = order_holds(order, (a->n_items > b->n_items) - (a->n_items < b->n_items));
    return LINNET_OK;
}

ln_status ln_jinja_compare(ln_jinja_run *run, ln_jinja_order order, ln_jinja_value a,
                           ln_jinja_value b, bool *holds) {
    static const char *const signs[] = {"<", "<=", ">", ">="};
    LN_TRY(ln_jinja_spend(run, 1));
    if (is_number(a) && is_number(b)) {
        *holds = order_holds(order, order_numbers(a, b));
        return LINNET_OK;
    }
    if (a.kind == LN_JINJA_UNDEFINED || b.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, a.kind == LN_JINJA_UNDEFINED ? a : b);
    if (a.kind == LN_JINJA_STRING && b.kind == LN_JINJA_STRING) {
        LN_TRY(ln_jinja_spend(run, a.as.string->n_bytes / 64));
        *holds = order_holds(order, ln_jinja_string_order(a.as.string, b.as.string));
        return LINNET_OK;
    }
    if (a.kind == b.kind && (a.kind == LN_JINJA_LIST || a.kind == LN_JINJA_TUPLE)) {
        LN_TRY(ln_jinja_enter(run));
        LN_TRY(compare_lists(run, order, a.as.list, b.as.list, holds));
        ln_jinja_leave(run);
        return LINNET_OK;
    }
    return ln_jinja_raise(run, "TypeError", "'%s' not supported between instances of '%s' and '%s'",
                          signs[order], ln_jinja_type_name(a), ln_jinja_type_name(b));
}

ln_status ln_jinja_contains(ln_jinja_run *run, ln_jinja_value container, ln_jinja_value item,
                            bool *found) {
    *found = false;
    if (container.kind == LN_JINJA_STRING) {
        if (item.kind != LN_JINJA_STRING)
            return ln_jinja_raise(run, "TypeError",
                                  "'in <string>' requires string as left operand, not %s",
                                  ln_jinja_type_name(item));
        LN_TRY(ln_jinja_spend_bytes(run, container.as.string->n_bytes));
        *found = ln_jinja_string_find(container.as.string, item.as.string, 0) != SIZE_MAX;
        return LINNET_OK;
    }
    if (container.kind == LN_JINJA_DICT ||
        (container.kind == LN_JINJA_VIEW && container.as.view->kind == LN_JINJA_VIEW_KEYS)) {
        ln_jinja_value *value;
        const ln_jinja_dict *dict =
            container.kind == LN_JINJA_DICT ? container.as.dict : container.as.view->dict;
        LN_TRY(ln_jinja_dict_get(run, dict, item, &value));
        *found = value != NULL;
        return LINNET_OK;
    }
    ln_jinja_iter iter;
    if (container.kind < LN_JINJA_STRING && container.kind != LN_JINJA_UNDEFINED)
        return ln_jinja_raise(run, "TypeError", "argument of type '%s' is not iterable",
                              ln_jinja_type_name(container));
    LN_TRY(ln_jinja_iter_init(run, &iter, container));
    for (;;) {
        ln_jinja_value candidate;
        bool done;
        LN_TRY(ln_jinja_iter_next(run, &iter, &candidate, &done));
        if (done)
            return LINNET_OK;
        *found = ln_jinja_same(candidate, item);
        if (!*found)
            LN_TRY(ln_jinja_equal(run, candidate, item, found));
        if (*found)
            return LINNET_OK;
    }
}
