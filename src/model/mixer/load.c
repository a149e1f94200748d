#include "model/mixer/load.h"

#include <math.h>
#include <stdlib.h>

#include "model/family.h"
#include "model/mixer/shape.h"
#include "model/mixer/short_convs.h"
#include "model/shard.h"

/* What a convolution reads: one tensor, or those of q, k and v. */
static ln_status load_in(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                         ln_mixer_weights *w) {
    static const ln_role roles[] = {LN_ROLE_MIXER_Q, LN_ROLE_MIXER_K, LN_ROLE_MIXER_V};
    size_t dim = l->spec->dim, k = spec->n_k_heads * spec->k_dim;
    size_t n_rows[] = {k, k, spec->n_heads * spec->v_dim};
    ln_tensor_id id = {.role = LN_ROLE_MIXER_IN, .layer = layer};
    if (ln_family_binding(l->spec->family, ln_checkpoint_get_format(l->checkpoint), id, 0) != NULL)
        return ln_load_matrix(l, LN_ROLE_MIXER_IN, layer, ln_mixer_conv_dim(spec, dim), dim,
                              &w->in);
    return ln_load_joined(l, roles, n_rows, 3, layer, dim, &w->in);
}

/* What a channel of the convolution is multiplied with before it. */
static float channel_scale(const ln_mixer_spec *spec, size_t channel) {
    size_t x = spec->n_heads * spec->v_dim, k = spec->n_k_heads * spec->k_dim;
    if (spec->kind != LN_MIXER_SSD)
        return 1.0f;
    return spec->conv_scales[channel < x ? 0 : channel < x + k ? 1 : 2];
}

/* [channel][tap] becomes [tap][channel], channels of several tensors one after another. */
static ln_status load_taps(ln_loader *l, size_t layer, const ln_role *roles, const size_t *n_rows,
                           size_t n_roles, const ln_mixer_spec *spec, const float **out) {
    size_t n_channels = 0, begin = 0, n_taps = spec->n_taps;
    ln_status status = LINNET_OK;
    bool is_there;
    for (size_t i = 0; i < n_roles; i++)
        n_channels += n_rows[i];
    float *stored = calloc(2 * n_channels * n_taps, sizeof *stored);
    if (stored == NULL)
        return ln_fail_memory(l->err, "a convolution");
    float *taps = stored + n_channels * n_taps;
    for (size_t i = 0; i < n_roles && status == LINNET_OK; begin += n_rows[i++])
        status = ln_load_values(l, roles[i], layer, false, n_rows[i] * n_taps,
                                stored + begin * n_taps, &is_there);
    for (size_t i = 0; i < n_channels; i++)
        for (size_t j = 0; j < n_taps; j++)
            taps[j * n_channels + i] = stored[i * n_taps + j] * channel_scale(spec, i);
    if (status == LINNET_OK)
        status = ln_load_table(l, taps, n_channels * n_taps, out);
    free(stored);
    return status;
}

/* Whether q has a third of the stored channels, whatever it is wide: transformers saves OLMo Hybrid
 * so, with what is left over in v. */
static bool are_thirds(const ln_loader *l, size_t layer, size_t n_channels, size_t n_taps) {
    const ln_binding *binding;
    ln_tensor_id id = {.role = LN_ROLE_MIXER_CONV_Q, .layer = layer};
    const ln_tensor *tensor = ln_family_find(l->spec->family, l->checkpoint, id, &binding);
    return tensor != NULL && tensor->n_elems == (n_channels + 2) / 3 * n_taps;
}

static ln_status load_conv(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                           ln_mixer_weights *w) {
    static const ln_role whole[] = {LN_ROLE_MIXER_CONV};
    static const ln_role parts[] = {LN_ROLE_MIXER_CONV_Q, LN_ROLE_MIXER_CONV_K,
                                    LN_ROLE_MIXER_CONV_V};
    size_t n_channels = ln_mixer_conv_dim(spec, l->spec->dim), k = spec->n_k_heads * spec->k_dim;
    size_t n_rows[] = {k, k, spec->n_heads * spec->v_dim};
    ln_tensor_id id = {.role = LN_ROLE_MIXER_CONV, .layer = layer};
    if (spec->n_taps == 0)
        return LINNET_OK;
    if (are_thirds(l, layer, n_channels, spec->n_taps)) {
        n_rows[0] = n_rows[1] = (n_channels + 2) / 3;
        n_rows[2] = n_channels - 2 * n_rows[0];
    }
    if (spec->kind == LN_MIXER_LIGHTNING)
        return ln_load_constant(l, 1.0f, n_channels, &w->conv);
    if (ln_family_binding(l->spec->family, ln_checkpoint_get_format(l->checkpoint), id, 0) == NULL)
        return load_taps(l, layer, parts, n_rows, 3, spec, &w->conv);
    LN_TRY(load_taps(l, layer, whole, &n_channels, 1, spec, &w->conv));
    return ln_load_value_table(l, LN_ROLE_MIXER_CONV, layer, true, n_channels, NULL, &w->conv_bias);
}

static float exponential(float x) {
    return expf(x);
}

