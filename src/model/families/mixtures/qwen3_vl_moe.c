/* The text side of Qwen 3 VL with a mixture of experts, which folders pack. */
#include "model/families/bindings.h"

#define PACKED(r, name, gguf_name, part)                                                           \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.mlp.experts." name, .gguf = "blk.%d." gguf_name,         \
        .hf_part = part, .hf_bare = true, .hf_either = true                                        \
    }

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", "ffn_gate_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", "ffn_up_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", "ffn_down_exps", LN_PART_ALL),
    LN_LLAMA_EXPERTS,
};

const ln_family ln_family_qwen3_vl_moe = {
    .name = "qwen3_vl_moe",
    .hf_types = "qwen3_vl_moe|qwen3_vl_moe_text|qwen3_omni_moe_text",
    .gguf = "qwen3vlmoe",
    .defaults = "qwen3_omni_moe_text:rope_theta=1e6|qwen3_omni_moe_text:num_experts_per_tok=8|"
                "qwen3_omni_moe_text:num_experts=128|"
                "qwen3_omni_moe_text:moe_intermediate_size=768|"
                "qwen3_omni_moe_text:num_key_value_heads=4|head_dim=128|rope_theta=500000|"
                "num_experts_per_tok=4|num_experts=60|moe_intermediate_size=1408",
    .qk_norm = LN_QK_NORM_HEAD,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
