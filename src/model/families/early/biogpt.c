/* BioGPT: OPT with a scaled embedding and GELU. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "biogpt.embed_tokens"},
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "biogpt.embed_positions"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "biogpt.layer_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "output_projection"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "biogpt.layers.%d.self_attn_layer_norm"},
    LN_ATTENTION("biogpt.layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj"),
    {.role = LN_ROLE_FFN_NORM, .hf = "biogpt.layers.%d.final_layer_norm"},
    LN_PLAIN_FFN("biogpt.layers.%d.", "fc1", "fc2"),
};

const ln_family ln_family_biogpt = {
    .name = "biogpt",
    .hf_prefix = "biogpt.",
    .norm = LN_NORM_LAYER,
    .norm_eps = 1e-5,
    .activation = LN_ACT_GELU,
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .learned_offset = 2,
    .scale_embedding = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
