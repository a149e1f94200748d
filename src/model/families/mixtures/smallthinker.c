/* SmallThinker: routers read the residual stream as a layer begins, so that experts can be fetched
 * while attention runs; these have gates of ReLU. Layers that see all have no positions where
 * others see a window. */
#include "model/families/bindings.h"

#define MOE "model.layers.%d.block_sparse_moe."

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    {.role = LN_ROLE_ROUTER, .hf = MOE "primary_router"},
    LN_EXPERTS(MOE "experts.%e.", "gate", "up", "down"),
};

const ln_family ln_family_smallthinker = {
    .name = "smallthinker",
    .gguf = "smallthinker",
    .refused = "moe_enable_secondary_experts|!moe_enable_early_router",
    .activation = LN_ACT_RELU,
    .fixed_activation = true,
    .rope_rule = LN_ROPE_WINDOWED_OR_ALL,
    .window = LN_WINDOW_BEHIND,
    .window_period = 4,
    .gguf_window_tokens = 4096,
    .chunk_key = "sliding_window_size",
    .expert_hidden_key = "moe_ffn_hidden_size",
    LN_SIGMOID_ROUTER,
    .routes_first = true,
    LN_BINDINGS(bindings),
};
