#include "model/attention/cca.h"

enum { MAX_TAPS = 8 };

ln_status ln_spec_read_cca(const ln_config *config, ln_attention_spec *attention,
                           ln_mixer_spec *mixer, ln_error *err) {
    size_t of_channels = 2, of_heads = 2, n_heads = attention->n_heads + attention->n_kv_heads;
    size_t width = attention->k_dim, n_values = attention->n_kv_heads * attention->v_dim;
    if (mixer->kind != LN_MIXER_CCA)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"cca_time0", ""}, 1, MAX_TAPS, &of_channels, err));
    LN_TRY(ln_config_size(config, (ln_key){"cca_time1", ""}, 1, MAX_TAPS, &of_heads, err));
    if (n_values % 2 != 0 || width > LN_MAX_DIM / (n_heads + 1) / MAX_TAPS / 2)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: convolutions of %zu heads of %zu dimensions are impossible",
                       ln_checkpoint_path(config->checkpoint), n_heads, width);
    attention->convolved = true;
    mixer->n_heads = n_heads;
    mixer->v_dim = width;
    mixer->n_values = n_values;
    mixer->n_channel_taps = of_channels;
    mixer->n_head_taps = of_heads;
    mixer->n_taps = of_channels + of_heads - 1;
    if (mixer->n_taps < 2) /* values are delayed all the same */
        mixer->n_taps = 2;
    return LINNET_OK;
}
