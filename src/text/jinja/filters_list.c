/* Filters over sequences. What Jinja makes generators of is lazy here too. */
#include "text/jinja/run.h"

#define FILTER(name)                                                                               \
    static ln_status name(ln_jinja_run *run, ln_jinja_value self, ln_jinja_args *args,             \
                          ln_jinja_value *out)

/* ---- keys and sorting ------------------------------------------------------------------- */

static ln_status fold_case(ln_jinja_run *run, bool fold, ln_jinja_value *key) {
    if (!fold || key->kind != LN_JINJA_STRING)
        return LINNET_OK;
    return ln_jinja_change_case(run, key->as.string, LN_JINJA_CASE_LOWER, key);
}

static ln_status key_of(ln_jinja_run *run, ln_jinja_value item, ln_jinja_value path,
                        ln_jinja_value fallback, bool fold, ln_jinja_value *key) {
    LN_TRY(ln_jinja_get_path(run, item, path, fallback, key));
    return fold_case(run, fold, key);
}

/* The keys of "a.b,c": a list of one value per part. */
static ln_status keys_of(ln_jinja_run *run, ln_jinja_value item, ln_jinja_value paths, bool fold,
                         ln_jinja_value *keys) {
    ln_jinja_value none = {.kind = LN_JINJA_MISSING}, key;
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 1, keys));
    size_t begin = 0, n = paths.kind == LN_JINJA_STRING ? paths.as.string->n_bytes : 0;
    for (;;) {
        ln_jinja_value path = paths;
        size_t end = begin;
        while (end < n && ln_jinja_bytes(paths.as.string)[end] != ',')
            end++;
        if (paths.kind == LN_JINJA_STRING)
            LN_TRY(ln_jinja_string_part(run, paths.as.string, begin, end, &path));
        LN_TRY(key_of(run, item, path, none, fold, &key));
        LN_TRY(ln_jinja_list_push(run, *keys, key));
        if (end >= n)
            return LINNET_OK;
        begin = end + 1;
    }
}

typedef struct sorted {
    ln_jinja_value item, key;
} sorted;

static ln_status merge(ln_jinja_run *run, sorted *from, sorted *to, size_t begin, size_t middle,
                       size_t end, bool reverse) {
    size_t left = begin, right = middle;
    for (size_t at = begin; at < end; at++) {
        bool take_right = left >= middle;
        if (!take_right && right < end)
            LN_TRY(reverse ? ln_jinja_compare(run, LN_JINJA_LT, from[left].key, from[right].key,
                                              &take_right)
                           : ln_jinja_compare(run, LN_JINJA_LT, from[right].key, from[left].key,
                                              &take_right));
        to[at] = take_right ? from[right++] : from[left++];
    }
    return LINNET_OK;
}

ln_status ln_jinja_sort(ln_jinja_run *run, ln_jinja_value *items, ln_jinja_value *keys, size_t n,
                        bool reverse) {
    sorted *from, *to;
    LN_TRY(ln_jinja_alloc(run, n, sizeof *from, &from));
    LN_TRY(ln_jinja_alloc(run, n, sizeof *to, &to));
    for (size_t i = 0; i < n; i++)
        from[i] = (sorted){.item = items[i], .key = keys[i]};
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = middle + width < n ? middle + width : n;
            LN_TRY(merge(run, from, to, begin, middle, end, reverse));
        }
        sorted *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = from[i].item;
        keys[i] = from[i].key;
    }
    return LINNET_OK;
}

FILTER(filter_sort) {
    ln_jinja_value *keys;
    bool reverse = ln_jinja_arg_truthy(args, 0), fold = !ln_jinja_arg_truthy(args, 1);
    LN_TRY(ln_jinja_to_list(run, self, out));
    size_t n = out->as.list->n_items;
    LN_TRY(ln_jinja_alloc(run, n, sizeof *keys, &keys));
    for (size_t i = 0; i < n; i++)
        LN_TRY(keys_of(run, out->as.list->items[i], ln_jinja_arg(args, 2), fold, &keys[i]));
    return ln_jinja_sort(run, out->as.list->items, keys, n, reverse);
}

