#include "model/layers/experts_load.h"

#include "model/family.h"
#include "model/layers/lookup_load.h"

static size_t width_of(const ln_loader *l, const ln_moe_spec *moe) {
    return moe->n_latent > 0 ? moe->n_latent : l->spec->dim;
}

static ln_status experts(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_layer_weights *w) {
    const ln_moe_spec *moe = &layer->ffn.moe;
    size_t width = width_of(l, moe), n_here = ln_layer_n_experts(layer);
    ln_source_shape in = {n_here, moe->n_hidden, width};
    ln_source_shape out = {n_here, width, moe->n_hidden};
    if (layer->ffn.gated)
        LN_TRY(ln_ldmatrix(l, LN_ROLE_EXPERT_GATE, i, &in, &w->experts_gate));
    LN_TRY(ln_ldmatrix(l, LN_ROLE_EXPERT_UP, i, &in, &w->experts_up));
    return ln_ldmatrix(l, LN_ROLE_EXPERT_DOWN, i, &out, &w->experts_down);
}

static ln_status shared_expert(ln_loader *l, size_t i, const ln_ffn_spec *ffn,
                               ln_layer_weights *w) {
    const ln_moe_spec *moe = &ffn->moe;
    size_t dim = l->spec->dim;
    if (moe->shared_hidden == 0)
        return LINNET_OK;
    if (ffn->gated)
        LN_TRY(ln_load_matrix(l, LN_ROLE_SHARED_GATE, i, moe->shared_hidden, dim, &w->shared_gate));
    LN_TRY(ln_load_matrix(l, LN_ROLE_SHARED_UP, i, moe->shared_hidden, dim, &w->shared_up));
    LN_TRY(ln_load_matrix(l, LN_ROLE_SHARED_DOWN, i, dim, moe->shared_hidden, &w->shared_down));
    if (!moe->shared_gate)
        return LINNET_OK;
    return ln_load_matrix(l, LN_ROLE_SHARED_ROUTER, i, 1, dim, &w->shared_router);
}

ln_status ln_load_experts(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_layer_weights *w) {
    const ln_moe_spec *moe = &layer->ffn.moe;
    size_t dim = l->spec->dim, width = width_of(l, moe);
    LN_TRY(ln_load_matrix(l, LN_ROLE_ROUTER, i, moe->n_experts, dim, &w->router));
    if (moe->beside)
        LN_TRY(ln_load_experts_beside(l, i, moe, w));
    ln_tensor_id bias = {.role = LN_ROLE_ROUTER_BIAS, .layer = i, .stem = l->stem};
    if (ln_family_binding(l->spec->family, ln_checkpoint_get_format(l->checkpoint), bias, 0) !=
        NULL)
        LN_TRY(ln_load_vector(l, bias, moe->n_experts, &w->router_bias));
    if (i >= l->options.experts_apart)
        LN_TRY(experts(l, i, layer, w));
    if (moe->n_latent > 0) {
        LN_TRY(ln_load_matrix(l, LN_ROLE_EXPERT_LATENT_IN, i, width, dim, &w->latent_in));
        LN_TRY(ln_load_matrix(l, LN_ROLE_EXPERT_LATENT_OUT, i, dim, width, &w->latent_out));
    }
    return shared_expert(l, i, &layer->ffn, w);
}

ln_status ln_load_only_experts(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_layer_weights planned = {0};
    size_t end = l->options.experts_apart;
    size_t offset = ln_layout_add(&l->table_layout, end, sizeof *l->weights->layers);
    if (l->table != NULL)
        l->weights->layers = (ln_layer_weights *)(void *)(l->table + offset);
    for (size_t i = 0; i < end && i < spec->n_layers; i++) {
        ln_layer_weights *w = l->table != NULL ? &l->weights->layers[i] : &planned;
        *w = (ln_layer_weights){0};
        if (spec->layers[i].ffn.moe.n_experts > 0)
            LN_TRY(experts(l, i, &spec->layers[i], w));
    }
    LN_TRY(ln_layout_check(&l->table_layout, "table of the experts", l->err));
    return ln_layout_check(&l->layout, "experts", l->err);
}
