#include <math.h>
#include <stdlib.h>

#include "model/layers/blend.h"

enum { RESIDUAL, OUTPUT, N_PARTS };

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

/* What joins is sigmoid(w), what stays sqrt(sigmoid(-w) (1 + sigmoid(w))), but not too small. */
static void residual_weights(double temperature, size_t n, const float *gates, float *residual,
                             float *output) {
    const double least = 1e-3;
    for (size_t i = 0; i < n; i++) {
        double gate = gates[i] / temperature, joined = sigmoid(gate);
        output[i] = (float)joined;
        residual[i] = (float)sqrt(fmax(sigmoid(-gate) * (1.0 + joined), least));
    }
}

/* The weights of a norm behind a block become what joins. */
static ln_status read_blend(ln_loader *l, ln_role role, size_t i, const float **scale,
                            ln_norm *post_norm) {
    size_t dim = l->spec->dim;
    float *values = calloc(dim, (1 + N_PARTS) * sizeof *values);
    bool is_there;
    if (values == NULL)
        return ln_fail_memory(l->err, "weights of a residual stream");
    float *parts = values + dim;
    ln_status status = ln_load_values(l, role, i, false, dim, values, &is_there);
    residual_weights(l->spec->blend_temperature, dim, values, parts + RESIDUAL * dim,
                     parts + OUTPUT * dim);
    if (status == LINNET_OK)
        status = ln_load_table(l, parts + RESIDUAL * dim, dim, scale);
    *post_norm = (ln_norm){.kind = LN_NORM_RMS, .eps = l->spec->post_norm_eps, .dim = dim};
    if (status == LINNET_OK)
        status = ln_load_table(l, parts + OUTPUT * dim, dim, &post_norm->weight);
    free(values);
    return status;
}

static float plus_one(float weight) {
    return weight + 1.0f;
}

/* 1 + weights of a norm that multiplies by them before it normalises. */
static ln_status read_scale(ln_loader *l, ln_role role, size_t i, size_t n, const float **scale) {
    return ln_load_value_table(l, role, i, false, n, plus_one, scale);
}

ln_status ln_load_blend(ln_loader *l, const ln_layer_spec *layer, size_t i, ln_layer_weights *w) {
    const ln_spec *spec = l->spec;
    size_t n_latent = layer->ffn.moe.n_latent;
    if (spec->blend_temperature == 0)
        return LINNET_OK;
    LN_TRY(read_blend(l, LN_ROLE_ATTENTION_BLEND, i, &w->attention_residual_scale,
                      &w->attention_post_norm));
    LN_TRY(read_blend(l, LN_ROLE_FFN_BLEND, i, &w->ffn_residual_scale, &w->ffn_post_norm));
    LN_TRY(read_scale(l, LN_ROLE_FFN_POST_NORM, i, spec->dim, &w->ffn_post_scale));
    w->head_norm =
        (ln_norm){.kind = LN_NORM_RMS, .eps = spec->norm_eps, .dim = layer->attention.v_dim};
    if (layer->ffn.moe.n_experts == 0 || n_latent == 0)
        return LINNET_OK;
    LN_TRY(ln_load_norm(l, LN_ROLE_EXPERT_IN_NORM, i, n_latent, &w->expert_in_norm));
    LN_TRY(read_scale(l, LN_ROLE_EXPERT_OUT_NORM, i, n_latent, &w->expert_post_scale));
    w->expert_out_norm =
        (ln_norm){.kind = LN_NORM_RMS, .eps = spec->post_norm_eps, .dim = n_latent};
    return LINNET_OK;
}
