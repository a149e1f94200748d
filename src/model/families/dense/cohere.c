/* Command R: one LayerNorm without bias feeds attention and feed-forward in parallel. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    /* Command R+ */
    LN_LLAMA_FFN,
};

const ln_family ln_family_cohere = {
    .name = "cohere",
    .gguf = "command-r",
    .defaults = "logit_scale=0.0625|rope_theta=500000",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .qk_norm = LN_QK_NORM_OWN,
    .qk_norm_key = "use_qk_norm",
    .gguf_qk_norm_layers = 64,
    LN_INTERLEAVED_ROPE,
    LN_BINDINGS(bindings),
};
