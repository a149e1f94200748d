/* Flint: Qwen 3's mixture of experts chosen by sigmoid, a shared expert, sinks, windowed layers
 * that rotate and others that see all and do not. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.softmax_offset", .hf_bare = true},
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.sinks", .hf_bare = true},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_expert"),
};

const ln_family ln_family_flint = {
    .name = "flint",
    .defaults = "first_k_dense_replace=2 unless mlp_only_layers",
    .qk_norm = LN_QK_NORM_HEAD,
    .rope_rule = LN_ROPE_WINDOWED_LAYERS,
    .window = LN_WINDOW_INSIDE,
    .window_period = 4,
    .sinks = true,
    LN_SIGMOID_ROUTER,
    LN_BINDINGS(bindings),
};
