/* Values: containers, truth, equality, order, iteration. */
#include "text/jinja/value.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "text/jinja/run.h"

/* ---- lists ------------------------------------------------------------------------------ */

ln_status ln_tpl_list_new(ln_tpl_run *run, ln_tpl_kind kind, size_t capacity, ln_tpl_value *out) {
    struct whole {
        ln_tpl_list list;
        ln_tpl_backing backing;
    } * whole;
    LN_TRY(ln_tpl_alloc(run, 1, sizeof *whole, &whole));
    LN_TRY(ln_tpl_alloc(run, capacity, sizeof(ln_tpl_value), &whole->backing.items));
    whole->backing.capacity = capacity;
    whole->list.backing = &whole->backing;
    whole->list.items = whole->backing.items;
    *out = (ln_tpl_value){.kind = kind, .as.list = &whole->list};
    return LINNET_OK;
}

ln_status ln_tpl_list_push(ln_tpl_run *run, ln_tpl_value value, ln_tpl_value item) {
    ln_tpl_list *list = value.as.list;
    ln_tpl_backing *backing = list->backing;
    if (backing->used == backing->capacity) {
        size_t capacity = backing->capacity * 2 + 4;
        ln_tpl_value *items;
        LN_TRY(ln_tpl_alloc(run, capacity, sizeof *items, &items));
        if (backing->used > 0)
            memcpy(items, backing->items, backing->used * sizeof *items);
        backing->items = items;
        backing->capacity = capacity;
        list->items = items;
    }
    backing->items[backing->used++] = item;
    list->n_items++;
    return ln_tpl_spend(run, 1);
}

ln_status ln_tpl_pair_new(ln_tpl_run *run, ln_tpl_value first, ln_tpl_value second,
                          ln_tpl_value *out) {
    LN_TRY(ln_tpl_list_new(run, LN_TPL_TUPLE, 2, out));
    LN_TRY(ln_tpl_list_push(run, *out, first));
    return ln_tpl_list_push(run, *out, second);
}

/* ---- dicts ------------------------------------------------------------------------------ */

static ln_status hash_value(ln_tpl_run *run, ln_tpl_value key, uint64_t *hash) {
    uint64_t seed = run->hash_seed;
    switch (key.kind) {
    case LN_TPL_STRING:
        LN_TRY(ln_tpl_spend(run, key.as.string->n_bytes / 64));
        *hash = XXH3_64bits_withSeed(ln_tpl_bytes(key.as.string), key.as.string->n_bytes, seed);
        return LINNET_OK;
    case LN_TPL_BOOL: key = ln_tpl_int(key.as.boolean); break;
    case LN_TPL_FLOAT:
        if (key.as.real >= -0x1p63 && key.as.real < 0x1p63 && key.as.real == trunc(key.as.real))
            key = ln_tpl_int((int64_t)key.as.real);
        break;
    case LN_TPL_TUPLE:
        LN_TRY(ln_tpl_enter(run));
        for (size_t i = 0; i < key.as.list->n_items; i++) {
            uint64_t item;
            LN_TRY(hash_value(run, key.as.list->items[i], &item));
            seed = XXH3_64bits_withSeed(&item, sizeof item, seed);
        }
        ln_tpl_leave(run);
        *hash = seed;
        return LINNET_OK;
    case LN_TPL_LIST:
    case LN_TPL_DICT:
        return ln_tpl_raise(run, "TypeError", "unhashable type: '%s'", ln_tpl_type_name(key));
    case LN_TPL_UNDEFINED:
    case LN_TPL_NONE: key = ln_tpl_int(key.kind == LN_TPL_NONE ? -1 : -2); break;
    default: break;
    }
    *hash = XXH3_64bits_withSeed(&key.as, sizeof key.as, seed);
    return LINNET_OK;
}

enum { SMALL_DICT = 8 };

ln_status ln_tpl_dict_new(ln_tpl_run *run, ln_tpl_value *out) {
    out->kind = LN_TPL_DICT;
    return ln_tpl_alloc(run, 1, sizeof *out->as.dict, &out->as.dict);
}

