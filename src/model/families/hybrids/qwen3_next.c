/* Qwen3-Next: three layers of four are gated delta nets, the others attention whose output is
 * gated; mixtures of experts with a shared expert behind a gate. */
#include "model/families/hybrids/qwen3_next.h"

static const ln_binding bindings[] = {
    LN_QWEN3_NEXT_COMMON,
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_QWEN_SHARED_EXPERT,
    {.role = LN_ROLE_MIXER_Q,
     .hf = "model.layers.%d.linear_attn.in_proj_qkvz",
     .gguf = "blk.%d.attn_qkv",
     .hf_part = LN_PART_MIXER_QKVZ_BY_HEAD,
     .gguf_part = LN_PART_MIXER_QKV},
    {.role = LN_ROLE_MIXER_K,
     .hf = "model.layers.%d.linear_attn.in_proj_qkvz",
     .gguf = "blk.%d.attn_qkv",
     .hf_part = LN_PART_MIXER_QKVZ_BY_HEAD,
     .gguf_part = LN_PART_MIXER_QKV},
    {.role = LN_ROLE_MIXER_V,
     .hf = "model.layers.%d.linear_attn.in_proj_qkvz",
     .gguf = "blk.%d.attn_qkv",
     .hf_part = LN_PART_MIXER_QKVZ_BY_HEAD,
     .gguf_part = LN_PART_MIXER_QKV},
    {.role = LN_ROLE_MIXER_GATE,
     .hf = "model.layers.%d.linear_attn.in_proj_qkvz",
     .gguf = "blk.%d.attn_gate",
     .hf_part = LN_PART_MIXER_QKVZ_BY_HEAD},
    {.role = LN_ROLE_MIXER_A,
     .hf = "model.layers.%d.linear_attn.in_proj_ba",
     .gguf = "blk.%d.ssm_ba",
     .hf_part = LN_PART_MIXER_BA_BY_HEAD,
     .gguf_part = LN_PART_MIXER_BA_BY_HEAD},
    {.role = LN_ROLE_MIXER_B,
     .hf = "model.layers.%d.linear_attn.in_proj_ba",
     .gguf = "blk.%d.ssm_ba",
     .hf_part = LN_PART_MIXER_BA_BY_HEAD,
     .gguf_part = LN_PART_MIXER_BA_BY_HEAD},
};

const ln_family ln_family_qwen3_next = {
    .name = "qwen3_next",
    .gguf = "qwen3next",
    .defaults = LN_QWEN3_NEXT_DEFAULTS
    "|num_key_value_heads=2|num_experts_per_tok=10|num_experts=512|"
    "moe_intermediate_size=512|shared_expert_intermediate_size=512|norm_topk_prob=true",
    LN_QWEN3_NEXT_TRAITS,
    .normalize_experts = true,
    .shared_gate = true,
    LN_BINDINGS(bindings),
};
