/* Phi 3.5 MoE: LayerNorm, biases, longrope, two experts chosen by the sparse mixer. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_MIXTRAL_EXPERTS,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router", .gguf = ""},
};

const ln_family ln_family_phimoe = {
    .name = "phimoe",
    .gguf = "phimoe",
    .defaults = "num_key_value_heads=8|rope_theta=1e6|rms_norm_eps=1e-5|num_local_experts=16|"
                "num_experts_per_tok=2",
    .norm = LN_NORM_LAYER,
    .window = LN_WINDOW_ALL,
    .router = LN_ROUTER_SPARSEMIXER,
    LN_BINDINGS(bindings),
};
