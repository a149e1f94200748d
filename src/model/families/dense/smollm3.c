/* SmolLM3: llama where some layers do not rotate. */
#include "model/family.h"

static const ln_binding bindings[] = {LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
                                      LN_LLAMA_FFN};

static const ln_config_default defaults[] = {
    LN_DEFAULT("num_key_value_heads", 4), LN_DEFAULT("rope_theta", 2e6), {0}};

const ln_family ln_family_smollm3 = {
    .name = "smollm3",
    .hf_types = "smollm3",
    .gguf = "smollm3",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .rope_rule = LN_ROPE_LISTED_LAYERS,
    .window = LN_WINDOW_UNROTATED,
    LN_BINDINGS(bindings),
};