ln_status ln_tpl_dict_get(ln_tpl_run *run, const ln_tpl_dict *dict, ln_tpl_value key,
                          ln_tpl_value **found) {
    uint64_t hash;
    bool equal = false;
    *found = NULL;
    LN_TRY(hash_value(run, key, &hash)); /* before anything else: the key may be unhashable */
    if (dict->slots == NULL) {
        for (size_t i = 0; i < dict->n_pairs; i++) {
            LN_TRY(ln_tpl_equal(run, dict->pairs[i].key, key, &equal));
            if (equal) {
                *found = &dict->pairs[i].item;
                break;
            }
        }
        return LINNET_OK;
    }
    for (size_t slot = hash & dict->mask; dict->slots[slot] != 0; slot = (slot + 1) & dict->mask) {
        ln_tpl_pair *pair = &dict->pairs[dict->slots[slot] - 1];
        LN_TRY(ln_tpl_equal(run, pair->key, key, &equal));
        if (equal) {
            *found = &pair->item;
            break;
        }
    }
    return LINNET_OK;
}

ln_tpl_value *ln_tpl_dict_get_c(const ln_tpl_dict *dict, const char *key) {
    for (size_t i = 0; i < dict->n_pairs; i++)
        if (ln_tpl_is_string(dict->pairs[i].key, key))
            return &dict->pairs[i].item;
    return NULL;
}

static ln_status index_pair(ln_tpl_run *run, ln_tpl_dict *dict, size_t pair) {
    uint64_t hash;
    LN_TRY(hash_value(run, dict->pairs[pair].key, &hash));
    size_t slot = hash & dict->mask;
    while (dict->slots[slot] != 0)
        slot = (slot + 1) & dict->mask;
    dict->slots[slot] = (uint32_t)(pair + 1);
    return LINNET_OK;
}

static ln_status grow_dict(ln_tpl_run *run, ln_tpl_dict *dict) {
    size_t capacity = dict->capacity == 0 ? 4 : dict->capacity * 2;
    ln_tpl_pair *pairs;
    LN_TRY(ln_tpl_alloc(run, capacity, sizeof *pairs, &pairs));
    if (dict->n_pairs > 0)
        memcpy(pairs, dict->pairs, dict->n_pairs * sizeof *pairs);
    dict->pairs = pairs;
    dict->capacity = capacity;
    if (capacity <= SMALL_DICT)
        return LINNET_OK;
    LN_TRY(ln_tpl_alloc(run, capacity * 2, sizeof *dict->slots, &dict->slots));
    dict->mask = capacity * 2 - 1;
    for (size_t i = 0; i < dict->n_pairs; i++)
        LN_TRY(index_pair(run, dict, i));
    return LINNET_OK;
}

ln_status ln_tpl_dict_set(ln_tpl_run *run, ln_tpl_dict *dict, ln_tpl_value key, ln_tpl_value item) {
    ln_tpl_value *found;
    LN_TRY(ln_tpl_spend(run, 1));
    LN_TRY(ln_tpl_dict_get(run, dict, key, &found));
    if (found != NULL) {
        *found = item;
        return LINNET_OK;
    }
    if (dict->n_pairs == dict->capacity)
        LN_TRY(grow_dict(run, dict));
    dict->pairs[dict->n_pairs++] = (ln_tpl_pair){.key = key, .item = item};
    return dict->slots != NULL ? index_pair(run, dict, dict->n_pairs - 1) : LINNET_OK;
}

/* ---- kinds ------------------------------------------------------------------------------ */

const char *ln_tpl_type_name(ln_tpl_value value) {
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    switch (value.kind) {
    case LN_TPL_MISSING: return "missing";
    case LN_TPL_UNDEFINED: return "Undefined";
    case LN_TPL_NONE: return "NoneType";
    case LN_TPL_BOOL: return "bool";
    case LN_TPL_INT: return "int";
    case LN_TPL_FLOAT: return "float";
    case LN_TPL_STRING: return value.as.string->markup ? "Markup" : "str";
    case LN_TPL_LIST: return "list";
    case LN_TPL_TUPLE: return value.as.list->grouped ? "_GroupTuple" : "tuple";
    case LN_TPL_DICT: return "dict";
    case LN_TPL_VIEW: return views[value.as.view->kind];
    case LN_TPL_RANGE: return "range";
    case LN_TPL_GENERATOR: return value.as.generator->type_name;
    case LN_TPL_NAMESPACE: return "Namespace";
    case LN_TPL_LOOP: return "LoopContext";
    case LN_TPL_MACRO: return "Macro";
    case LN_TPL_FUNCTION: return "function";
    case LN_TPL_METHOD: return "builtin_function_or_method";
    case LN_TPL_CYCLER: return "Cycler";
    case LN_TPL_JOINER: return "Joiner";
    }
    return "object";
}

