#include <float.h>
#include <stdlib.h>

#include "model/attention/cca.h"
#include "model/mixer/shape.h"

static ln_status no_memory(const ln_loader *l) {
    return ln_fail_memory(l->err, "convolved attention");
}

ln_status ln_load_cca_columns(ln_loader *l) {
    const ln_attention_spec *a = &l->spec->layers[0].attention;
    const ln_mixer_spec *m = &l->spec->layers[0].mixer;
    if (!a->convolved)
        return LINNET_OK;
    size_t n_q = a->n_heads * a->k_dim, n_channels = m->n_heads * m->v_dim;
    size_t n_all = ln_mixer_conv_dim(m, l->spec->dim), n_taps = m->n_head_taps;
    size_t per_kv = a->n_heads / a->n_kv_heads;
    int32_t *columns = calloc(n_all + n_q, sizeof *columns);
    if (columns == NULL)
        return no_memory(l);
    for (size_t i = 0; i < n_channels * n_taps; i++)
        columns[i] = (int32_t)(i / n_taps);
    for (size_t i = 0; i < m->n_values; i++)
        columns[n_channels * n_taps + i] = (int32_t)(n_channels + i);
    for (size_t i = 0; i < n_q; i++) {
        size_t place = i / a->k_dim / a->n_kv_heads, kv = i / a->k_dim % a->n_kv_heads;
        columns[n_all + i] = (int32_t)((kv * per_kv + place) * a->k_dim + i % a->k_dim);
    }
    ln_status status = ln_load_columns(l, columns, n_all, &l->weights->conv_columns);
    if (status == LINNET_OK)
        status = ln_load_columns(l, columns + n_all, n_q, &l->weights->group_columns);
    free(columns);
    return status;
}

/* The taps of a channel, each behind so many zeros as a tap of the second convolution is delayed;
 * values are delayed by one token or by none. */
static ln_status load_taps(ln_loader *l, size_t layer, const ln_mixer_spec *m, const float **out) {
    size_t n_channels = m->n_heads * m->v_dim, n_all = ln_mixer_conv_dim(m, l->spec->dim);
    size_t of_channels = m->n_channel_taps, of_heads = m->n_head_taps, n_taps = m->n_taps;
    bool is_there;
    float *stored = calloc(n_channels * of_channels + n_taps * n_all, sizeof *stored);
    if (stored == NULL)
        return no_memory(l);
    float *taps = stored + n_channels * of_channels;
    ln_status status = ln_load_values(l, LN_ROLE_MIXER_CONV, layer, false, n_channels * of_channels,
                                      stored, &is_there);
    for (size_t i = 0; i < n_channels * of_heads; i++) {
        size_t begin = n_taps - of_channels - (of_heads - 1 - i % of_heads);
        for (size_t j = 0; j < of_channels; j++)
            taps[(begin + j) * n_all + i] = stored[i / of_heads * of_channels + j];
    }
    for (size_t i = 0; i < m->n_values; i++) {
        size_t delay = i < m->n_values / 2 ? 0 : 1;
        taps[(n_taps - 1 - delay) * n_all + n_channels * of_heads + i] = 1.0f;
    }
    if (status == LINNET_OK)
        status = ln_load_table(l, taps, n_taps * n_all, out);
    free(stored);
    return status;
}

/* A bias of delayed values counts before the first token, too: it is added behind the delay. */
static ln_status load_value_bias(ln_loader *l, size_t layer, const ln_mixer_spec *m,
                                 ln_layer_weights *w) {
    size_t n_all = ln_mixer_conv_dim(m, l->spec->dim), half = m->n_values / 2;
    size_t begin = m->n_heads * m->v_dim * m->n_head_taps + half;
    bool is_there;
    float *bias = calloc(n_all, sizeof *bias);
    if (bias == NULL)
        return no_memory(l);
    ln_status status =
        ln_load_values(l, LN_ROLE_V_DELAYED, layer, true, half, bias + begin, &is_there);
    w->v_delayed.bias = NULL;
    if (status == LINNET_OK && is_there)
        status = ln_load_table(l, bias, n_all, &w->mixer.conv_bias);
    free(bias);
    return status;
}

/* The first convolution's bias goes through the matrices of heads to theirs: its zeros before the
 * first token have it, too. */
static void fold_bias(const float *first, const float *matrix, size_t n_rows, size_t width,
                      size_t n_taps, float *bias) {
    for (size_t row = 0; row < n_rows; row++) {
        const float *channels = first + row / width * width;
        double sum = 0;
        for (size_t i = 0; i < width * n_taps; i++)
            sum += (double)matrix[row * width * n_taps + i] * (double)channels[i / n_taps];
        bias[row] = (float)((double)bias[row] + sum);
    }
}

