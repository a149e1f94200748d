/* Nemotron (3 and 4, Minitron): LayerNorm whose weights folders store less one, squared relu
 * without gate, half of each head rotates. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_PLAIN_FFN("model.layers.%d.mlp.", "up_proj", "down_proj"),
};

const ln_family ln_family_nemotron = {
    .name = "nemotron",
    .gguf = "nemotron",
    .norm = LN_NORM_LAYER,
    .norms_add_one = true,
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    .rope_fraction = 0.5,
    LN_BINDINGS(bindings),
};