FILTER(filter_dictsort) {
    ln_jinja_value by = ln_jinja_arg(args, 1), *keys;
    bool by_value = ln_jinja_is_string(by, "value"), fold = !ln_jinja_arg_truthy(args, 0);
    if (!by_value && by.kind != LN_JINJA_MISSING && !ln_jinja_is_string(by, "key"))
        return ln_jinja_raise(run, "FilterArgumentError",
                              "You can only sort by either \"key\" or \"value\"");
    if (self.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, self);
    if (self.kind != LN_JINJA_DICT)
        return ln_jinja_raise(run, "AttributeError", "'%s' object has no attribute 'items'",
                              ln_jinja_type_name(self));
    ln_jinja_view view = {.dict = self.as.dict, .kind = LN_JINJA_VIEW_ITEMS};
    LN_TRY(ln_jinja_to_list(run, (ln_jinja_value){.kind = LN_JINJA_VIEW, .as.view = &view}, out));
    size_t n = out->as.list->n_items;
    LN_TRY(ln_jinja_alloc(run, n, sizeof *keys, &keys));
    for (size_t i = 0; i < n; i++) {
        keys[i] = out->as.list->items[i].as.list->items[by_value];
        LN_TRY(fold_case(run, fold, &keys[i]));
    }
    return ln_jinja_sort(run, out->as.list->items, keys, n, ln_jinja_arg_truthy(args, 2));
}

FILTER(filter_groupby) {
    ln_jinja_value list, path = ln_jinja_arg(args, 0), fallback = ln_jinja_arg(args, 1), *keys;
    bool fold = !ln_jinja_arg_truthy(args, 2);
    LN_TRY(ln_jinja_to_list(run, self, &list));
    size_t n = list.as.list->n_items;
    ln_jinja_value *items = list.as.list->items;
    LN_TRY(ln_jinja_alloc(run, n, sizeof *keys, &keys));
    for (size_t i = 0; i < n; i++)
        LN_TRY(key_of(run, items[i], path, fallback, fold, &keys[i]));
    LN_TRY(ln_jinja_sort(run, items, keys, n, false));
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 0, out));
    for (size_t begin = 0; begin < n;) {
        ln_jinja_value key, group, pair;
        LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 0, &group));
        size_t end = begin;
        for (bool equal = true; end < n; end++) {
            LN_TRY(ln_jinja_equal(run, keys[begin], keys[end], &equal));
            if (!equal)
                break;
            LN_TRY(ln_jinja_list_push(run, group, items[end]));
        }
        if (end == begin) { /* a key that does not equal itself */
            LN_TRY(ln_jinja_list_push(run, group, items[end]));
            end++;
        }
        LN_TRY(key_of(run, items[begin], path, fallback, false, &key));
        LN_TRY(ln_jinja_pair_new(run, key, group, &pair));
        pair.as.list->grouped = true;
        LN_TRY(ln_jinja_list_push(run, *out, pair));
        begin = end;
    }
    return LINNET_OK;
}

static ln_status pick(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                      ln_jinja_order order, ln_jinja_value *out) {
    ln_jinja_iter iter;
    ln_jinja_value none = {.kind = LN_JINJA_MISSING}, best = none, item, key;
    bool fold = !ln_jinja_arg_truthy(args, 0), done;
    LN_TRY(ln_jinja_iter_init(run, &iter, self));
    for (;;) {
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            break;
        LN_TRY(key_of(run, item, ln_jinja_arg(args, 1), none, fold, &key));
        bool better = best.kind == LN_JINJA_MISSING;
        if (!better)
            LN_TRY(ln_jinja_compare(run, order, key, best, &better));
        if (better) {
            best = key;
            *out = item;
        }
    }
    if (best.kind == LN_JINJA_MISSING)
        return ln_jinja_undefined_hint(run, "No aggregated item, sequence was empty.", out);
    return LINNET_OK;
}

FILTER(filter_min) {
    return pick(run, self, args, LN_JINJA_LT, out);
}
FILTER(filter_max) {
    return pick(run, self, args, LN_JINJA_GT, out);
}

