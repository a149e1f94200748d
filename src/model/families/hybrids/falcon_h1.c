/* Falcon-H1: every layer has attention and a Mamba 2 mixer beside one another. Folders multiply
 * what matrices read and give with numbers, which the weights of GGUF files contain. */
#include "model/families/mamba2.h"

#define LAYER "model.layers.%d"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".input_layernorm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = LAYER ".pre_ff_layernorm",
     .gguf = "blk.%d.ffn_norm",
     .gguf_bare = true},
    LN_LLAMA_ATTENTION,
    LN_MAMBA2_MIXER(LAYER ".mamba"),
    LN_GATED_FFN(LAYER ".feed_forward.", "gate_proj", "up_proj", "down_proj"),
};

const ln_family ln_family_falcon_h1 = {
    .name = "falcon_h1",
    .gguf = "falcon-h1",
    .defaults = "num_key_value_heads=8|rms_norm_eps=1e-5|max_position_embeddings=8192|"
                "mamba_n_heads=128|mamba_n_groups=1|mamba_d_state=256|mamba_d_conv=4|"
                "mamba_d_ssm=1024|mamba_rms_norm=false|mamba_norm_before_gate=true",
    .mixer = LN_MIXER_SSD,
    .mixers_beside = true,
    .gguf_folds_scales = true,
    .mixer_norm_groups = true,
    LN_BINDINGS(bindings),
};
