/* GPT-Neo: learned positions, every other layer windowed, scores that are not divided. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "transformer.wpe"},
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_ATTENTION("transformer.h.%d.attn.attention.", "q_proj", "k_proj", "v_proj", "out_proj"),
    LN_PLAIN_FFN("transformer.h.%d.mlp.", "c_fc", "c_proj"),
};

const ln_family ln_family_gpt_neo = {
    .name = "gpt_neo",
    .hf_prefix = "transformer.",
    .defaults = "window_size=256",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .positions = LN_POSITIONS_LEARNED,
    .window = LN_WINDOW_BEHIND,
    .window_period = 2,
    .chunk_key = "window_size",
    .unit_scale = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
