/* LFM2-MoE: lfm2 with mixtures of experts behind the first layers. */
#include "model/families/hybrids/lfm2.h"

#define EXPERTS(r, name, gguf_name)                                                                \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.feed_forward.experts.%e." name,                          \
        .gguf = "blk.%d." gguf_name                                                                \
    }

static const ln_binding bindings[] = {
    LN_LFM2_BINDINGS,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.feed_forward.gate"},
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%d.feed_forward.expert_bias",
     .hf_bare = true,
     .optional = true},
    {.role = LN_ROLE_ROUTER_BIAS, .optional = true},
    EXPERTS(LN_ROLE_EXPERT_GATE, "w1", "ffn_gate_exps"),
    EXPERTS(LN_ROLE_EXPERT_UP, "w3", "ffn_up_exps"),
    EXPERTS(LN_ROLE_EXPERT_DOWN, "w2", "ffn_down_exps"),
    LN_STACKED_EXPERTS("model.layers.%d.feed_forward.experts."),
};

const ln_family ln_family_lfm2_moe = {
    .name = "lfm2_moe",
    .gguf = "lfm2moe",
    .defaults = LN_LFM2_DEFAULTS "|num_dense_layers=2|num_experts=32|num_experts_per_tok=4|"
                                 "moe_intermediate_size=1792",
    LN_LFM2_TRAITS,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
