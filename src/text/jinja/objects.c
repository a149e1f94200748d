/* Methods of everything but strings, the attributes of loops, and the global functions. */
#include <math.h>
#include <string.h>

#include "text/jinja/run.h"

#define METHOD(name)                                                                               \
    static ln_status name(ln_jinja_run *run, ln_jinja_value self, ln_jinja_args *args,             \
                          ln_jinja_value *out)

const ln_jinja_builtin *ln_jinja_find(const ln_jinja_builtin *table, size_t n,
                                      const ln_jinja_string *name) {
    for (size_t i = 0; i < n; i++)
        if (ln_jinja_string_is(name, table[i].name))
            return &table[i];
    return NULL;
}

/* ---- loops ------------------------------------------------------------------------------ */

ln_status ln_jinja_loop_peek(ln_jinja_run *run, ln_jinja_loop *loop) {
    bool done;
    if (loop->after.kind != LN_JINJA_MISSING || loop->ended)
        return LINNET_OK;
    LN_TRY(ln_jinja_iter_next(run, &loop->iter, &loop->after, &done));
    if (done) {
        loop->after.kind = LN_JINJA_MISSING;
        loop->ended = true;
    }
    return LINNET_OK;
}

static ln_status loop_length(ln_jinja_run *run, ln_jinja_loop *loop, int64_t *length) {
    if (loop->length < 0 && ln_jinja_has_length(loop->iterable) &&
        loop->iterable.kind != LN_JINJA_LOOP) {
        LN_TRY(ln_jinja_length(run, loop->iterable, &loop->length));
    } else if (loop->length < 0) { /* the rest is read ahead */
        ln_jinja_value rest, item;
        bool done = loop->ended;
        LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, 0, &rest));
        while (!done) {
            LN_TRY(ln_jinja_iter_next(run, &loop->iter, &item, &done));
            if (!done)
                LN_TRY(ln_jinja_list_push(run, rest, item));
        }
        loop->length = (int64_t)rest.as.list->n_items + loop->index0 + 1 +
                       (loop->after.kind != LN_JINJA_MISSING);
        LN_TRY(ln_jinja_iter_init(run, &loop->iter, rest));
    }
    *length = loop->length;
    return LINNET_OK;
}

static ln_status loop_neighbour(ln_jinja_run *run, ln_jinja_loop *loop, bool next,
                                ln_jinja_value *out) {
    if (next)
        LN_TRY(ln_jinja_loop_peek(run, loop));
    *out = next ? loop->after : loop->before;
    if (out->kind == LN_JINJA_MISSING)
        return ln_jinja_undefined_hint(
            run, next ? "there is no next item" : "there is no previous item", out);
    return LINNET_OK;
}

ln_status ln_jinja_loop_attribute(ln_jinja_run *run, ln_jinja_loop *loop,
                                  const ln_jinja_string *name, ln_jinja_value *out, bool *found) {
    int64_t length;
    *found = true;
    if (ln_jinja_string_is(name, "index")) {
        *out = ln_jinja_int(loop->index0 + 1);
    } else if (ln_jinja_string_is(name, "index0")) {
        *out = ln_jinja_int(loop->index0);
    } else if (ln_jinja_string_is(name, "first")) {
        *out = ln_jinja_bool(loop->index0 == 0);
    } else if (ln_jinja_string_is(name, "last")) {
        LN_TRY(ln_jinja_loop_peek(run, loop));
        *out = ln_jinja_bool(loop->after.kind == LN_JINJA_MISSING);
    } else if (ln_jinja_string_is(name, "length") || ln_jinja_string_is(name, "revindex") ||
               ln_jinja_string_is(name, "revindex0")) {
        LN_TRY(loop_length(run, loop, &length));
        int64_t before = ln_jinja_string_is(name, "length")     ? 0
                         : ln_jinja_string_is(name, "revindex") ? loop->index0
                                                                : loop->index0 + 1;
        *out = ln_jinja_int(length - before);
    } else if (ln_jinja_string_is(name, "previtem") || ln_jinja_string_is(name, "nextitem")) {
        return loop_neighbour(run, loop, ln_jinja_string_is(name, "nextitem"), out);
    } else if (ln_jinja_string_is(name, "depth")) {
        *out = ln_jinja_int(loop->depth0 + 1);
    } else if (ln_jinja_string_is(name, "depth0")) {
        *out = ln_jinja_int(loop->depth0);
    } else {
        *found = false;
    }
    return LINNET_OK;
}