/* ---- whole sequences -------------------------------------------------------------------- */

FILTER(filter_list) {
    (void)args;
    return ln_jinja_to_list(run, self, out);
}

FILTER(filter_first) {
    (void)args;
    ln_jinja_iter iter;
    bool done;
    LN_TRY(ln_jinja_iter_init(run, &iter, self));
    LN_TRY(ln_jinja_iter_next(run, &iter, out, &done));
    return done ? ln_jinja_undefined_hint(run, "No first item, sequence was empty.", out)
                : LINNET_OK;
}

FILTER(filter_last) {
    (void)args;
    ln_jinja_value list;
    if (self.kind == LN_JINJA_GENERATOR || !ln_jinja_has_length(self) || self.kind == LN_JINJA_LOOP)
        return ln_jinja_raise(run, "TypeError", "'%s' object is not reversible",
                              ln_jinja_type_name(self));
    int64_t length;
    LN_TRY(ln_jinja_length(run, self, &length));
    if (length == 0)
        return ln_jinja_undefined_hint(run, "No last item, sequence was empty.", out);
    if (self.kind != LN_JINJA_DICT && self.kind != LN_JINJA_VIEW)
        return ln_jinja_get_item(run, self, ln_jinja_int(-1), out);
    LN_TRY(ln_jinja_to_list(run, self, &list));
    *out = list.as.list->items[length - 1];
    return LINNET_OK;
}

typedef struct reversing {
    const ln_jinja_list *list;
    size_t left;
} reversing;

static ln_status next_reversed(ln_jinja_run *run, ln_jinja_generator *generator,
                               ln_jinja_value *out, bool *done) {
    (void)run;
    reversing *state = generator->state;
    *done = state->left == 0;
    if (!*done)
        *out = state->list->items[--state->left];
    return LINNET_OK;
}

FILTER(filter_reverse) {
    (void)args;
    if (self.kind == LN_JINJA_STRING) {
        ln_jinja_value bounds[3] = {ln_jinja_none(), ln_jinja_none(), ln_jinja_int(-1)};
        return ln_jinja_get_slice(run, self, bounds, out);
    }
    if (!ln_jinja_is_iterable(self))
        return ln_jinja_raise(run, "FilterArgumentError", "argument must be iterable");
    ln_jinja_value list;
    LN_TRY(ln_jinja_to_list(run, self, &list));
    if (self.kind == LN_JINJA_GENERATOR) {
        ln_jinja_value bounds[3] = {ln_jinja_none(), ln_jinja_none(), ln_jinja_int(-1)};
        return ln_jinja_get_slice(run, list, bounds, out);
    }
    reversing *state;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *state, &state));
    *state = (reversing){.list = list.as.list, .left = list.as.list->n_items};
    return ln_jinja_generator_new(run, next_reversed, state,
                                  self.kind == LN_JINJA_LIST    ? "list_reverseiterator"
                                  : self.kind == LN_JINJA_RANGE ? "range_iterator"
                                  : self.kind == LN_JINJA_DICT  ? "dict_reversekeyiterator"
                                                                : "reversed",
                                  out);
}

FILTER(filter_join) {
    ln_jinja_value empty, items = self;
    ln_jinja_string *separator;
    LN_TRY(ln_jinja_string_c(run, "", &empty));
    LN_TRY(
        ln_jinja_str(run, ln_jinja_has_arg(args, 0) ? ln_jinja_arg(args, 0) : empty, &separator));
    ln_jinja_value path = ln_jinja_arg(args, 1);
    if (path.kind != LN_JINJA_MISSING && path.kind != LN_JINJA_NONE) {
        LN_TRY(ln_jinja_to_list(run, self, &items));
        for (size_t i = 0; i < items.as.list->n_items; i++)
            LN_TRY(ln_jinja_get_path(run, items.as.list->items[i], path, ln_jinja_none(),
                                     &items.as.list->items[i]));
    }
    return ln_jinja_join(run, separator, items, true, out);
}