bool ln_tpl_has_length(ln_tpl_value value) {
    switch (value.kind) {
    case LN_TPL_UNDEFINED:
    case LN_TPL_STRING:
    case LN_TPL_LIST:
    case LN_TPL_TUPLE:
    case LN_TPL_DICT:
    case LN_TPL_VIEW:
    case LN_TPL_RANGE:
    case LN_TPL_LOOP: return true;
    default: return false;
    }
}

/* The length of a kind that has one without running anything. */
static size_t plain_length(ln_tpl_value value) {
    switch (value.kind) {
    case LN_TPL_STRING: return value.as.string->n_chars;
    case LN_TPL_LIST:
    case LN_TPL_TUPLE: return value.as.list->n_items;
    case LN_TPL_DICT: return value.as.dict->n_pairs;
    case LN_TPL_VIEW: return value.as.view->dict->n_pairs;
    case LN_TPL_RANGE: return value.as.range->length;
    default: return 0;
    }
}

ln_status ln_tpl_length(ln_tpl_run *run, ln_tpl_value value, int64_t *length) {
    if (!ln_tpl_has_length(value))
        return ln_tpl_raise(run, "TypeError", "object of type '%s' has no len()",
                            ln_tpl_type_name(value));
    *length = (int64_t)plain_length(value);
    if (value.kind != LN_TPL_LOOP)
        return LINNET_OK;
    ln_tpl_value attribute;
    bool found;
    ln_tpl_value name;
    LN_TRY(ln_tpl_string_c(run, "length", &name));
    LN_TRY(ln_tpl_loop_attribute(run, value.as.loop, name.as.string, &attribute, &found));
    *length = attribute.as.integer;
    return LINNET_OK;
}

bool ln_tpl_truthy(ln_tpl_value value) {
    switch (value.kind) {
    case LN_TPL_MISSING:
    case LN_TPL_UNDEFINED:
    case LN_TPL_NONE: return false;
    case LN_TPL_BOOL: return value.as.boolean;
    case LN_TPL_INT: return value.as.integer != 0;
    case LN_TPL_FLOAT: return value.as.real != 0;
    case LN_TPL_STRING:
    case LN_TPL_LIST:
    case LN_TPL_TUPLE:
    case LN_TPL_DICT:
    case LN_TPL_VIEW:
    case LN_TPL_RANGE: return plain_length(value) > 0;
    default: return true;
    }
}

bool ln_tpl_same(ln_tpl_value a, ln_tpl_value b) {
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case LN_TPL_MISSING:
    case LN_TPL_NONE: return true;
    case LN_TPL_BOOL: return a.as.boolean == b.as.boolean;
    case LN_TPL_INT: return a.as.integer == b.as.integer;
    case LN_TPL_FLOAT: return false;
    case LN_TPL_STRING: /* CPython shares the empty string and single characters */
        return a.as.string == b.as.string ||
               (a.as.string->n_bytes <= 1 && ln_tpl_string_equal(a.as.string, b.as.string));
    case LN_TPL_TUPLE:
        return a.as.list == b.as.list || (a.as.list->n_items == 0 && b.as.list->n_items == 0);
    default: return a.as.object == b.as.object;
    }
}

/* ---- equality and order ----------------------------------------------------------------- */

static bool is_number(ln_tpl_value value) {
    return value.kind == LN_TPL_BOOL || value.kind == LN_TPL_INT || value.kind == LN_TPL_FLOAT;
}

static int64_t as_int(ln_tpl_value value) {
    return value.kind == LN_TPL_BOOL ? value.as.boolean : value.as.integer;
}

