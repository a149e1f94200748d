/* Iteration over whatever can be iterated. */
#include "text/jinja/run.h"

ln_status ln_jinja_iter_init(ln_jinja_run *run, ln_jinja_iter *iter, ln_jinja_value source) {
    *iter = (ln_jinja_iter){.source = source};
    if (ln_jinja_is_iterable(source))
        return LINNET_OK;
    return ln_jinja_raise(run, "TypeError", "'%s' object is not iterable",
                          ln_jinja_type_name(source));
}

static ln_status next_of_string(ln_jinja_run *run, ln_jinja_iter *iter, ln_jinja_value *out) {
    const ln_jinja_string *string = iter->source.as.string;
    size_t n = string->n_bytes - iter->index;
    ln_jinja_decode(ln_jinja_bytes(string) + iter->index, &n);
    LN_TRY(ln_jinja_string_part(run, string, iter->index, iter->index + n, out));
    out->as.string->markup = false;
    iter->index += n;
    return LINNET_OK;
}

static ln_status next_of_dict(ln_jinja_run *run, const ln_jinja_dict *dict, ln_jinja_view_kind kind,
                              size_t index, ln_jinja_value *out) {
    const ln_jinja_pair *pair = &dict->pairs[index];
    if (kind == LN_JINJA_VIEW_ITEMS)
        return ln_jinja_pair_new(run, pair->key, pair->item, out);
    *out = kind == LN_JINJA_VIEW_KEYS ? pair->key : pair->item;
    return LINNET_OK;
}

static ln_status next_of_generator(ln_jinja_run *run, ln_jinja_generator *generator,
                                   ln_jinja_value *out, bool *done) {
    *done = generator->done;
    if (generator->done)
        return LINNET_OK;
    if (generator->running)
        return ln_jinja_raise(run, "ValueError", "generator already executing");
    generator->running = true;
    LN_TRY(ln_jinja_enter(run));
    LN_TRY(generator->next(run, generator, out, done));
    ln_jinja_leave(run);
    generator->running = false;
    generator->done = *done;
    return LINNET_OK;
}

ln_status ln_jinja_iter_next(ln_jinja_run *run, ln_jinja_iter *iter, ln_jinja_value *out,
                             bool *done) {
    const ln_jinja_value *source = &iter->source;
    LN_TRY(ln_jinja_spend(run, 1));
    *done = false;
    switch (source->kind) {
    case LN_JINJA_STRING:
        if (iter->index < source->as.string->n_bytes)
            return next_of_string(run, iter, out);
        break;
    case LN_JINJA_LIST:
    case LN_JINJA_TUPLE:
        if (iter->index < source->as.list->n_items) {
            *out = source->as.list->items[iter->index++];
            return LINNET_OK;
        }
        break;
    case LN_JINJA_DICT:
        if (iter->index < source->as.dict->n_pairs)
            return next_of_dict(run, source->as.dict, LN_JINJA_VIEW_KEYS, iter->index++, out);
        break;
    case LN_JINJA_VIEW:
        if (iter->index < source->as.view->dict->n_pairs)
            return next_of_dict(run, source->as.view->dict, source->as.view->kind, iter->index++,
                                out);
        break;
    case LN_JINJA_RANGE:
        if (iter->index < source->as.range->length) {
            const ln_jinja_range *range = source->as.range;
            *out = ln_jinja_int(range->start + (int64_t)iter->index++ * range->step);
            return LINNET_OK;
        }
        break;
    case LN_JINJA_GENERATOR: return next_of_generator(run, source->as.generator, out, done);
    default: break;
    }
    *done = true;
    return LINNET_OK;
}

ln_status ln_jinja_generator_new(ln_jinja_run *run, ln_jinja_next_fn next, void *state,
                                 const char *type_name, ln_jinja_value *out) {
    out->kind = LN_JINJA_GENERATOR;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.generator, &out->as.generator));
    *out->as.generator = (ln_jinja_generator){.next = next, .type_name = type_name, .state = state};
    return LINNET_OK;
}

ln_status ln_jinja_to_list(ln_jinja_run *run, ln_jinja_value source, ln_jinja_value *out) {
    ln_jinja_iter iter;
    LN_TRY(ln_jinja_iter_init(run, &iter, source));
    bool sized = source.kind == LN_JINJA_LIST || source.kind == LN_JINJA_TUPLE;
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, sized ? source.as.list->n_items : 0, out));
    for (;;) {
        ln_jinja_value item;
        bool done;
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            return LINNET_OK;
        LN_TRY(ln_jinja_list_push(run, *out, item));
    }
}
