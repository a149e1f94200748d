/* OLMo 3: OLMo 2 with three windowed layers to one that sees all; the windowed ones rotate
 * without scaling. */
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

const ln_family ln_family_olmo3 = {
    .name = "olmo3",
    .hf_types = "olmo3",
    .gguf = "olmo3",
    .refused = "",
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_FULL,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .local_rope = true,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    LN_BINDINGS(bindings),
};
