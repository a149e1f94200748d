/* DeepSeek MoE, the first: llama's attention, softmax over all experts whose weights stay as they
 * are, shared experts, and dense layers before the mixtures. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_NORMS,   LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,  LN_LLAMA_EXPERTS, LN_SHARED_EXPERTS("mlp.shared_experts"),
};

const ln_family ln_family_deepseek = {
    .name = "deepseek",
    .hf_types = "deepseek",
    .gguf = "deepseek",
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .router = LN_ROUTER_SOFTMAX,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
