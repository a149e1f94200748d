/* Mamba 1: recurrent layers alone. Falcon Mamba's steps, keys and queries have norms without
 * weights. */
#include "model/families/mamba1.h"

static const ln_binding bindings[] = {
    LN_ENDS("backbone.embeddings", "backbone.norm_f", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "backbone.layers.%d.norm"},
    LN_MAMBA1_MIXER("backbone.layers.%d.mixer"),
};

const ln_family ln_family_mamba = {
    .name = "mamba",
    .hf_types = "mamba|falcon_mamba",
    .gguf = "mamba",
    .defaults = "state_size=16|conv_kernel=4|layer_norm_epsilon=1e-5|"
                "max_position_embeddings=1048576|falcon_mamba:mixer_rms_eps=1e-6",
    .positions = LN_POSITIONS_NONE,
    .tied_by_default = true,
    .mixer = LN_MIXER_SELECTIVE,
    .one_block = true,
    LN_BINDINGS(bindings),
};
