/* CTRL: sines and cosines as positions, of frequencies that end a step before 1 / 10,000; norms in
 * layers have an epsilon of their own. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.w", "transformer.layernorm", "lm_head"),
    LN_BLOCK_NORMS("transformer.h.%d.", "layernorm1", "layernorm2"),
    LN_ATTENTION("transformer.h.%d.multi_head_attention.", "Wq", "Wk", "Wv", "dense"),
    LN_PLAIN_FFN("transformer.h.%d.ffn.", "0", "2"),
};

const ln_family ln_family_ctrl = {
    .name = "ctrl",
    .hf_prefix = "transformer.",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_RELU),
    .positions = LN_POSITIONS_LEARNED,
    .computed_positions = true,
    .even_sinusoids = true,
    .scale_embedding = true,
    .norm_eps = 1e-6,
    .output_eps = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
