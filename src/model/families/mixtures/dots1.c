/* dots.llm1: Qwen 3's attention and DeepSeek V3's mixture of experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_dots1 = {
    .name = "dots1",
    .gguf = "dots1",
    .defaults = "sliding_window=4096|max_window_layers=62",
    .qk_norm = LN_QK_NORM_HEAD,
    .window = LN_WINDOW_FROM,
    .router = LN_ROUTER_SIGMOID,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