static float negative(float x) {
    return -x;
}

/* GGUF has rates of decays with a bound in either sign. */
static float magnitude(float x) {
    return fabsf(x);
}

static ln_status load_decay(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                            ln_mixer_weights *w) {
    bool is_gguf = ln_checkpoint_get_format(l->checkpoint) == LN_FORMAT_GGUF;
    size_t dim = l->spec->dim, n_decays = ln_mixer_state_shape(spec, dim, 0).n_decays;
    float (*change)(float) = !is_gguf ? exponential : spec->bound > 0 ? magnitude : negative;
    LN_TRY(
        ln_load_value_table(l, LN_ROLE_MIXER_RATE, layer, false, spec->n_heads, change, &w->rate));
    LN_TRY(ln_load_value_table(l, LN_ROLE_MIXER_A_BIAS, layer, false, n_decays, NULL, &w->a_bias));
    LN_TRY(ln_load_value_table(l, LN_ROLE_MIXER_SKIP, layer, false, spec->n_heads, NULL, &w->skip));
    if (spec->low_rank > 0)
        LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_A_LOW, layer, spec->low_rank, dim, &w->a_low));
    size_t n_cols = spec->low_rank > 0 ? spec->low_rank : dim;
    return ln_load_matrix(l, LN_ROLE_MIXER_A, layer, n_decays, n_cols, &w->a);
}

/* Lightning attention's: ALiBi's slopes, less from layer to layer. */
static ln_status load_slopes(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                             ln_mixer_weights *w) {
    double depth = (double)ln_shard_whole(l->spec)->n_layers - 1 + 1e-5;
    double factor = 1 - (double)layer / depth + 1e-5;
    float *slopes = calloc(spec->n_heads, sizeof *slopes);
    if (slopes == NULL)
        return ln_fail_memory(l->err, "a recurrent layer");
    for (size_t i = 0; i < spec->n_heads; i++)
        slopes[i] = (float)(exp2(-8.0 * (double)(i + 1) / (double)spec->n_heads) * factor);
    ln_status status = ln_load_table(l, slopes, spec->n_heads, &w->rate);
    free(slopes);
    return status;
}

/* [column][row] becomes [row][column]: rates of the elements of a state. */
static ln_status load_rates(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                            ln_mixer_weights *w) {
    bool is_gguf = ln_checkpoint_get_format(l->checkpoint) == LN_FORMAT_GGUF, is_there;
    size_t n = spec->k_dim * spec->v_dim;
    float *stored = calloc(2 * n, sizeof *stored);
    if (stored == NULL)
        return ln_fail_memory(l->err, "a recurrent layer");
    float *rates = stored + n;
    ln_status status = ln_load_values(l, LN_ROLE_MIXER_RATE, layer, false, n, stored, &is_there);
    for (size_t j = 0; j < spec->v_dim; j++)
        for (size_t i = 0; i < spec->k_dim; i++) {
            float rate = stored[j * spec->k_dim + i];
            rates[i * spec->v_dim + j] = is_gguf ? -rate : expf(rate);
        }
    if (status == LINNET_OK)
        status = ln_load_table(l, rates, n, &w->rate);
    free(stored);
    return status;
}

/* A norm of its own epsilon, with weights or without. */
static ln_status load_control_norm(ln_loader *l, ln_role role, size_t layer,
                                   const ln_mixer_spec *spec, size_t dim, ln_norm *norm) {
    *norm = (ln_norm){0};
    if (spec->control_eps == 0)
        return LINNET_OK;
    LN_TRY(ln_load_norm(l, role, layer, dim, norm));
    norm->kind = LN_NORM_RMS;
    norm->eps = spec->control_eps;
    norm->dim = dim;
    return LINNET_OK;
}

/* Steps, keys and queries of Mamba 1, each head's of its own columns. */
static ln_status load_controls_by_head(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                                       ln_mixer_weights *w) {
    size_t n = spec->n_k_heads, width = spec->v_dim / n;
    ln_source_shape low = {n, spec->low_rank, width}, key = {n, spec->k_dim, width};
    ln_source_shape high = {n, width, spec->low_rank};
    LN_TRY(ln_load_matrices(l, LN_ROLE_MIXER_A_LOW, layer, &low, &w->a_low_heads));
    LN_TRY(ln_load_matrices(l, LN_ROLE_MIXER_K, layer, &key, &w->k_heads));
    LN_TRY(ln_load_matrices(l, LN_ROLE_MIXER_Q, layer, &key, &w->q_heads));
    return ln_load_matrices(l, LN_ROLE_MIXER_A, layer, &high, &w->a_heads);
}