FILTER(filter_sum) {
    ln_jinja_iter iter;
    ln_jinja_value path = ln_jinja_arg(args, 0);
    *out = ln_jinja_has_arg(args, 1) ? ln_jinja_arg(args, 1) : ln_jinja_int(0);
    if (out->kind == LN_JINJA_STRING)
        return ln_jinja_raise(run, "TypeError",
                              "sum() can't sum strings [use ''.join(seq) instead]");
    LN_TRY(ln_jinja_iter_init(run, &iter, self));
    for (;;) {
        ln_jinja_value item;
        bool done;
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            return LINNET_OK;
        LN_TRY(ln_jinja_get_path(run, item, path, ln_jinja_none(), &item));
        LN_TRY(ln_jinja_binary(run, LN_JINJA_ADD, *out, item, out));
    }
}

/* ---- generators ------------------------------------------------------------------------- */

/* What the generators below keep: the call, and how far they are. */
typedef struct lazy {
    ln_jinja_value source;
    ln_jinja_args args; /* map, select: as written, in the arena */
    ln_jinja_iter iter;
    bool started;
    bool by_attribute, negated;          /* select and its kin */
    const ln_jinja_builtin *builtin;     /* a filter or test; NULL: an attribute, or truth */
    ln_jinja_value path, fallback, seen; /* map(attribute=...), unique */
    bool fold;
    int64_t count, position, length; /* batch, slice */
} lazy;

static ln_status new_lazy(ln_jinja_run *run, ln_jinja_value source, ln_jinja_next_fn next,
                          lazy **state, ln_jinja_value *out) {
    LN_TRY(ln_jinja_alloc(run, 1, sizeof **state, state));
    (*state)->source = source;
    return ln_jinja_generator_new(run, next, *state, "generator", out);
}

/* The builtin named by the argument `index`; the arguments behind it become the call's. */
static ln_status take_builtin(ln_jinja_run *run, lazy *state, size_t index, bool is_filter) {
    ln_jinja_value name = state->args.positional[index];
    if (name.kind == LN_JINJA_STRING)
        state->builtin =
            is_filter ? ln_jinja_find_filter(name.as.string) : ln_jinja_find_test(name.as.string);
    if (state->builtin == NULL)
        return ln_jinja_raise(run, "TemplateRuntimeError", "No %s named %s.",
                              is_filter ? "filter" : "test", ln_jinja_quote(run, name));
    state->args.positional += index + 1;
    state->args.n_positional -= index + 1;
    return LINNET_OK;
}

static ln_status start_map(ln_jinja_run *run, lazy *state) {
    if (state->args.n_positional > 0)
        return take_builtin(run, state, 0, true);
    bool has_path = false;
    for (size_t i = 0; i < state->args.n_named; i++)
        has_path = has_path || ln_jinja_string_is(state->args.named[i].name, "attribute");
    if (!has_path)
        return ln_jinja_raise(run, "FilterArgumentError", "map requires a filter argument");
    for (size_t i = 0; i < state->args.n_named; i++) {
        const ln_jinja_named *named = &state->args.named[i];
        if (ln_jinja_string_is(named->name, "attribute"))
            state->path = named->value;
        else if (ln_jinja_string_is(named->name, "default"))
            state->fallback = named->value;
        else
            return ln_jinja_raise(run, "FilterArgumentError", "Unexpected keyword argument '%.*s'",
                                  (int)(named->name->n_bytes < 100 ? named->name->n_bytes : 100),
                                  ln_jinja_bytes(named->name));
    }
    return LINNET_OK;
}

static ln_status next_mapped(ln_jinja_run *run, ln_jinja_generator *generator, ln_jinja_value *out,
                             bool *done) {
    lazy *state = generator->state;
    ln_jinja_value item;
    if (!state->started) {
        *done = !ln_jinja_truthy(state->source);
        if (*done)
            return LINNET_OK;
        LN_TRY(start_map(run, state));
        LN_TRY(ln_jinja_iter_init(run, &state->iter, state->source));
        state->started = true;
    }
    LN_TRY(ln_jinja_iter_next(run, &state->iter, &item, done));
    if (*done)
        return LINNET_OK;
    if (state->builtin != NULL)
        return ln_jinja_invoke(run, state->builtin, item, &state->args, out);
    return ln_jinja_get_path(run, item, state->path, state->fallback, out);
}

