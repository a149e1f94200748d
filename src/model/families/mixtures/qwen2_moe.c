/* Qwen1.5-MoE and Qwen2-MoE: qwen2 with a mixture of experts and a shared expert behind a gate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_EXPERTS,
    LN_SHARED("model.layers.%d.mlp.shared_expert.", "gate_proj", "up_proj", "down_proj"),
    {.role = LN_ROLE_SHARED_ROUTER, .hf = "model.layers.%d.mlp.shared_expert_gate"},
};

const ln_family ln_family_qwen2_moe = {
    .name = "qwen2_moe",
    .gguf = "qwen2moe",
    .defaults = "num_key_value_heads=16|num_experts_per_tok=4",
    .window = LN_WINDOW_ABOVE,
    .shared_gate = true,
    LN_BINDINGS(bindings),
};