static ln_status load_head_bias(ln_loader *l, size_t layer, const ln_mixer_spec *m, size_t n_units,
                                const float **out) {
    size_t width = m->v_dim, n = m->n_heads * width, cols = width * m->n_head_taps;
    bool is_there;
    float *bias = calloc(n_units * width + n + n * cols, sizeof *bias);
    if (bias == NULL)
        return no_memory(l);
    float *first = bias + n_units * width, *matrix = first + n;
    ln_status status = ln_load_values(l, LN_ROLE_HEAD_CONV, layer, true, n, bias, &is_there);
    if (status == LINNET_OK)
        status = ln_load_values(l, LN_ROLE_MIXER_CONV, layer, true, n, first, &is_there);
    if (status == LINNET_OK)
        status = ln_load_values(l, LN_ROLE_HEAD_CONV, layer, false, n * cols, matrix, &is_there);
    if (status == LINNET_OK && l->writable != NULL)
        fold_bias(first, matrix, n, width, m->n_head_taps, bias);
    if (status == LINNET_OK)
        status = ln_load_table(l, bias, n_units * width, out);
    free(bias);
    return status;
}

/* A matrix for each unit of the convolutions' row. Those of values, which nobody reads, have the
 * first head's, so that all lie at equal distances. */
static ln_status load_head_convs(ln_loader *l, size_t layer, const ln_mixer_spec *m,
                                 ln_layer_weights *w) {
    size_t width = m->v_dim, n_units = ln_mixer_conv_units(m);
    ln_source_shape shape = {m->n_heads, width, width * m->n_head_taps};
    size_t offset = ln_layout_add(&l->table_layout, n_units, sizeof *w->head_convs);
    ln_weight planned = {0};
    const float *bias;
    w->head_convs = l->table != NULL ? (ln_weight *)(void *)(l->table + offset) : NULL;
    for (size_t i = 0; i < n_units; i++) {
        ln_weight *weight = w->head_convs != NULL ? &w->head_convs[i] : &planned;
        size_t head = i < m->n_heads ? i : 0;
        LN_TRY(ln_load_packed(l, LN_ROLE_HEAD_CONV, layer, head, &shape, weight));
    }
    LN_TRY(load_head_bias(l, layer, m, n_units, &bias));
    for (size_t i = 0; i < n_units && bias != NULL; i++)
        w->head_convs[i].bias = bias + i * width;
    return LINNET_OK;
}

/* Heads become as long as the root of their width, and keys then have a factor for each head. */
static ln_status load_norms(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                            ln_layer_weights *w) {
    size_t width = spec->k_dim, n_q = spec->n_heads * width, n_k = spec->n_kv_heads * width;
    bool is_there;
    float *factors = calloc(n_q + n_k + spec->n_kv_heads, sizeof *factors);
    if (factors == NULL)
        return no_memory(l);
    float *of_heads = factors + n_q + n_k;
    ln_status status =
        ln_load_values(l, LN_ROLE_K_SCALE, layer, false, spec->n_kv_heads, of_heads, &is_there);
    for (size_t i = 0; i < n_q + n_k; i++)
        factors[i] = i < n_q ? 1.0f : of_heads[(i - n_q) / width];
    w->q_norm = (ln_norm){
        .kind = LN_NORM_RMS, .eps = FLT_EPSILON * FLT_EPSILON / (float)width, .dim = width};
    w->k_norm = w->q_norm;
    if (status == LINNET_OK)
        status = ln_load_table(l, factors, n_q, &w->q_norm.weight);
    if (status == LINNET_OK)
        status = ln_load_table(l, factors + n_q, n_k, &w->k_norm.weight);
    free(factors);
    return status;
}

ln_status ln_load_cca(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                      ln_layer_weights *w) {
    const ln_mixer_spec *m = &l->spec->layers[layer].mixer;
    size_t dim = l->spec->dim, n_q = spec->n_heads * spec->k_dim;
    size_t n_k = spec->n_kv_heads * spec->k_dim;
    const size_t widths[] = {n_q, n_k, m->n_values / 2};
    for (size_t i = 0; i < 3; i++)
        w->conv_copies[i] = (ln_norm){.kind = LN_NORM_NONE, .dim = widths[i]};
    LN_TRY(load_norms(l, layer, spec, w));
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q, layer, n_q, dim, &w->q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_K, layer, n_k, dim, &w->k));
    LN_TRY(ln_load_matrix(l, LN_ROLE_V, layer, m->n_values / 2, dim, &w->v));
    LN_TRY(ln_load_matrix(l, LN_ROLE_V_DELAYED, layer, m->n_values / 2, dim, &w->v_delayed));
    LN_TRY(load_taps(l, layer, m, &w->mixer.conv));
    LN_TRY(load_value_bias(l, layer, m, w));
    LN_TRY(load_head_convs(l, layer, m, w));
    return ln_load_matrix(l, LN_ROLE_O, layer, dim, spec->n_heads * spec->v_dim, &w->o);
}
