#include "model/layers/wanted_rows.h"

/* Whether behind the last attention nothing is wanted but some rows of the last norm, and blocks
 * read no more than the residual stream. */
static bool wants_few_rows(const recorder *r, const ln_layer_spec *spec,
                           const ln_layer_weights *w) {
    const ln_batch *b = r->batch;
    const ln_spec *s = r->spec;
    size_t n_wanted = b->n_logits + b->n_hidden;
    bool is_last =
        !r->encoder && r->weights->end_layer == s->n_layers && (size_t)r->layer + 1 == s->n_layers;
    bool is_one_stream = s->hyper.n == 0 && s->n_streams == 0 && s->lookup_dim == 0 &&
                         s->cycle_layers == 0 && s->loop_layers == 0 && s->ranks.n == 0 &&
                         s->ranks.layers.n == 0;
    bool drafts = s->head != NULL || s->aux_layers.n > 0 || s->keeps_rows;
    bool is_plain = spec->mixer.kind != LN_MIXER_SHORT_CONVS &&
                    spec->placement != LN_PLACE_PARALLEL && spec->placement != LN_PLACE_NORMED &&
                    spec->ffn.moe.n_experts == 0 && !spec->scaled && !spec->takes_shortcut &&
                    w->ffn_norm_low.n_rows == 0;
    return is_last && is_one_stream && is_plain && !drafts && b->adapters.n_runs == 0 &&
           b->logit_adapters.n_runs == 0 && (b->n_logits == 0 || b->n_hidden == 0) &&
           n_wanted > 0 && n_wanted < b->n_tokens;
}

/* The residual stream goes on with the wanted rows alone, in the memory of what was normed. */
static void gather_wanted(recorder *r) {
    const ln_batch *b = r->batch;
    ln_op_norm *gather = norm(r, &r->weights->copy, r->a->x, NULL, r->a->normed);
    gather->rows = b->n_logits > 0 ? b->logit_rows : b->hidden_rows;
    gather->n_rows = b->n_logits + b->n_hidden;
    r->wanted = *b;
    r->wanted.n_tokens = gather->n_rows;
    r->wanted.logit_rows = r->wanted.hidden_rows = NULL;
    r->of_wanted = *r->a;
    r->of_wanted.x = r->a->normed;
    r->of_wanted.normed = r->a->x;
    r->batch = &r->wanted;
    r->a = &r->of_wanted;
}

bool ln_record_wanted_rows(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    if (!wants_few_rows(r, spec, w))
        return false;
    gather_wanted(r);
    return true;
}
