/* Arcee AFM: llama with a feed-forward without gate, squared relu. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.mlp.up_proj", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.down_proj", .gguf = "blk.%d.ffn_down"},
};

static const ln_config_default defaults[] = {LN_DEFAULT("rms_norm_eps", 1e-5), {0}};

const ln_family ln_family_arcee = {
    .name = "arcee",
    .hf_types = "arcee",
    .gguf = "arcee",
    .defaults = defaults,
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_RELU_SQUARED,
    .plain_ffn = true,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};
