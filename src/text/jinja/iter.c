/* Iteration over whatever can be iterated. */
#include "text/jinja/run.h"

ln_status ln_tpl_iter_init(ln_tpl_run *run, ln_tpl_iter *iter, ln_tpl_value source) {
    *iter = (ln_tpl_iter){.source = source};
    switch (source.kind) {
    case LN_TPL_UNDEFINED:
    case LN_TPL_STRING:
    case LN_TPL_LIST:
    case LN_TPL_TUPLE:
    case LN_TPL_DICT:
    case LN_TPL_VIEW:
    case LN_TPL_RANGE:
    case LN_TPL_GENERATOR:
    case LN_TPL_LOOP: return LINNET_OK;
    default:
        return ln_tpl_raise(run, "TypeError", "'%s' object is not iterable",
                            ln_tpl_type_name(source));
    }
}

static ln_status next_of_string(ln_tpl_run *run, ln_tpl_iter *iter, ln_tpl_value *out) {
    const ln_tpl_string *string = iter->source.as.string;
    size_t n = string->n_bytes - iter->index;
    ln_tpl_decode(ln_tpl_bytes(string) + iter->index, &n);
    LN_TRY(ln_tpl_string_part(run, string, iter->index, iter->index + n, out));
    out->as.string->markup = false;
    iter->index += n;
    return LINNET_OK;
}

static ln_status next_of_dict(ln_tpl_run *run, const ln_tpl_dict *dict, ln_tpl_view_kind kind,
                              size_t index, ln_tpl_value *out) {
    const ln_tpl_pair *pair = &dict->pairs[index];
    if (kind == LN_TPL_VIEW_ITEMS)
        return ln_tpl_pair_new(run, pair->key, pair->item, out);
    *out = kind == LN_TPL_VIEW_KEYS ? pair->key : pair->item;
    return LINNET_OK;
}

static ln_status next_of_generator(ln_tpl_run *run, ln_tpl_generator *generator, ln_tpl_value *out,
                                   bool *done) {
    *done = generator->done;
    if (generator->done)
        return LINNET_OK;
    if (generator->running)
        return ln_tpl_raise(run, "ValueError", "generator already executing");
    generator->running = true;
    LN_TRY(ln_tpl_enter(run));
    LN_TRY(generator->next(run, generator, out, done));
    ln_tpl_leave(run);
    generator->running = false;
    generator->done = *done;
    return LINNET_OK;
}

ln_status ln_tpl_iter_next(ln_tpl_run *run, ln_tpl_iter *iter, ln_tpl_value *out, bool *done) {
    const ln_tpl_value *source = &iter->source;
    LN_TRY(ln_tpl_spend(run, 1));
    *done = false;
    switch (source->kind) {
    case LN_TPL_STRING:
        if (iter->index < source->as.string->n_bytes)
            return next_of_string(run, iter, out);
        break;
    case LN_TPL_LIST:
    case LN_TPL_TUPLE:
        if (iter->index < source->as.list->n_items) {
            *out = source->as.list->items[iter->index++];
            return LINNET_OK;
        }
        break;
    case LN_TPL_DICT:
        if (iter->index < source->as.dict->n_pairs)
            return next_of_dict(run, source->as.dict, LN_TPL_VIEW_KEYS, iter->index++, out);
        break;
    case LN_TPL_VIEW:
        if (iter->index < source->as.view->dict->n_pairs)
            return next_of_dict(run, source->as.view->dict, source->as.view->kind, iter->index++,
                                out);
        break;
    case LN_TPL_RANGE:
        if (iter->index < source->as.range->length) {
            const ln_tpl_range *range = source->as.range;
            *out = ln_tpl_int(range->start + (int64_t)iter->index++ * range->step);
            return LINNET_OK;
        }
        break;
    case LN_TPL_GENERATOR: return next_of_generator(run, source->as.generator, out, done);
    default: break;
    }
    *done = true;
    return LINNET_OK;
}

ln_status ln_tpl_generator_new(ln_tpl_run *run, ln_tpl_next_fn next, void *state,
                               const char *type_name, ln_tpl_value *out) {
    out->kind = LN_TPL_GENERATOR;
    LN_TRY(ln_tpl_alloc(run, 1, sizeof *out->as.generator, &out->as.generator));
    *out->as.generator = (ln_tpl_generator){.next = next, .type_name = type_name, .state = state};
    return LINNET_OK;
}

ln_status ln_tpl_to_list(ln_tpl_run *run, ln_tpl_value source, ln_tpl_value *out) {
    ln_tpl_iter iter;
    LN_TRY(ln_tpl_iter_init(run, &iter, source));
    bool sized = source.kind == LN_TPL_LIST || source.kind == LN_TPL_TUPLE;
    LN_TRY(ln_tpl_list_new(run, LN_TPL_LIST, sized ? source.as.list->n_items : 0, out));
    for (;;) {
        ln_tpl_value item;
        bool done;
        LN_TRY(ln_tpl_iter_next(run, &iter, &item, &done));
        if (done)
            return LINNET_OK;
        LN_TRY(ln_tpl_list_push(run, *out, item));
    }
}
