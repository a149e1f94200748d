/* OLMo 2: norms stand behind the blocks, q and k are normalised over all heads at once. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_POST_NORM,
     .hf = "model.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.post_attention_norm"},
    {.role = LN_ROLE_FFN_POST_NORM,
     .hf = "model.layers.%d.post_feedforward_layernorm",
     .gguf = "blk.%d.post_ffw_norm"},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
};

const ln_family ln_family_olmo2 = {
    .name = "olmo2",
    .hf_types = "olmo2",
    .gguf = "olmo2",
    .refused = "",
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_FULL,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    LN_BINDINGS(bindings),
};