METHOD(loop_cycle) {
    if (args->n_positional == 0)
        return ln_jinja_raise(run, "TypeError", "no items for cycling given");
    *out = args->positional[(size_t)self.as.loop->index0 % args->n_positional];
    return LINNET_OK;
}

METHOD(loop_changed) {
    ln_jinja_loop *loop = self.as.loop;
    ln_jinja_value now;
    bool equal = false;
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, args->n_positional, &now));
    for (size_t i = 0; i < args->n_positional; i++)
        LN_TRY(ln_jinja_list_push(run, now, args->positional[i]));
    if (loop->changed.kind != LN_JINJA_MISSING)
        LN_TRY(ln_jinja_equal(run, loop->changed, now, &equal));
    if (!equal)
        loop->changed = now;
    *out = ln_jinja_bool(!equal);
    return LINNET_OK;
}

/* ---- dicts, lists, numbers, cyclers ----------------------------------------------------- */

static ln_status new_view(ln_jinja_run *run, ln_jinja_dict *dict, ln_jinja_view_kind kind,
                          ln_jinja_value *out) {
    out->kind = LN_JINJA_VIEW;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.view, &out->as.view));
    *out->as.view = (ln_jinja_view){.dict = dict, .kind = kind};
    return LINNET_OK;
}

METHOD(dict_keys) {
    (void)args;
    return new_view(run, self.as.dict, LN_JINJA_VIEW_KEYS, out);
}
METHOD(dict_values) {
    (void)args;
    return new_view(run, self.as.dict, LN_JINJA_VIEW_VALUES, out);
}
METHOD(dict_items) {
    (void)args;
    return new_view(run, self.as.dict, LN_JINJA_VIEW_ITEMS, out);
}

METHOD(dict_get) {
    ln_jinja_value *found;
    LN_TRY(ln_jinja_dict_get(run, self.as.dict, ln_jinja_arg(args, 0), &found));
    *out = found != NULL               ? *found
           : ln_jinja_has_arg(args, 1) ? ln_jinja_arg(args, 1)
                                       : ln_jinja_none();
    return LINNET_OK;
}

static ln_status copy_dict(ln_jinja_run *run, const ln_jinja_dict *from, ln_jinja_dict *to) {
    for (size_t i = 0; i < from->n_pairs; i++)
        LN_TRY(ln_jinja_dict_set(run, to, from->pairs[i].key, from->pairs[i].item));
    return LINNET_OK;
}

METHOD(dict_copy) {
    (void)args;
    LN_TRY(ln_jinja_dict_new(run, out));
    return copy_dict(run, self.as.dict, out->as.dict);
}

METHOD(list_copy) {
    (void)args;
    return ln_jinja_to_list(run, self, out);
}

METHOD(sequence_count) {
    ln_jinja_iter iter;
    int64_t count = 0;
    LN_TRY(ln_jinja_iter_init(run, &iter, self));
    for (;;) {
        ln_jinja_value item;
        bool done, equal;
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            break;
        LN_TRY(ln_jinja_equal(run, item, ln_jinja_arg(args, 0), &equal));
        count += equal;
    }
    *out = ln_jinja_int(count);
    return LINNET_OK;
}

METHOD(sequence_index) {
    int64_t length, start, stop;
    ln_jinja_iter iter;
    LN_TRY(ln_jinja_length(run, self, &length));
    LN_TRY(ln_jinja_arg_int(run, args, 1, 0, &start));
    LN_TRY(ln_jinja_arg_int(run, args, 2, length, &stop));
    start = start < 0 ? (start < -length ? 0 : start + length) : start;
    stop = stop < 0 ? (stop < -length ? 0 : stop + length) : stop;
    LN_TRY(ln_jinja_iter_init(run, &iter, self));
    for (int64_t i = 0;; i++) {
        ln_jinja_value item;
        bool done, equal = false;
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done || i >= stop)
            break;
        if (i >= start)
            LN_TRY(ln_jinja_equal(run, item, ln_jinja_arg(args, 0), &equal));
        if (equal) {
            *out = ln_jinja_int(i);
            return LINNET_OK;
        }
    }
    return ln_jinja_raise(run, "ValueError", "%s is not in %s",
                          ln_jinja_quote(run, ln_jinja_arg(args, 0)), ln_jinja_type_name(self));
}

METHOD(float_is_integer) {
    (void)run, (void)args;
    *out = ln_jinja_bool(isfinite(self.as.real) && self.as.real == trunc(self.as.real));
    return LINNET_OK;
}

