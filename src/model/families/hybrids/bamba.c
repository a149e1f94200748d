/* Bamba: mostly Mamba 2, with attention that rotates half of a head in a few layers. */
#include "model/families/mamba2.h"

#define FEED_FORWARD "model.layers.%d.feed_forward"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "pre_ff_layernorm"),
    LN_LLAMA_ATTENTION,
    LN_MAMBA2_MIXER("model.layers.%d.mamba"),
    LN_GATED_FFN(FEED_FORWARD ".", "gate_proj", "up_proj", "down_proj"),
};

const ln_family ln_family_bamba = {
    .name = "bamba",
    .gguf_as = "granitehybrid",
    .defaults = "num_key_value_heads=8|rms_norm_eps=1e-5|max_position_embeddings=262144|"
                "mamba_n_heads=128|mamba_n_groups=1|mamba_d_state=256|mamba_d_conv=4",
    .rope_fraction = 0.5,
    .mixer = LN_MIXER_SSD,
    .mixer_norm_groups = true,
    .mixer_word = "linear_attention|mamba",
    LN_BINDINGS(bindings),
};
