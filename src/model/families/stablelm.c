/* StableLM: llama with LayerNorm; a quarter of each head rotates. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "model.layers.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "model.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.ffn_norm",
     .optional = true},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_stablelm = {
    .name = "stablelm",
    .hf_types = "stablelm",
    .gguf = "stablelm",
    .refused = "qk_layernorm",
    .norm = LN_NORM_LAYER,
    .gguf_norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PRE,
    .parallel_key = "use_parallel_residual",
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    LN_BINDINGS(bindings),
};