METHOD(int_bit_length) {
    (void)run, (void)args;
    int64_t value = self.kind == LN_JINJA_BOOL ? self.as.boolean : self.as.integer;
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    *out = ln_jinja_int(magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude));
    return LINNET_OK;
}

METHOD(cycler_next) {
    (void)run, (void)args;
    ln_jinja_cycler *cycler = self.as.cycler;
    *out = cycler->items->items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->items->n_items;
    return LINNET_OK;
}

METHOD(cycler_reset) {
    (void)run, (void)args;
    self.as.cycler->position = 0;
    *out = ln_jinja_none();
    return LINNET_OK;
}

static const ln_jinja_builtin dict_methods[] = {
    {"keys", dict_keys, "", 0},   {"values", dict_values, "", 0},
    {"items", dict_items, "", 0}, {"get", dict_get, "key default ", 1},
    {"copy", dict_copy, "", 0},
};
static const ln_jinja_builtin list_methods[] = {
    {"count", sequence_count, "value ", 1},
    {"index", sequence_index, "value start stop ", 1},
    {"copy", list_copy, "", 0},
};
static const ln_jinja_builtin loop_methods[] = {
    {"cycle", loop_cycle, NULL, 0},
    {"changed", loop_changed, NULL, 0},
};
static const ln_jinja_builtin cycler_methods[] = {
    {"next", cycler_next, "", 0},
    {"reset", cycler_reset, "", 0},
};
static const ln_jinja_builtin float_methods[] = {{"is_integer", float_is_integer, "", 0}};
static const ln_jinja_builtin int_methods[] = {{"bit_length", int_bit_length, "", 0}};

#define FIND(table) ln_jinja_find(table, sizeof(table) / sizeof *(table), name)

const ln_jinja_builtin *ln_jinja_find_method(ln_jinja_value self, const ln_jinja_string *name) {
    switch (self.kind) {
    case LN_JINJA_STRING: return ln_jinja_find_string_method(name);
    case LN_JINJA_DICT: return FIND(dict_methods);
    case LN_JINJA_LIST: return FIND(list_methods);
    case LN_JINJA_TUPLE:
    case LN_JINJA_RANGE: return ln_jinja_find(list_methods, 2, name);
    case LN_JINJA_LOOP: return FIND(loop_methods);
    case LN_JINJA_CYCLER: return FIND(cycler_methods);
    case LN_JINJA_FLOAT: return FIND(float_methods);
    case LN_JINJA_BOOL:
    case LN_JINJA_INT: return FIND(int_methods);
    default: return NULL;
    }
}

/* ---- global functions ------------------------------------------------------------------- */

METHOD(global_range) {
    (void)self;
    int64_t start = 0, stop = 0, step = 1;
    if (!ln_jinja_has_arg(args, 0))
        return ln_jinja_raise(run, "TypeError", "range expected at least 1 argument, got 0");
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &stop));
    if (ln_jinja_has_arg(args, 1)) {
        start = stop;
        LN_TRY(ln_jinja_arg_int(run, args, 1, 0, &stop));
    }
    LN_TRY(ln_jinja_arg_int(run, args, 2, 1, &step));
    if (step == 0)
        return ln_jinja_raise(run, "ValueError", "range() arg 3 must not be zero");
    uint64_t distance = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 ? start < stop : stop < start)
        distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t length = distance == 0 ? 0 : (distance - 1) / stride + 1;
    if (length > LN_JINJA_MAX_RANGE)
        return ln_jinja_raise(
            run, "OverflowError",
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
            LN_JINJA_MAX_RANGE);
    out->kind = LN_JINJA_RANGE;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.range, &out->as.range));
    *out->as.range =
        (ln_jinja_range){.start = start, .stop = stop, .step = step, .length = (size_t)length};
    return LINNET_OK;
}

