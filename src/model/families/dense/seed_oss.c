/* Seed-OSS: llama with biases of q, k and v. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "model.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.post_attention_norm"},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_seed_oss = {
    .name = "seed_oss",
    .gguf = "seed_oss",
    .defaults = "num_key_value_heads=8|head_dim=128",
    LN_BINDINGS(bindings),
};
