/* Command R7B: three windowed layers that rotate to one that sees all and has no positions. Compass
 * (North Micro Vision): layers rotate halves, as their kind says. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_cohere2 = {
    .name = "cohere2",
    .gguf = "cohere2",
    .defaults = "logit_scale=0.0625|sliding_window=4096",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    LN_INTERLEAVED_ROPE,
    .rope_rule = LN_ROPE_WINDOWED_LAYERS,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    LN_BINDINGS(bindings),
};

const ln_family ln_family_cohere_compass = {
    .name = "cohere_compass",
    .hf_types = "cohere_compass_text|cohere_compass",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .local_rope = true,
    .rope_rule = LN_ROPE_LISTED_KINDS,
    LN_BINDINGS(bindings),
};
