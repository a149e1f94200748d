/* Apertus: q and k normalised by head, xIELU without a gate. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "model.layers.%d.attention_layernorm",
     .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "model.layers.%d.feedforward_layernorm",
     .gguf = "blk.%d.ffn_norm"},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.mlp.up_proj", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.down_proj", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_apertus = {
    .name = "apertus",
    .gguf = "apertus",
    .defaults = "rope_theta=12000000|rms_norm_eps=1e-5",
    .activation = LN_ACT_NONE,
    .qk_norm = LN_QK_NORM_HEAD,
    .xielu = true,
    .plain_ffn = true,
    LN_BINDINGS(bindings),
};
