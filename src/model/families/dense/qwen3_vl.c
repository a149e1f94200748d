/* The text side of Qwen 3 VL: qwen3, whose three positions of a token are one for text. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,
};

static const ln_config_default defaults[] = {
    LN_DEFAULT("head_dim", 128), LN_DEFAULT("rope_theta", 500000), {0}};

const ln_family ln_family_qwen3_vl = {
    .name = "qwen3_vl",
    .hf_types = "qwen3_vl|qwen3_vl_text",
    .gguf = "qwen3vl",
    .defaults = defaults,
    .refused = "",
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_SILU,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    LN_BINDINGS(bindings),
};
