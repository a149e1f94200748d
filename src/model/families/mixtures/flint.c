/* Flint: Qwen 3's mixture of experts chosen by sigmoid, a shared expert, sinks, windowed layers
 * that rotate and others that see all and do not. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.softmax_offset", .hf_bare = true},
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.sinks", .hf_bare = true},
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_expert"),
};

static const ln_config_default defaults[] = {
    {.key = "first_k_dense_replace", .value = 2, .unless = "mlp_only_layers"}, {0}};

const ln_family ln_family_flint = {
    .name = "flint",
    .hf_types = "flint",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .rope_rule = LN_ROPE_WINDOWED_LAYERS,
    .window = LN_WINDOW_INSIDE,
    .window_period = 4,
    .sinks = true,
    .router = LN_ROUTER_SIGMOID,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
