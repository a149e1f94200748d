/* XGLM: sines and cosines as positions, which begin at row 2 of a table that is computed. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.layer_norm", "lm_head"),
    LN_BLOCK_NORMS("model.layers.%d.", "self_attn_layer_norm", "final_layer_norm"),
    LN_ATTENTION("model.layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj"),
    LN_PLAIN_FFN("model.layers.%d.", "fc1", "fc2"),
};

const ln_family ln_family_xglm = {
    .name = "xglm",
    .hf_prefix = "model.",
    .ignored = "model.embed_positions.weights",
    .refused = "add_cross_attention",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU),
    .positions = LN_POSITIONS_LEARNED,
    .computed_positions = true,
    .learned_offset = 2,
    .scale_embedding = true,
    .norm_eps = 1e-5,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
