/* Mixtral: mistral with a mixture of experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.block_sparse_moe.gate"},
    {.role = LN_ROLE_EXPERT_GATE, .hf = "model.layers.%d.block_sparse_moe.experts.%e.w1"},
    {.role = LN_ROLE_EXPERT_UP, .hf = "model.layers.%d.block_sparse_moe.experts.%e.w3"},
    {.role = LN_ROLE_EXPERT_DOWN, .hf = "model.layers.%d.block_sparse_moe.experts.%e.w2"},
};

static const ln_config_default defaults[] = {
    LN_DEFAULT("num_key_value_heads", 8), LN_DEFAULT("rope_theta", 1e6),
    LN_DEFAULT("rms_norm_eps", 1e-5),     LN_DEFAULT("num_local_experts", 8),
    LN_DEFAULT("num_experts_per_tok", 2), {0}};

const ln_family ln_family_mixtral = {
    .name = "mixtral",
    .hf_types = "mixtral",
    .gguf_as = "llama",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ALL,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};