static ln_status add_pairs(ln_jinja_run *run, ln_jinja_value pairs, ln_jinja_dict *dict) {
    ln_jinja_iter iter;
    LN_TRY(ln_jinja_iter_init(run, &iter, pairs));
    for (size_t i = 0;; i++) {
        ln_jinja_value item, pair;
        bool done;
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            return LINNET_OK;
        LN_TRY(ln_jinja_to_list(run, item, &pair));
        if (pair.as.list->n_items != 2)
            return ln_jinja_raise(
                run, "ValueError",
                "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                pair.as.list->n_items);
        LN_TRY(ln_jinja_dict_set(run, dict, pair.as.list->items[0], pair.as.list->items[1]));
    }
}

METHOD(global_dict) {
    (void)self;
    LN_TRY(ln_jinja_dict_new(run, out));
    if (args->n_positional > 1)
        return ln_jinja_raise(run, "TypeError", "dict expected at most 1 argument, got %zu",
                              args->n_positional);
    if (args->n_positional == 1) {
        ln_jinja_value source = args->positional[0];
        if (source.kind == LN_JINJA_DICT)
            LN_TRY(copy_dict(run, source.as.dict, out->as.dict));
        else
            LN_TRY(add_pairs(run, source, out->as.dict));
    }
    for (size_t i = 0; i < args->n_named; i++) {
        ln_jinja_value name;
        LN_TRY(
            ln_jinja_string_part(run, args->named[i].name, 0, args->named[i].name->n_bytes, &name));
        LN_TRY(ln_jinja_dict_set(run, out->as.dict, name, args->named[i].value));
    }
    return LINNET_OK;
}

METHOD(global_namespace) {
    LN_TRY(global_dict(run, self, args, out));
    out->kind = LN_JINJA_NAMESPACE;
    return LINNET_OK;
}

static ln_status new_cycler(ln_jinja_run *run, ln_jinja_kind kind, const ln_jinja_value *items,
                            size_t n, ln_jinja_value *out) {
    ln_jinja_value list;
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, n, &list));
    for (size_t i = 0; i < n; i++)
        LN_TRY(ln_jinja_list_push(run, list, items[i]));
    out->kind = kind;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.cycler, &out->as.cycler));
    out->as.cycler->items = list.as.list;
    return LINNET_OK;
}

METHOD(global_cycler) {
    (void)self;
    if (args->n_positional == 0)
        return ln_jinja_raise(run, "RuntimeError", "at least one item has to be provided");
    return new_cycler(run, LN_JINJA_CYCLER, args->positional, args->n_positional, out);
}

METHOD(global_joiner) {
    (void)self;
    ln_jinja_value separator = ln_jinja_arg(args, 0);
    if (separator.kind == LN_JINJA_MISSING)
        LN_TRY(ln_jinja_string_c(run, ", ", &separator));
    return new_cycler(run, LN_JINJA_JOINER, &separator, 1, out);
}

METHOD(global_raise_exception) {
    (void)self, (void)out;
    ln_jinja_string *message;
    LN_TRY(ln_jinja_str(run, ln_jinja_arg(args, 0), &message));
    if (ln_jinja_arg(args, 0).kind == LN_JINJA_NONE)
        return ln_jinja_raise(run, "TemplateError", "None");
    return ln_jinja_raise(run, "TemplateError", "%.*s",
                          (int)(message->n_bytes < 900 ? message->n_bytes : 900),
                          ln_jinja_bytes(message));
}

METHOD(global_strftime_now) {
    (void)self;
    ln_jinja_string *format = NULL;
    char text[1024], pattern[512];
    LN_TRY(ln_jinja_arg_string(run, args, 0, &format));
    if (format->n_bytes >= sizeof pattern - 1)
        return ln_jinja_raise(run, "ValueError", "the format of strftime_now is too long");
    memcpy(pattern, ln_jinja_bytes(format), format->n_bytes);
    memcpy(pattern + format->n_bytes, "!", 2); /* tells an empty result from a failure */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, pattern, run->now);
#pragma GCC diagnostic pop
    if (n == 0)
        return ln_jinja_raise(run, "ValueError", "the result of strftime_now is too long");
    return ln_jinja_string_new(run, text, n - 1, ln_jinja_string_trusted(format), out);
}

METHOD(global_lipsum) {
    (void)self, (void)args, (void)out;
    return ln_jinja_raise(run, "TemplateRuntimeError", "lipsum is not supported in chat templates");
}

static const ln_jinja_builtin globals[] = {
    {"range", global_range, "start stop step ", 0},
    {"dict", global_dict, NULL, 0},
    {"namespace", global_namespace, NULL, 0},
    {"cycler", global_cycler, NULL, 0},
    {"joiner", global_joiner, "sep ", 0},
    {"raise_exception", global_raise_exception, "message ", 1},
    {"strftime_now", global_strftime_now, "format ", 1},
    {"lipsum", global_lipsum, NULL, 0},
};

const ln_jinja_builtin *ln_jinja_find_global(const ln_jinja_string *name) {
    return FIND(globals);
}