/* What Mamba 1 makes of what the convolution gives. */
static ln_status load_selective(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                                ln_mixer_weights *w) {
    size_t rank = spec->low_rank, k = spec->k_dim, v = spec->v_dim;
    LN_TRY(load_rates(l, layer, spec, w));
    LN_TRY(ln_load_value_table(l, LN_ROLE_MIXER_SKIP, layer, false, v, NULL, &w->skip));
    if (spec->by_head)
        return load_controls_by_head(l, layer, spec, w);
    LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_A_LOW, layer, rank, v, &w->a_low));
    LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_K, layer, k, v, &w->k));
    LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_Q, layer, k, v, &w->q));
    LN_TRY(load_control_norm(l, LN_ROLE_MIXER_A_NORM, layer, spec, rank, &w->a_norm));
    LN_TRY(load_control_norm(l, LN_ROLE_MIXER_K_NORM, layer, spec, k, &w->k_norm));
    LN_TRY(load_control_norm(l, LN_ROLE_MIXER_Q_NORM, layer, spec, k, &w->q_norm));
    return ln_load_matrix(l, LN_ROLE_MIXER_A, layer, v, rank, &w->a);
}

/* 8 softplus(x) */
static float lru_rate(float x) {
    return 8.0f * (x > 20.0f ? x : log1pf(expf(x)));
}

static ln_status load_lru(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                          ln_mixer_weights *w) {
    size_t width = spec->v_dim / spec->n_gate_blocks;
    ln_source_shape shape = {spec->n_gate_blocks, width, width};
    LN_TRY(
        ln_load_value_table(l, LN_ROLE_MIXER_RATE, layer, false, spec->v_dim, lru_rate, &w->rate));
    LN_TRY(ln_load_matrices(l, LN_ROLE_MIXER_A, layer, &shape, &w->a_blocks));
    LN_TRY(ln_load_matrices(l, LN_ROLE_MIXER_IN_GATE, layer, &shape, &w->in_gate_blocks));
    LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_GATE, layer, spec->v_dim, l->spec->dim, &w->gate));
    return ln_load_matrix(l, LN_ROLE_MIXER_OUT, layer, l->spec->dim, spec->v_dim, &w->out);
}

static ln_status load_norm(ln_loader *l, size_t layer, const ln_mixer_spec *spec, ln_norm *norm) {
    size_t dim = spec->n_heads * spec->v_dim;
    *norm = (ln_norm){.kind = LN_NORM_NONE, .dim = dim};
    if (!spec->has_norm)
        return LINNET_OK;
    /* heads share their weights, parts of Mamba's row have their own, and lightning is one part */
    bool is_whole = spec->kind == LN_MIXER_SSD || spec->kind == LN_MIXER_LIGHTNING;
    size_t n = is_whole ? dim : spec->v_dim;
    norm->kind = LN_NORM_RMS;
    norm->eps = spec->norm_eps;
    norm->dim = n;
    return ln_load_value_table(l, LN_ROLE_MIXER_NORM, layer, false, n, NULL, &norm->weight);
}

ln_status ln_load_mixer(ln_loader *l, size_t layer, const ln_layer_spec *of, ln_mixer_weights *w) {
    const ln_mixer_spec *spec = &of->mixer;
    size_t dim = l->spec->dim, inner = spec->n_heads * spec->v_dim;
    if (spec->kind == LN_MIXER_CCA) /* a part of attention */
        return LINNET_OK;
    *w = (ln_mixer_weights){.in_norm = w->in_norm};
    if (spec->kind == LN_MIXER_NONE)
        return LINNET_OK;
    if (spec->kind == LN_MIXER_SHORT_CONVS)
        return ln_load_short_convs(l, layer, spec, of->attention.n_kv_heads, w);
    LN_TRY(load_in(l, layer, spec, w));
    LN_TRY(load_conv(l, layer, spec, w));
    if (spec->kind == LN_MIXER_CONV) {
        LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_IN_GATE, layer, dim, dim, &w->in_gate));
        LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_GATE, layer, dim, dim, &w->gate));
        return ln_load_matrix(l, LN_ROLE_MIXER_OUT, layer, dim, dim, &w->out);
    }
    if (spec->kind == LN_MIXER_LRU)
        return load_lru(l, layer, spec, w);
    if (spec->kind == LN_MIXER_SELECTIVE) {
        LN_TRY(load_selective(l, layer, spec, w));
        LN_TRY(load_norm(l, layer, spec, &w->norm));
        LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_GATE, layer, inner, dim, &w->gate));
        return ln_load_matrix(l, LN_ROLE_MIXER_OUT, layer, dim, inner, &w->out);
    }
    LN_TRY((spec->kind == LN_MIXER_LIGHTNING ? load_slopes : load_decay)(l, layer, spec, w));
    if (spec->kind == LN_MIXER_DELTA || spec->kind == LN_MIXER_KDA)
        LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_B, layer, spec->n_heads, dim, &w->b));
    if (spec->gate_rank > 0)
        LN_TRY(
            ln_load_matrix(l, LN_ROLE_MIXER_GATE_LOW, layer, spec->gate_rank, dim, &w->gate_low));
    LN_TRY(ln_load_matrix(l, LN_ROLE_MIXER_GATE, layer, inner,
                          spec->gate_rank > 0 ? spec->gate_rank : dim, &w->gate));
    LN_TRY(load_norm(l, layer, spec, &w->norm));
    return ln_load_matrix(l, LN_ROLE_MIXER_OUT, layer, dim, inner, &w->out);
}