FILTER(filter_map) {
    lazy *state;
    LN_TRY(new_lazy(run, self, next_mapped, &state, out));
    state->args = *args;
    return LINNET_OK;
}

static ln_status start_select(ln_jinja_run *run, lazy *state) {
    size_t n = state->args.n_positional, name = state->by_attribute;
    if (state->by_attribute) {
        if (n == 0)
            return ln_jinja_raise(run, "FilterArgumentError",
                                  "Missing parameter for attribute name");
        state->path = state->args.positional[0];
    }
    return n > name ? take_builtin(run, state, name, false) : LINNET_OK;
}

static ln_status next_selected(ln_jinja_run *run, ln_jinja_generator *generator,
                               ln_jinja_value *out, bool *done) {
    lazy *state = generator->state;
    if (!state->started) {
        *done = !ln_jinja_truthy(state->source);
        if (*done)
            return LINNET_OK;
        LN_TRY(start_select(run, state));
        LN_TRY(ln_jinja_iter_init(run, &state->iter, state->source));
        state->started = true;
    }
    for (;;) {
        ln_jinja_value item, value;
        LN_TRY(ln_jinja_iter_next(run, &state->iter, &item, done));
        if (*done)
            return LINNET_OK;
        LN_TRY(ln_jinja_get_path(run, item, state->path, state->fallback, &value));
        if (state->builtin != NULL)
            LN_TRY(ln_jinja_invoke(run, state->builtin, value, &state->args, &value));
        if (ln_jinja_truthy(value) != state->negated) {
            *out = item;
            return LINNET_OK;
        }
    }
}

static ln_status select_items(ln_jinja_run *run, ln_jinja_value self, const ln_jinja_args *args,
                              bool by_attribute, bool negated, ln_jinja_value *out) {
    lazy *state;
    LN_TRY(new_lazy(run, self, next_selected, &state, out));
    state->args = *args;
    state->by_attribute = by_attribute;
    state->negated = negated;
    return LINNET_OK;
}

FILTER(filter_select) {
    return select_items(run, self, args, false, false, out);
}
FILTER(filter_reject) {
    return select_items(run, self, args, false, true, out);
}
FILTER(filter_selectattr) {
    return select_items(run, self, args, true, false, out);
}
FILTER(filter_rejectattr) {
    return select_items(run, self, args, true, true, out);
}

static ln_status next_unique(ln_jinja_run *run, ln_jinja_generator *generator, ln_jinja_value *out,
                             bool *done) {
    lazy *state = generator->state;
    for (;;) {
        ln_jinja_value key, *found;
        LN_TRY(ln_jinja_iter_next(run, &state->iter, out, done));
        if (*done)
            return LINNET_OK;
        LN_TRY(key_of(run, *out, state->path, state->fallback, state->fold, &key));
        LN_TRY(ln_jinja_dict_get(run, state->seen.as.dict, key, &found));
        if (found == NULL)
            return ln_jinja_dict_set(run, state->seen.as.dict, key, ln_jinja_none());
    }
}

FILTER(filter_unique) {
    lazy *state;
    LN_TRY(new_lazy(run, self, next_unique, &state, out));
    state->fold = !ln_jinja_arg_truthy(args, 0);
    state->path = ln_jinja_arg(args, 1);
    LN_TRY(ln_jinja_dict_new(run, &state->seen));
    return ln_jinja_iter_init(run, &state->iter, self);
}

static ln_status next_item(ln_jinja_run *run, ln_jinja_generator *generator, ln_jinja_value *out,
                           bool *done) {
    lazy *state = generator->state;
    if (state->source.kind == LN_JINJA_UNDEFINED) {
        *done = true;
        return LINNET_OK;
    }
    if (state->source.kind != LN_JINJA_DICT)
        return ln_jinja_raise(run, "TypeError", "Can only get item pairs from a mapping.");
    const ln_jinja_dict *dict = state->source.as.dict;
    *done = (size_t)state->position >= dict->n_pairs;
    if (*done)
        return LINNET_OK;
    const ln_jinja_pair *pair = &dict->pairs[state->position++];
    return ln_jinja_pair_new(run, pair->key, pair->item, out);
}

