/* Mellum 2: Qwen 3's mixture of experts with windowed layers, which rotate by a table of their own.
 */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,     LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,   LN_LLAMA_EXPERTS,
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_key_value_heads", 4),
                                             LN_DEFAULT("head_dim", 128),
                                             LN_DEFAULT("rope_theta", 500000),
                                             LN_DEFAULT("sliding_window", 1024),
                                             LN_DEFAULT("num_experts", 64),
                                             LN_DEFAULT("num_experts_per_tok", 8),
                                             LN_DEFAULT("moe_intermediate_size", 896),
                                             {0}};

const ln_family ln_family_mellum = {
    .name = "mellum",
    .hf_types = "mellum",
    .gguf = "mellum",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .local_rope = true,
    .local_theta = 10000.0,
    .gguf_lists = true,
    .router = LN_ROUTER_SOFTMAX,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
