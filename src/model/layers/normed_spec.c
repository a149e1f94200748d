#include "model/layers/normed_spec.h"

static ln_status read_factor(const ln_config *config, const char *key, const char *in_gguf,
                             float *factor, ln_error *err) {
    double value = 1;
    LN_TRY(ln_config_real(config, (ln_key){key, in_gguf}, -1e9, 1e9, &value, err));
    *factor = (float)value;
    return LINNET_OK;
}

ln_status ln_spec_read_normed(const ln_config *config, ln_layer_spec *layer, ln_error *err) {
    static const char kept[] = "residual_scale"; /* GGUF has one for all */
    bool is_linear = layer->mixer.kind != LN_MIXER_NONE;
    float *of_block = is_linear ? &layer->mixer.out_scale : &layer->attention.v_scale;
    float of_experts;
    if (layer->placement != LN_PLACE_NORMED)
        return LINNET_OK;
    LN_TRY(read_factor(config, is_linear ? "linear_attn_alpha_factor" : "full_attn_alpha_factor",
                       kept, &layer->attention_keep, err));
    LN_TRY(read_factor(config, is_linear ? "linear_attn_beta_factor" : "full_attn_beta_factor", "",
                       of_block, err));
    LN_TRY(read_factor(config, "mlp_alpha_factor", kept, &layer->ffn_keep, err));
    LN_TRY(read_factor(config, "mlp_beta_factor", "", &of_experts, err));
    layer->ffn.moe.scale *= of_experts;
    return LINNET_OK;
}
