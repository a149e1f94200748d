/* OPT: learned positions that begin at row 2, relu. The 350M has norms behind the residual and an
 * embedding of half the width. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("model.decoder.embed_tokens", "model.decoder.final_layer_norm", "lm_head"),
    {.role = LN_ROLE_EMBEDDING_IN, .hf = "model.decoder.project_in"},
    {.role = LN_ROLE_OUTPUT_IN, .hf = "model.decoder.project_out"},
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "model.decoder.embed_positions"},
    LN_BLOCK_NORMS("model.decoder.layers.%d.", "self_attn_layer_norm", "final_layer_norm"),
    LN_ATTENTION("model.decoder.layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj"),
    LN_PLAIN_FFN("model.decoder.layers.%d.", "fc1", "fc2"),
};

const ln_family ln_family_opt = {
    .name = "opt",
    .hf_prefix = "model.",
    .refused = "_remove_final_layer_norm",
    .norm = LN_NORM_LAYER,
    .norm_before_key = "do_layer_norm_before",
    LN_NO_GATE(LN_ACT_RELU),
    .positions = LN_POSITIONS_LEARNED,
    .learned_offset = 2,
    LN_BINDINGS(bindings),
};
