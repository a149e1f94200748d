/* BitNet b1.58: llama with norms before the last matrices of attention and feed-forward. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_ATTENTION_OUT_NORM, .hf = "model.layers.%d.self_attn.attn_sub_norm"},
    {.role = LN_ROLE_FFN_OUT_NORM, .hf = "model.layers.%d.mlp.ffn_sub_norm"},
};

const ln_family ln_family_bitnet = {
    .name = "bitnet",
    .gguf = "bitnet",
    .sub_norms = true,
    LN_BINDINGS(bindings),
};
