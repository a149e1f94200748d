/* Qwen3, dense: q and k are normalised head by head before they rotate. */
#include "model/family.h"

static const ln_binding bindings[] = {LN_LLAMA_ENDS,     LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
                                      LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,   LN_CLASS_SCORE};

static const ln_config_default defaults[] = {LN_DEFAULT("head_dim", 128), {0}};

const ln_family ln_family_qwen3 = {
    .name = "qwen3",
    .hf_types = "qwen3",
    .gguf = "qwen3",
    .hf_prefix = "model.",
    .defaults = defaults,
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};
