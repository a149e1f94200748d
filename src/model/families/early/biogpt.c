/* BioGPT: OPT with a scaled embedding and GELU. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("biogpt.embed_tokens", "biogpt.layer_norm", "output_projection"),
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "biogpt.embed_positions"},
    LN_BLOCK_NORMS("biogpt.layers.%d.", "self_attn_layer_norm", "final_layer_norm"),
    LN_ATTENTION("biogpt.layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj"),
    LN_PLAIN_FFN("biogpt.layers.%d.", "fc1", "fc2"),
};

const ln_family ln_family_biogpt = {
    .name = "biogpt",
    .hf_prefix = "biogpt.",
    .norm = LN_NORM_LAYER,
    .norm_eps = 1e-5,
    LN_NO_GATE(LN_ACT_GELU),
    .positions = LN_POSITIONS_LEARNED,
    .learned_offset = 2,
    .scale_embedding = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
