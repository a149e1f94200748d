/* Qwen1.5-MoE and Qwen2-MoE: qwen2 with a mixture of experts and a shared expert behind a gate. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    {.role = LN_ROLE_SHARED_GATE,
     .hf = "model.layers.%d.mlp.shared_expert.gate_proj",
     .gguf = "blk.%d.ffn_gate_shexp"},
    {.role = LN_ROLE_SHARED_UP,
     .hf = "model.layers.%d.mlp.shared_expert.up_proj",
     .gguf = "blk.%d.ffn_up_shexp"},
    {.role = LN_ROLE_SHARED_DOWN,
     .hf = "model.layers.%d.mlp.shared_expert.down_proj",
     .gguf = "blk.%d.ffn_down_shexp"},
    {.role = LN_ROLE_SHARED_ROUTER,
     .hf = "model.layers.%d.mlp.shared_expert_gate",
     .gguf = "blk.%d.ffn_gate_inp_shexp"},
};

const ln_family ln_family_qwen2_moe = {
    .name = "qwen2_moe",
    .gguf = "qwen2moe",
    .defaults = "num_key_value_heads=16|num_experts_per_tok=4",
    .window = LN_WINDOW_ABOVE,
    .shared_gate = true,
    LN_BINDINGS(bindings),
};
