#include <math.h>
#include <stdlib.h>

#include "model/family.h"
#include "model/layers/blend.h"
#include "model/shard.h"

#define UNIT_EPS 1e-6 /* of a sum of squares */

ln_status ln_spec_read_unit_sphere(const ln_config *config, ln_spec *spec, ln_error *err) {
    double range = 0.0177, alpha = 0.05;
    if (!spec->family->unit_sphere)
        return LINNET_OK;
    LN_TRY(ln_config_real(config, (ln_key){"initializer_range", ""}, 1e-9, 1, &range, err));
    LN_TRY(ln_config_real(config, (ln_key){"ngpt_alpha_init", ""}, 0, 1e3, &alpha, err));
    spec->unit_range = range;
    spec->unit_rate = alpha;
    return LINNET_OK;
}

/* An RMS norm whose weights are `scales` (NULL: ones) over the root of dim, so that it divides by
 * lengths. */
static ln_status unit_norm(ln_loader *l, size_t dim, const float *scales, ln_norm *out) {
    float *weights = calloc(dim, sizeof *weights);
    if (weights == NULL)
        return ln_fail_memory(l->err, "a norm");
    for (size_t i = 0; i < dim; i++)
        weights[i] = (float)((scales != NULL ? (double)scales[i] : 1.0) / sqrt((double)dim));
    *out = (ln_norm){.kind = LN_NORM_RMS, .eps = (float)(UNIT_EPS / (double)dim), .dim = dim};
    ln_status status = ln_load_table(l, weights, dim, &out->weight);
    free(weights);
    return status;
}

ln_status ln_load_unit_norm(ln_loader *l, size_t dim, ln_norm *out) {
    return unit_norm(l, dim, NULL, out);
}

/* A vector of scales, each times `factor`, and squared. */
static ln_status load_scales(ln_loader *l, ln_role role, size_t i, size_t n, double factor,
                             bool squared, const float **out) {
    float *values = calloc(n, sizeof *values);
    bool is_there;
    if (values == NULL)
        return ln_fail_memory(l->err, "scales");
    ln_status status = ln_load_values(l, role, i, false, n, values, &is_there);
    for (size_t j = 0; j < n; j++) {
        double value = (double)values[j] * factor;
        values[j] = (float)(squared ? value * value : value);
    }
    if (status == LINNET_OK)
        status = ln_load_table(l, values, n, out);
    free(values);
    return status;
}

/* What stays of the norm of a block's input, and joins it of what the block gives. */
static ln_status load_rates(ln_loader *l, ln_role role, size_t i, ln_norm *kept, ln_norm *post) {
    const ln_spec *spec = l->spec;
    size_t dim = spec->dim;
    float *stays = calloc(dim, 2 * sizeof *stays);
    bool is_there;
    if (stays == NULL)
        return ln_fail_memory(l->err, "rates of a residual stream");
    float *joins = stays + dim;
    ln_status status = ln_load_values(l, role, i, false, dim, joins, &is_there);
    for (size_t j = 0; j < dim; j++) {
        double rate = fabs((double)joins[j] * spec->unit_rate / spec->unit_range);
        joins[j] = (float)rate;
        stays[j] = (float)(1.0 - rate);
    }
    if (status == LINNET_OK)
        status = unit_norm(l, dim, stays, kept);
    if (status == LINNET_OK)
        status = unit_norm(l, dim, joins, post);
    free(stays);
    return status;
}

static ln_status load_attention(ln_loader *l, const ln_attention_spec *a, size_t i,
                                ln_layer_weights *w) {
    const ln_spec *spec = l->spec;
    double dim = (double)spec->dim, range = spec->unit_range;
    size_t n_out = a->n_heads * a->v_dim;
    LN_TRY(ln_load_unit_norm(l, spec->dim, &w->attention_norm));
    LN_TRY(load_rates(l, LN_ROLE_ATTENTION_BLEND, i, &w->attention_kept, &w->attention_post_norm));
    LN_TRY(ln_load_unit_norm(l, a->k_dim, &w->q_norm));
    w->k_norm = w->q_norm;
    LN_TRY(ln_load_unit_norm(l, n_out, &w->attention_out_norm));
    LN_TRY(load_scales(l, LN_ROLE_Q_SCALES, i, a->n_heads * a->k_dim,
                       sqrt((double)a->k_dim) / range, true, &w->q_out_scales));
    return load_scales(l, LN_ROLE_ATTENTION_GATE_SCALES, i, n_out, pow(dim, 0.25) / range, true,
                       &w->output_gate_scales);
}

ln_status ln_load_unit_layer(ln_loader *l, const ln_layer_spec *layer, size_t i,
                             ln_layer_weights *w) {
    size_t dim = l->spec->dim, n_hidden = layer->ffn.n_hidden;
    double root = sqrt((double)dim);
    if (l->spec->unit_range == 0)
        return LINNET_OK;
    if (layer->attention.n_heads > 0)
        LN_TRY(load_attention(l, &layer->attention, i, w));
    if (n_hidden == 0)
        return LINNET_OK;
    LN_TRY(ln_load_unit_norm(l, dim, &w->ffn_norm));
    LN_TRY(load_rates(l, LN_ROLE_FFN_BLEND, i, &w->ffn_kept, &w->ffn_post_norm));
    LN_TRY(ln_load_unit_norm(l, n_hidden, &w->ffn_out_norm));
    LN_TRY(load_scales(l, LN_ROLE_GATE_SCALES, i, n_hidden, root, false, &w->gate_scales));
    return load_scales(l, LN_ROLE_UP_SCALES, i, n_hidden, root, false, &w->up_scales);
}

ln_status ln_load_unit_output(ln_loader *l, const float **scales) {
    if (l->spec->unit_range == 0)
        return LINNET_OK;
    return load_scales(l, LN_ROLE_OUTPUT_SCALES, 0, ln_shard_whole(l->spec)->n_vocab,
                       1.0 / l->spec->unit_range, false, scales);
}
