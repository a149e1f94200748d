/* Mamba 2: recurrent layers alone. */
#include "model/families/mamba2.h"

static const ln_binding bindings[] = {
    LN_ENDS("backbone.embeddings", "backbone.norm_f", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "backbone.layers.%d.norm"},
    LN_MAMBA2_MIXER("backbone.layers.%d.mixer"),
};

const ln_family ln_family_mamba2 = {
    .name = "mamba2",
    .gguf = "mamba2",
    .defaults = "num_heads=128|head_dim=64|state_size=128|n_groups=8|conv_kernel=4|"
                "layer_norm_epsilon=1e-5|max_position_embeddings=1048576",
    .positions = LN_POSITIONS_NONE,
    .mixer = LN_MIXER_SSD,
    .one_block = true,
    .mixer_norm_groups = true,
    LN_BINDINGS(bindings),
};
