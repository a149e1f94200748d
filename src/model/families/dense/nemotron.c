/* Nemotron (3 and 4, Minitron): LayerNorm whose weights folders store less one, squared relu
 * without gate, half of each head rotates. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.mlp.up_proj", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.down_proj", .gguf = "blk.%d.ffn_down"},
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