FILTER(filter_items) {
    (void)args;
    lazy *state;
    return new_lazy(run, self, next_item, &state, out);
}

static ln_status next_batch(ln_jinja_run *run, ln_jinja_generator *generator, ln_jinja_value *out,
                            bool *done) {
    lazy *state = generator->state;
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 0, out));
    for (int64_t n = 0; n < state->count; n++) {
        ln_jinja_value item;
        LN_TRY(ln_jinja_iter_next(run, &state->iter, &item, done));
        if (*done) {
            *done = n == 0;
            while (n > 0 && state->fallback.kind != LN_JINJA_NONE && n++ < state->count)
                LN_TRY(ln_jinja_list_push(run, *out, state->fallback));
            return LINNET_OK;
        }
        LN_TRY(ln_jinja_list_push(run, *out, item));
    }
    return LINNET_OK;
}

/* The second argument of batch and slice, None when missing. */
static ln_jinja_value fill_of(const ln_jinja_args *args) {
    return ln_jinja_has_arg(args, 1) ? ln_jinja_arg(args, 1) : ln_jinja_none();
}

FILTER(filter_batch) {
    lazy *state;
    LN_TRY(new_lazy(run, self, next_batch, &state, out));
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &state->count));
    if (state->count <= 0)
        return ln_jinja_raise(run, "ValueError", "batch wants a positive count");
    state->fallback = fill_of(args);
    return ln_jinja_iter_init(run, &state->iter, self);
}

static ln_status next_slice(ln_jinja_run *run, ln_jinja_generator *generator, ln_jinja_value *out,
                            bool *done) {
    lazy *state = generator->state;
    const ln_jinja_list *list = state->source.as.list;
    int64_t n = (int64_t)list->n_items, i = state->position++;
    *done = i >= state->count;
    if (*done)
        return LINNET_OK;
    int64_t each = n / state->count, longer = n % state->count;
    int64_t begin = i * each + (i < longer ? i : longer);
    int64_t end = begin + each + (i < longer);
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, (size_t)(end - begin) + 1, out));
    for (int64_t k = begin; k < end; k++)
        LN_TRY(ln_jinja_list_push(run, *out, list->items[k]));
    if (state->fallback.kind != LN_JINJA_NONE && i >= longer)
        LN_TRY(ln_jinja_list_push(run, *out, state->fallback));
    return LINNET_OK;
}

FILTER(filter_slice) {
    lazy *state;
    LN_TRY(new_lazy(run, self, next_slice, &state, out));
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &state->count));
    if (state->count <= 0)
        return ln_jinja_raise(run, "ZeroDivisionError", "integer division or modulo by zero");
    state->fallback = fill_of(args);
    return ln_jinja_to_list(run, self, &state->source);
}

static const ln_jinja_builtin filters[] = {
    {"list", filter_list, "", 0},
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"items", filter_items, "", 0},
    {"join", filter_join, "d attribute ", 0},
    {"map", filter_map, NULL, 0},
    {"select", filter_select, NULL, 0},
    {"reject", filter_reject, NULL, 0},
    {"selectattr", filter_selectattr, NULL, 0},
    {"rejectattr", filter_rejectattr, NULL, 0},
    {"sort", filter_sort, "reverse case_sensitive attribute ", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse ", 0},
    {"groupby", filter_groupby, "attribute default case_sensitive ", 1},
    {"unique", filter_unique, "case_sensitive attribute ", 0},
    {"reverse", filter_reverse, "", 0},
    {"min", filter_min, "case_sensitive attribute ", 0},
    {"max", filter_max, "case_sensitive attribute ", 0},
    {"sum", filter_sum, "attribute start ", 0},
    {"batch", filter_batch, "linecount fill_with ", 1},
    {"slice", filter_slice, "slices fill_with ", 1},
};

const ln_jinja_builtin *ln_jinja_find_list_filter(const ln_jinja_string *name) {
    return ln_jinja_find(filters, sizeof filters / sizeof *filters, name);
}
