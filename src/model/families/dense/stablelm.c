/* StableLM: llama with LayerNorm; a quarter of each head rotates. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.post_attention_layernorm", .optional = true},
    LN_LLAMA_ATTENTION,
    LN_QK_NORMS("model.layers.%d.self_attn.", "q_layernorm.norms.%e", "k_layernorm.norms.%e"),
    LN_LLAMA_FFN,
};

const ln_family ln_family_stablelm = {
    .name = "stablelm",
    .gguf = "stablelm",
    .norm = LN_NORM_LAYER,
    .parallel_key = "use_parallel_residual",
    .qk_norm = LN_QK_NORM_OWN,
    .qk_norm_key = "qk_layernorm",
    .rope_fraction = 0.25,
    LN_BINDINGS(bindings),
};
