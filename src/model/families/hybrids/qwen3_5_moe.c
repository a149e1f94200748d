/* Qwen3.5-MoE: qwen3_5 with a mixture of experts and a shared expert behind a gate. */
#include "model/families/hybrids/qwen3_next.h"

/* Of folders; all experts in one tensor. */
#define PACKED(r, folder, file, part)                                                              \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.mlp.experts." folder, .gguf = "blk.%d." file,            \
        .hf_part = part, .hf_bare = true                                                           \
    }

static const ln_binding bindings[] = {
    LN_QWEN3_NEXT_COMMON,
    LN_QWEN3_5_DELTA,
    LN_QWEN_SHARED_EXPERT,
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", "ffn_gate_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", "ffn_up_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", "ffn_down_exps", LN_PART_ALL),
    LN_LLAMA_EXPERTS,
};

const ln_family ln_family_qwen3_5_moe = {
    .name = "qwen3_5_moe",
    .hf_types = "qwen3_5_moe|qwen3_5_moe_text",
    .gguf = "qwen35moe",
    .defaults =
        LN_QWEN3_NEXT_DEFAULTS "|num_key_value_heads=2|num_experts_per_tok=8|num_experts=256|"
                               "moe_intermediate_size=512|shared_expert_intermediate_size=512",
    LN_QWEN3_NEXT_TRAITS,
    .gguf_tiled_heads = true,
    .normalize_experts = true,
    .shared_gate = true,
    LN_BINDINGS(bindings),
};
