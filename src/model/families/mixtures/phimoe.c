/* Phi 3.5 MoE: LayerNorm, biases, longrope, two experts chosen by the sparse mixer. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_MIXTRAL_EXPERTS,
};

static const ln_config_default defaults[] = {
    LN_DEFAULT("num_key_value_heads", 8), LN_DEFAULT("rope_theta", 1e6),
    LN_DEFAULT("rms_norm_eps", 1e-5),     LN_DEFAULT("num_local_experts", 16),
    LN_DEFAULT("num_experts_per_tok", 2), {0}};

const ln_family ln_family_phimoe = {
    .name = "phimoe",
    .hf_types = "phimoe",
    .gguf = "phimoe",
    .defaults = defaults,
    .norm = LN_NORM_LAYER,
    .gguf_norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ALL,
    .router = LN_ROUTER_SPARSEMIXER,
    LN_BINDINGS(bindings),
};
