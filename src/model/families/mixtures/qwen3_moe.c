/* Qwen3-MoE: qwen3 with a mixture of experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA, LN_LLAMA_QK_NORMS, LN_LLAMA_EXPERTS};

const ln_family ln_family_qwen3_moe = {
    .name = "qwen3_moe",
    .gguf = "qwen3moe",
    .defaults = "num_key_value_heads=4|num_experts_per_tok=8|moe_intermediate_size=768|"
                "norm_topk_prob=false",
    .qk_norm = LN_QK_NORM_HEAD,
    .window = LN_WINDOW_USED,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
