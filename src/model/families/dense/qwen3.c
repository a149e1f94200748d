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
    .refused = "",
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .qk_norm = LN_QK_NORM_HEAD,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};
