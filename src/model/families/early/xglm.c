/* XGLM: sines and cosines as positions, which begin at row 2 of a table that is computed. */
#include "model/family.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.layer_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.self_attn_layer_norm"},
    {.role = LN_ROLE_Q, .hf = "model.layers.%d.self_attn.q_proj"},
    {.role = LN_ROLE_K, .hf = "model.layers.%d.self_attn.k_proj"},
    {.role = LN_ROLE_V, .hf = "model.layers.%d.self_attn.v_proj"},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.out_proj"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.final_layer_norm"},
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.fc1"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.fc2"},
};

const ln_family ln_family_xglm = {
    .name = "xglm",
    .hf_prefix = "model.",
    .ignored = "model.embed_positions.weights",
    .refused = "add_cross_attention",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU,
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .computed_positions = true,
    .learned_offset = 2,
    .scale_embedding = true,
    .norm_eps = 1e-5,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
