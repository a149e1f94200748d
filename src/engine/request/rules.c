#include "engine/request/rules.h"

#include <string.h>

typedef struct rules_layout {
    size_t biases, bad_ids, bad_ends, stop_ids, breakers;
} rules_layout;

size_t ln_request_stop_ids(const linnet_model *model, const linnet_request_options *options) {
    const linnet_request_options *o = options;
    return o->n_stop_ids + (o->ignore_eos ? 0 : model->n_stop_ids);
}

static rules_layout lay_out(const linnet_model *model, const linnet_request_options *o,
                            ln_layout *layout) {
    rules_layout r;
    const ln_forbidden *forbidden = &model->forbidden;
    size_t n_words = forbidden->n_words;
    size_t n_bad_ids = n_words > 0 ? forbidden->ends[n_words - 1] : 0;
    for (size_t i = 0; i < o->n_bad_words; i++)
        n_bad_ids += o->bad_words[i].n_ids;
    r.biases = ln_layout_add(layout, o->n_logit_bias, sizeof(linnet_logit_bias));
    r.bad_ids = ln_layout_add(layout, n_bad_ids, sizeof(int32_t));
    r.bad_ends = ln_layout_add(layout, n_words + o->n_bad_words, sizeof(size_t));
    r.stop_ids = ln_layout_add(layout, ln_request_stop_ids(model, o), sizeof(int32_t));
    r.breakers = ln_layout_add(layout, o->n_dry_breakers, sizeof(int32_t));
    return r;
}

size_t ln_request_rules_plan(ln_layout *layout, const linnet_model *model,
                             const linnet_request_options *options) {
    return lay_out(model, options, layout).biases;
}

/* Copies to base + offset, and returns where that is. */
static void *copy(void *base, size_t offset, const void *from, size_t n_bytes) {
    char *to = (char *)base + offset;
    if (n_bytes > 0)
        memcpy(to, from, n_bytes);
    return to;
}

/* The model's words, then the request's. */
static size_t copy_words(const ln_forbidden *forbidden, const linnet_request_options *o,
                         int32_t *ids, size_t *ends) {
    size_t n = forbidden->n_words, n_ids = n > 0 ? forbidden->ends[n - 1] : 0;
    if (n > 0) {
        memcpy(ids, forbidden->ids, n_ids * sizeof *ids);
        memcpy(ends, forbidden->ends, n * sizeof *ends);
    }
    for (size_t i = 0; i < o->n_bad_words; i++) {
        const linnet_token_list *word = &o->bad_words[i];
        memcpy(ids + n_ids, word->ids, word->n_ids * sizeof *ids);
        ends[n++] = n_ids += word->n_ids;
    }
    return n;
}

void ln_request_rules_init(ln_token_rules *rules, const linnet_model *model,
                           const linnet_request_options *options, void *memory) {
    const linnet_request_options *o = options;
    ln_layout layout = {0};
    rules_layout r = lay_out(model, o, &layout);
    int32_t *bad_ids = copy(memory, r.bad_ids, NULL, 0);
    size_t *bad_ends = copy(memory, r.bad_ends, NULL, 0);
    int32_t *stop_ids = copy(memory, r.stop_ids, o->stop_ids, o->n_stop_ids * sizeof *stop_ids);
    size_t n_bad_words = copy_words(&model->forbidden, o, bad_ids, bad_ends);
    if (!o->ignore_eos && model->n_stop_ids > 0)
        memcpy(stop_ids + o->n_stop_ids, model->stop_ids, model->n_stop_ids * sizeof *stop_ids);
    *rules = (ln_token_rules){
        .biases =
            copy(memory, r.biases, o->logit_bias, o->n_logit_bias * sizeof(linnet_logit_bias)),
        .n_biases = o->n_logit_bias,
        .bad_ids = bad_ids,
        .bad_ends = bad_ends,
        .n_bad_words = n_bad_words,
        .stop_ids = stop_ids,
        .n_stop_ids = ln_request_stop_ids(model, o),
        .forces_end = !o->ignore_eos && model->forced_end_id >= 0,
        .forced_end_id = model->forced_end_id,
        .min_tokens = o->min_tokens > 0 ? o->n_prompt_ids + o->min_tokens : 0,
        .dry_breakers =
            copy(memory, r.breakers, o->dry_breakers, o->n_dry_breakers * sizeof(int32_t)),
        .n_dry_breakers = o->n_dry_breakers,
    };
}
