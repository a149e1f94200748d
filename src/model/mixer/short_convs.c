#include "model/mixer/short_convs.h"

#include <math.h>
#include <stdlib.h>

#include "model/family.h"

void ln_spec_size_short_convs(size_t dim, ln_layer_spec *layer) {
    const ln_attention_spec *attention = &layer->attention;
    size_t *channels = layer->mixer.channels;
    if (!ln_has_short_convs(&layer->mixer))
        return;
    channels[LN_CONV_KEYS] = attention->n_kv_heads * attention->k_dim;
    channels[LN_CONV_VALUES] = attention->n_kv_heads * attention->v_dim;
    channels[LN_CONV_ATTENTION] = channels[LN_CONV_FFN] = dim;
}

/* [channel][tap], or of dynamic taps [tap][channel] from the last one on, becomes [tap][channel]
 * times `scale`, with one more at the last tap, which is what adds x. */
static ln_status load_taps(ln_loader *l, ln_role role, size_t layer, size_t n_channels,
                           size_t n_taps, bool is_dynamic, float scale, const float **out) {
    size_t n = n_channels * n_taps;
    bool is_there;
    float *stored = calloc(2 * n, sizeof *stored);
    if (stored == NULL)
        return ln_fail_memory(l->err, "a convolution");
    float *taps = stored + n;
    ln_status status = ln_load_values(l, role, layer, false, n, stored, &is_there);
    for (size_t i = 0; i < n_channels && status == LINNET_OK; i++)
        for (size_t j = 0; j < n_taps; j++) {
            size_t at = is_dynamic ? (n_taps - 1 - j) * n_channels + i : i * n_taps + j;
            taps[j * n_channels + i] = scale * (stored[at] + (j + 1 == n_taps ? 1.0f : 0.0f));
        }
    if (status == LINNET_OK)
        status = ln_load_table(l, taps, n, out);
    free(stored);
    return status;
}

/* What a convolution of so many terms is divided by, x being one more. */
static float scale_of(const ln_mixer_spec *spec, bool is_dynamic) {
    size_t n_terms = (is_dynamic ? 2 : 1) * spec->n_taps + 1;
    return spec->is_even ? 1.0f / sqrtf((float)n_terms) : 1.0f;
}

ln_status ln_load_short_convs(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                              size_t n_kv_heads, ln_mixer_weights *w) {
    static const ln_role roles[] = {[LN_CONV_KEYS] = LN_ROLE_MIXER_CONV_K,
                                    [LN_CONV_VALUES] = LN_ROLE_MIXER_CONV_V,
                                    [LN_CONV_ATTENTION] = LN_ROLE_ATTENTION_CONV,
                                    [LN_CONV_FFN] = LN_ROLE_FFN_CONV};
    bool is_there;
    float of_ffn = 1.0f; /* multiplies what the feed-forward gives, and so its convolution */
    LN_TRY(ln_load_values(l, LN_ROLE_FFN_SCALE, layer, false, 1, &of_ffn, &is_there));
    for (size_t i = 0; i < LN_SHORT_CONVS; i++) {
        bool is_dynamic = spec->dynamic && i <= LN_CONV_VALUES;
        ln_role role = !is_dynamic         ? roles[i]
                       : i == LN_CONV_KEYS ? LN_ROLE_K_STATIC_TAPS
                                           : LN_ROLE_V_STATIC_TAPS;
        float scale = scale_of(spec, is_dynamic) * (i == LN_CONV_FFN ? of_ffn : 1.0f);
        LN_TRY(load_taps(l, role, layer, spec->channels[i], spec->n_taps, is_dynamic, scale,
                         &w->short_convs[i]));
        size_t n_rows = n_kv_heads * spec->n_taps;
        if (is_dynamic)
            LN_TRY(ln_load_matrix(l, i == LN_CONV_KEYS ? LN_ROLE_K_TAPS : LN_ROLE_V_TAPS, layer,
                                  n_rows, l->spec->dim, &w->taps[i]));
    }
    return LINNET_OK;
}

/* Taps of tokens, which their weights are scaled by as well. */
static const float *dynamic_taps(recorder *r, ln_short_conv which, const float *from) {
    const ln_mixer_spec *spec = &r->layer_spec->mixer;
    if (!spec->dynamic || which > LN_CONV_VALUES)
        return NULL;
    precise_linear(r, &r->weights->layers[r->layer].mixer.taps[which], from, r->a->conv_taps)
        ->scale = scale_of(spec, true);
    return r->a->conv_taps;
}

void ln_record_short_conv(recorder *r, ln_short_conv which, const float *from, float *out) {
    const ln_mixer_spec *spec = &r->layer_spec->mixer;
    size_t begin = 0;
    if (!ln_has_short_convs(spec))
        return;
    for (size_t i = 0; i < which; i++)
        begin += spec->channels[i];
    const float *dynamic = dynamic_taps(r, which, from);
    push(r, LN_OP_CONV)->conv = (ln_op_conv){
        .x = r->a->conv_in,
        .weight = r->weights->layers[r->layer].mixer.short_convs[which],
        .begin = begin,
        .n = spec->channels[which],
        .dynamic = dynamic,
        .n_groups = dynamic != NULL ? r->layer_spec->attention.n_kv_heads : 0,
        .cache = r->kv[ln_kv_layer_index(r->spec, (size_t)r->layer) + 1].recurrent,
        .out = out,
    };
}

void ln_record_short_conv_to_stream(recorder *r, ln_short_conv which) {
    ln_record_short_conv(r, which, NULL, r->a->conv_out);
    norm(r, &r->weights->copy, r->a->conv_out, r->a->x, r->a->x);
}
