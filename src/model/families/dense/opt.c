/* OPT: learned positions that begin at row 2, relu. */
#include "model/family.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.decoder.embed_tokens"},
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "model.decoder.embed_positions"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.decoder.final_layer_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.decoder.layers.%d.self_attn_layer_norm"},
    {.role = LN_ROLE_Q, .hf = "model.decoder.layers.%d.self_attn.q_proj"},
    {.role = LN_ROLE_K, .hf = "model.decoder.layers.%d.self_attn.k_proj"},
    {.role = LN_ROLE_V, .hf = "model.decoder.layers.%d.self_attn.v_proj"},
    {.role = LN_ROLE_O, .hf = "model.decoder.layers.%d.self_attn.out_proj"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.decoder.layers.%d.final_layer_norm"},
    {.role = LN_ROLE_UP, .hf = "model.decoder.layers.%d.fc1"},
    {.role = LN_ROLE_DOWN, .hf = "model.decoder.layers.%d.fc2"},
};

const ln_family ln_family_opt = {
    .name = "opt",
    .hf_prefix = "model.",
    .refused = "_remove_final_layer_norm|!do_layer_norm_before",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_RELU,
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .learned_offset = 2,
    LN_BINDINGS(bindings),
};
