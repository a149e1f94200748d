/* Granite 3: llama with multipliers on embedding, attention, residual and logits. */
#include "model/family.h"

static const ln_binding bindings[] = {LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
                                      LN_LLAMA_FFN};

static const ln_config_default defaults[] = {LN_DEFAULT("attention_multiplier", 1), {0}};

const ln_family ln_family_granite = {
    .name = "granite",
    .hf_types = "granite",
    .gguf = "granite",
    .defaults = defaults,
    .refused = "",
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .divide_logits = true,
    LN_BINDINGS(bindings),
};
