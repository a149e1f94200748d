/* Nemotron (3 and 4, Minitron): LayerNorm whose weights folders store less one, squared relu
 * without gate, half of each head rotates. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_PLAIN_FFN("model.layers.%d.mlp.", "up_proj", "down_proj"),
};

const ln_family ln_family_nemotron = {
    .name = "nemotron",
    .gguf = "nemotron",
    .norm = LN_NORM_LAYER,
    .norms_add_one = true,
    .activation = LN_ACT_RELU_SQUARED,
    .plain_ffn = true,
    .rope_fraction = 0.5,
    LN_BINDINGS(bindings),
};