/* -1, 0, 1, or 2 where a NaN is in it. An int and a float compare exactly. */
static int order_numbers(ln_tpl_value a, ln_tpl_value b) {
    if (a.kind != LN_TPL_FLOAT && b.kind != LN_TPL_FLOAT)
        return (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
    if (a.kind == LN_TPL_FLOAT && b.kind == LN_TPL_FLOAT) {
        if (isnan(a.as.real) || isnan(b.as.real))
            return 2;
        return (a.as.real > b.as.real) - (a.as.real < b.as.real);
    }
    bool swap = a.kind == LN_TPL_FLOAT;
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

static ln_status equal_lists(ln_tpl_run *run, const ln_tpl_list *a, const ln_tpl_list *b,
                             bool *equal) {
    *equal = a->n_items == b->n_items;
    for (size_t i = 0; *equal && i < a->n_items; i++)
        LN_TRY(ln_tpl_equal(run, a->items[i], b->items[i], equal));
    return LINNET_OK;
}

static ln_status equal_dicts(ln_tpl_run *run, const ln_tpl_dict *a, const ln_tpl_dict *b,
                             bool *equal) {
    *equal = a->n_pairs == b->n_pairs;
    for (size_t i = 0; *equal && i < a->n_pairs; i++) {
        ln_tpl_value *other;
        LN_TRY(ln_tpl_dict_get(run, b, a->pairs[i].key, &other));
        *equal = other != NULL;
        if (*equal)
            LN_TRY(ln_tpl_equal(run, a->pairs[i].item, *other, equal));
    }
    return LINNET_OK;
}

/* Keys and items compare as sets, values by identity. */
static ln_status equal_views(ln_tpl_run *run, const ln_tpl_view *a, const ln_tpl_view *b,
                             bool *equal) {
    *equal = a == b;
    if (a->kind != b->kind || a->kind == LN_TPL_VIEW_VALUES)
        return LINNET_OK;
    LN_TRY(ln_tpl_enter(run));
    *equal = a->dict->n_pairs == b->dict->n_pairs;
    for (size_t i = 0; *equal && i < a->dict->n_pairs; i++) {
        ln_tpl_value *other;
        LN_TRY(ln_tpl_dict_get(run, b->dict, a->dict->pairs[i].key, &other));
        *equal = other != NULL;
        if (*equal && a->kind == LN_TPL_VIEW_ITEMS)
            LN_TRY(ln_tpl_equal(run, a->dict->pairs[i].item, *other, equal));
    }
    ln_tpl_leave(run);
    return LINNET_OK;
}

ln_status ln_tpl_equal(ln_tpl_run *run, ln_tpl_value a, ln_tpl_value b, bool *equal) {
    if (is_number(a) && is_number(b)) {
        *equal = order_numbers(a, b) == 0;
        return LINNET_OK;
    }
    *equal = false;
    if (a.kind != b.kind)
        return LINNET_OK;
    switch (a.kind) {
    case LN_TPL_UNDEFINED:
    case LN_TPL_NONE: *equal = true; return LINNET_OK;
    case LN_TPL_STRING:
        *equal = ln_tpl_string_equal(a.as.string, b.as.string);
        return ln_tpl_spend(run, *equal ? a.as.string->n_bytes / 64 : 0);
    case LN_TPL_LIST:
    case LN_TPL_TUPLE:
    case LN_TPL_DICT:
        LN_TRY(ln_tpl_enter(run));
        if (a.kind == LN_TPL_DICT)
            LN_TRY(equal_dicts(run, a.as.dict, b.as.dict, equal));
        else
            LN_TRY(equal_lists(run, a.as.list, b.as.list, equal));
        ln_tpl_leave(run);
        return LINNET_OK;
    case LN_TPL_RANGE:
        *equal = a.as.range->length == b.as.range->length &&
                 (a.as.range->length == 0 ||
                  (a.as.range->start == b.as.range->start &&
                   (a.as.range->length == 1 || a.as.range->step == b.as.range->step)));
        return LINNET_OK;
    case LN_TPL_VIEW: return equal_views(run, a.as.view, b.as.view, equal);
    default: *equal = a.as.object == b.as.object; return LINNET_OK;
    }
}

static bool order_holds(ln_tpl_order order, int sign) {
    if (sign == 2)
        return false;
    switch (order) {
    case LN_TPL_LT: return sign < 0;
    case LN_TPL_LE: return sign <= 0;
    case LN_TPL_GT: return sign > 0;
    default: return sign >= 0;
    }
}

static ln_status compare_lists(ln_tpl_run *run, ln_tpl_order order, const ln_tpl_list *a,
                               const ln_tpl_list *b, bool *holds) {
    size_t n = a->n_items < b->n_items ? a->n_items : b->n_items;
    for (size_t i = 0; i < n; i++) {
        bool equal;
        LN_TRY(ln_tpl_equal(run, a->items[i], b->items[i], &equal));
        if (!equal)
            return ln_tpl_compare(run, order, a->items[i], b->items[i], holds);
    }
    *holds = order_holds(order, (a->n_items > b->n_items) - (a->n_items < b->n_items));
    return LINNET_OK;
}

ln_status ln_tpl_compare(ln_tpl_run *run, ln_tpl_order order, ln_tpl_value a, ln_tpl_value b,
                         bool *holds) {
    static const char *const signs[] = {"<", "<=", ">", ">="};
    LN_TRY(ln_tpl_spend(run, 1));
    if (is_number(a) && is_number(b)) {
        *holds = order_holds(order, order_numbers(a, b));
        return LINNET_OK;
    }
    if (a.kind == LN_TPL_UNDEFINED || b.kind == LN_TPL_UNDEFINED)
        return ln_tpl_raise_undefined(run, a.kind == LN_TPL_UNDEFINED ? a : b);
    if (a.kind == LN_TPL_STRING && b.kind == LN_TPL_STRING) {
        LN_TRY(ln_tpl_spend(run, a.as.string->n_bytes / 64));
        *holds = order_holds(order, ln_tpl_string_order(a.as.string, b.as.string));
        return LINNET_OK;
    }
    if (a.kind == b.kind && (a.kind == LN_TPL_LIST || a.kind == LN_TPL_TUPLE)) {
        LN_TRY(ln_tpl_enter(run));
        LN_TRY(compare_lists(run, order, a.as.list, b.as.list, holds));
        ln_tpl_leave(run);
        return LINNET_OK;
    }
    return ln_tpl_raise(run, "TypeError", "'%s' not supported between instances of '%s' and '%s'",
                        signs[order], ln_tpl_type_name(a), ln_tpl_type_name(b));
}

ln_status ln_tpl_contains(ln_tpl_run *run, ln_tpl_value container, ln_tpl_value item, bool *found) {
    *found = false;
    if (container.kind == LN_TPL_STRING) {
        if (item.kind != LN_TPL_STRING)
            return ln_tpl_raise(run, "TypeError",
                                "'in <string>' requires string as left operand, not %s",
                                ln_tpl_type_name(item));
        LN_TRY(ln_tpl_spend_bytes(run, container.as.string->n_bytes));
        *found = ln_tpl_string_find(container.as.string, item.as.string, 0) != SIZE_MAX;
        return LINNET_OK;
    }
    if (container.kind == LN_TPL_DICT ||
        (container.kind == LN_TPL_VIEW && container.as.view->kind == LN_TPL_VIEW_KEYS)) {
        ln_tpl_value *value;
        const ln_tpl_dict *dict =
            container.kind == LN_TPL_DICT ? container.as.dict : container.as.view->dict;
        LN_TRY(ln_tpl_dict_get(run, dict, item, &value));
        *found = value != NULL;
        return LINNET_OK;
    }
    ln_tpl_iter iter;
    if (container.kind < LN_TPL_STRING && container.kind != LN_TPL_UNDEFINED)
        return ln_tpl_raise(run, "TypeError", "argument of type '%s' is not iterable",
                            ln_tpl_type_name(container));
    LN_TRY(ln_tpl_iter_init(run, &iter, container));
    for (;;) {
        ln_tpl_value candidate;
        bool done;
        LN_TRY(ln_tpl_iter_next(run, &iter, &candidate, &done));
        if (done)
            return LINNET_OK;
        *found = ln_tpl_same(candidate, item);
        if (!*found)
            LN_TRY(ln_tpl_equal(run, candidate, item, found));
        if (*found)
            return LINNET_OK;
    }
}
