/* DeepSeek MoE, the first: llama's attention, softmax over all experts whose weights stay as they
 * are, shared experts, and dense layers before the mixtures. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
};

const ln_family ln_family_deepseek = {
    .name = "deepseek",
    .gguf = "deepseek",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};

/* The language model of DeepSeek OCR 2, and in GGUF of the first. */
const ln_family ln_family_deepseek_ocr2 = {
    .name = "deepseek_ocr2",
    .hf_types = "deepseek_ocr2_text|deepseek_ocr2",
    .gguf = "deepseek2-ocr",
    .gguf_whole_rope = true,
    .gguf_plain_heads = true,
    .gguf_theta = 10000.0,
    .gguf_dense_first = true,
    .zero_other_groups = true,
    .keeps_expert_weights = true,
    LN_BINDINGS(bindings),
};
