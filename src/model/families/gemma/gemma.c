/* Gemma: norm weights are offsets from one (GGUF files have the one added in), the embedding is
 * scaled by sqrt(dim), heads are wider than dim / n_heads. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_gemma = {
    .name = "gemma",
    .gguf = "gemma",
    .defaults = "head_dim=256|num_key_value_heads=16",
    .refused = "use_bidirectional_attention",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .activation = LN_ACT_GELU_TANH,
    .activation_key = "hidden_act",
    .gelu_is_tanh = true,
    .scale_embedding = true,
    LN_BINDINGS(bindings),
};
