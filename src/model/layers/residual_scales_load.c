#include <stdlib.h>

#include "model/layers/residual_scales.h"

/* Vectors of roles one after another, [dim] each. */
static ln_status read_vectors(ln_loader *l, ln_role first, size_t n, size_t layer, float *out) {
    size_t dim = l->spec->dim;
    bool is_there;
    for (size_t i = 0; i < n; i++)
        LN_TRY(
            ln_load_values(l, (ln_role)(first + i), layer, false, dim, out + i * dim, &is_there));
    return LINNET_OK;
}

/* Whether what joins the stream is scaled and shifted, too, and the embedding. */
static bool scales_all(const ln_loader *l) {
    ln_tensor_id id = {.role = LN_ROLE_EMBEDDING_SCALE};
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    return ln_family_binding(l->spec->family, format, id, 0) != NULL;
}

/* What stays of a block's input, where nothing else is scaled. */
static ln_status load_residual_scale(ln_loader *l, ln_role role, size_t layer,
                                     const float **scale) {
    ln_tensor_id id = {.role = role, .layer = layer};
    return ln_load_vector(l, id, l->spec->dim, scale);
}

/* A block's four vectors; stays and adds become what x is multiplied with, and what is added. */
static ln_status load_block(ln_loader *l, ln_role first, size_t layer, const float **scale,
                            const float **shift, const float **out_scale) {
    size_t dim = l->spec->dim;
    float *v = calloc(dim, 4 * sizeof *v);
    if (v == NULL)
        return ln_fail_memory(l->err, "scales of a residual stream");
    const float *residual_shift = v, *residual_scale = v + dim, *output_shift = v + 2 * dim;
    float *output_scale = v + 3 * dim;
    ln_status status = read_vectors(l, first, 4, layer, v);
    if (status == LINNET_OK)
        status = ln_load_table(l, residual_scale, dim, scale);
    if (status == LINNET_OK)
        status = ln_load_table(l, output_scale, dim, out_scale);
    for (size_t i = 0; i < dim; i++)
        v[i] = residual_shift[i] * residual_scale[i] + output_shift[i] * output_scale[i];
    if (status == LINNET_OK)
        status = ln_load_table(l, v, dim, shift);
    free(v);
    return status;
}

ln_status ln_load_residual_scales(ln_loader *l, size_t layer, ln_layer_weights *w) {
    if (!l->spec->scales_residual)
        return LINNET_OK;
    if (!scales_all(l)) {
        LN_TRY(load_residual_scale(l, LN_ROLE_ATTENTION_RESIDUAL_SCALE, layer,
                                   &w->attention_residual_scale));
        return load_residual_scale(l, LN_ROLE_FFN_RESIDUAL_SCALE, layer, &w->ffn_residual_scale);
    }
    LN_TRY(load_block(l, LN_ROLE_ATTENTION_RESIDUAL_SHIFT, layer, &w->attention_residual_scale,
                      &w->attention_residual_shift, &w->attention_post_scale));
    LN_TRY(load_block(l, LN_ROLE_FFN_RESIDUAL_SHIFT, layer, &w->ffn_residual_scale,
                      &w->ffn_residual_shift, &w->ffn_post_scale));
    w->attention_post_norm = (ln_norm){.kind = LN_NORM_NONE, .dim = l->spec->dim};
    w->ffn_post_norm = w->attention_post_norm;
    return LINNET_OK;
}

ln_status ln_load_embedding_scales(ln_loader *l) {
    size_t dim = l->spec->dim;
    if (!l->spec->scales_residual || !scales_all(l))
        return LINNET_OK;
    float *shift = calloc(dim, 2 * sizeof *shift);
    if (shift == NULL)
        return ln_fail_memory(l->err, "scales of the embedding");
    float *scale = shift + dim;
    ln_status status = read_vectors(l, LN_ROLE_EMBEDDING_SHIFT, 2, 0, shift);
    for (size_t i = 0; i < dim; i++)
        shift[i] *= scale[i];
    if (status == LINNET_OK)
        status = ln_load_table(l, scale, dim, &l->weights->embedding_scales);
    if (status == LINNET_OK)
        status = ln_load_table(l, shift, dim, &l->weights->embedding_shifts);
    free(shift);
    return status;
}
