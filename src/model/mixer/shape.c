#include "model/mixer/shape.h"

size_t ln_mixer_conv_units(const ln_mixer_spec *m) {
    size_t width = m->v_dim * m->n_head_taps;
    return m->n_heads + (m->n_values + width - 1) / width;
}

size_t ln_mixer_conv_dim(const ln_mixer_spec *m, size_t dim) {
    size_t n = 0;
    if (m->kind == LN_MIXER_CONV)
        return dim;
    for (size_t i = 0; i < LN_SHORT_CONVS; i++)
        n += m->channels[i];
    if (m->kind == LN_MIXER_SHORT_CONVS)
        return n;
    if (m->kind == LN_MIXER_SELECTIVE || m->kind == LN_MIXER_LRU)
        return m->v_dim;
    if (m->kind == LN_MIXER_CCA)
        return ln_mixer_conv_units(m) * m->v_dim * m->n_head_taps;
    return 2 * m->n_k_heads * m->k_dim + m->n_heads * m->v_dim;
}

ln_state_shape ln_mixer_state_shape(const ln_mixer_spec *m, size_t dim, size_t draft_tokens) {
    ln_state_shape shape = {.n_taps = m->n_taps};
    if (m->n_taps > 0) {
        shape.conv_dim = ln_mixer_conv_dim(m, dim);
        shape.n_conv_rows = m->n_taps + draft_tokens;
    }
    if (m->kind == LN_MIXER_CONV || m->kind == LN_MIXER_SHORT_CONVS || m->kind == LN_MIXER_CCA ||
        m->kind == LN_MIXER_NONE)
        return shape;
    shape.n_heads = m->n_heads;
    shape.n_k_heads = m->n_k_heads;
    shape.k_dim = m->k_dim;
    shape.v_dim = m->v_dim;
    shape.n_decays = m->n_heads * (m->kind == LN_MIXER_KDA ? m->k_dim : 1);
    shape.n_rows = LN_STATE_CHUNK + draft_tokens;
    if (m->kind == LN_MIXER_SELECTIVE || m->kind == LN_MIXER_LRU) {
        shape.selective = true;
        shape.n_decays = m->v_dim;
        shape.n_rows = 2 * draft_tokens;
    }
    return shape;
}
