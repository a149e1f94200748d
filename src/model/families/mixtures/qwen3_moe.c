/* Qwen3-MoE: qwen3 with a mixture of experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,     LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,   LN_LLAMA_EXPERTS,
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_key_value_heads", 4),
                                             LN_DEFAULT("num_experts_per_tok", 8),
                                             LN_DEFAULT("moe_intermediate_size", 768),
                                             LN_DEFAULT_FLAG("norm_topk_prob", false),
                                             {0}};

const ln_family ln_family_qwen3_moe = {
    .name = "qwen3_moe",
    .hf_types = "qwen3_moe",
    .gguf = "qwen3moe",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_USED,
    .router = LN_ROUTER_SOFTMAX,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
