/* Gemma: norm weights are offsets from one (GGUF files have the one added in), the embedding is
 * scaled by sqrt(dim), heads are wider than dim / n_heads. */
#include "model/family.h"

static const ln_binding bindings[] = {LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
                                      LN_LLAMA_FFN};

static const ln_config_default defaults[] = {
    LN_DEFAULT("head_dim", 256), LN_DEFAULT("num_key_value_heads", 16), {0}};

const ln_family ln_family_gemma = {
    .name = "gemma",
    .hf_types = "gemma",
    .gguf = "gemma",
    .defaults = defaults,
    .refused = "use_bidirectional_attention",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_GELU_TANH,
    .activation_key = "hidden_act",
    .gelu_is_tanh = true,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .scale_embedding = true,
    LN_BINDINGS(bindings),
};
