/* SmolLM3: llama where some layers do not rotate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_smollm3 = {
    .name = "smollm3",
    .gguf = "smollm3",
    .defaults = "num_key_value_heads=4|rope_theta=2e6",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .rope_rule = LN_ROPE_LISTED_LAYERS,
    .window = LN_WINDOW_UNROTATED,
    LN_BINDINGS(bindings),
};
