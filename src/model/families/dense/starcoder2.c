/* StarCoder2: LayerNorm, biases, a feed-forward without gate, a window where one is given. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_PLAIN_FFN("model.layers.%d.mlp.", "c_fc", "c_proj"),
};

const ln_family ln_family_starcoder2 = {
    .name = "starcoder2",
    .gguf = "starcoder2",
    .defaults = "num_key_value_heads=2",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .window = LN_WINDOW_ALL,
    LN_BINDINGS(bindings),
};
