/* dots.llm1: Qwen 3's attention and DeepSeek V3's mixture of experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

static const ln_config_default defaults[] = {
    LN_DEFAULT("sliding_window", 4096), LN_DEFAULT("max_window_layers", 62), {0}};

const ln_family ln_family_dots1 = {
    .name = "dots1",
    .hf_types = "dots1",
    .gguf = "dots1",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .qk_norm = LN_QK_NORM_HEAD,
    .window = LN_WINDOW_FROM,
    .router = LN_ROUTER_SIGMOID,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
