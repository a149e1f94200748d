/* CTRL: sines and cosines as positions, of frequencies that end a step before 1 / 10,000; norms in
 * layers have an epsilon of their own. */
#include "model/family.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.w"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.layernorm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.h.%d.layernorm1"},
    {.role = LN_ROLE_Q, .hf = "transformer.h.%d.multi_head_attention.Wq"},
    {.role = LN_ROLE_K, .hf = "transformer.h.%d.multi_head_attention.Wk"},
    {.role = LN_ROLE_V, .hf = "transformer.h.%d.multi_head_attention.Wv"},
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.multi_head_attention.dense"},
    {.role = LN_ROLE_FFN_NORM, .hf = "transformer.h.%d.layernorm2"},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.ffn.0"},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.ffn.2"},
};

const ln_family ln_family_ctrl = {
    .name = "ctrl",
    .hf_prefix = "transformer.",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_RELU,
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .computed_positions = true,
    .even_sinusoids = true,
    .scale_embedding = true,
    .norm_eps = 1e-6,
    .output_eps = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
