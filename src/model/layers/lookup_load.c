#include "model/layers/lookup_load.h"

#include <math.h>

ln_status ln_load_lookup(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    size_t width = spec->n_layers * spec->lookup_dim;
    if (width == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_LOOKUP_EMBEDDING, 0, spec->n_lookup, width,
                          &w->lookup_embedding));
    LN_TRY(
        ln_load_matrix(l, LN_ROLE_LOOKUP_PROJECTION, 0, width, spec->dim, &w->lookup_projection));
    return ln_load_norm(l, LN_ROLE_LOOKUP_NORM, 0, spec->lookup_dim, &w->lookup_norm);
}

ln_status ln_load_layer_lookup(ln_loader *l, const ln_layer_spec *layer, size_t i,
                               ln_layer_weights *w) {
    const ln_spec *spec = l->spec;
    ln_tensor_id scale = {.role = LN_ROLE_LAYER_SCALE, .layer = i};
    if (layer->scaled)
        LN_TRY(ln_load_vector(l, scale, 1, &w->scale));
    if (spec->lookup_dim == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_LOOKUP_GATE, i, spec->lookup_dim, spec->dim, &w->lookup_gate));
    LN_TRY(ln_load_matrix(l, LN_ROLE_LOOKUP_OUT, i, spec->dim, spec->lookup_dim, &w->lookup_out));
    return ln_load_norm(l, LN_ROLE_LOOKUP_POST_NORM, i, spec->dim, &w->lookup_post_norm);
}

ln_status ln_load_experts_beside(ln_loader *l, size_t i, const ln_moe_spec *moe,
                                 ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    ln_tensor_id scale = {.role = LN_ROLE_EXPERT_SCALE, .layer = i};
    LN_TRY(ln_load_norm(l, LN_ROLE_DENSE_POST_NORM, i, dim, &w->dense_post_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_EXPERTS_NORM, i, dim, &w->experts_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_EXPERTS_POST_NORM, i, dim, &w->experts_post_norm));
    LN_TRY(ln_load_scaled_norm(l, LN_ROLE_ROUTER_NORM, i, dim, 1.0f / sqrtf((float)dim),
                               &w->router_norm));
    return ln_load_vector(l, scale, moe->n_experts, &w->expert_scale);
}

void ln_load_skip_borrowed(const ln_loader *l, size_t i) {
    static const ln_role roles[] = {LN_ROLE_K, LN_ROLE_V, LN_ROLE_K_NORM};
    const ln_binding *binding;
    for (size_t k = 0; k < sizeof roles / sizeof *roles && l->unused != NULL; k++)
        for (int is_bias = 0; is_bias < 2; is_bias++) {
            ln_tensor_id id = {.role = roles[k], .layer = i, .is_bias = is_bias};
            ln_unused_tensors_mark(l->unused,
                                   ln_family_find(l->spec->family, l->checkpoint, id, &binding));
        }
}
