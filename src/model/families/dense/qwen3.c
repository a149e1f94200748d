/* Qwen3, dense: q and k are normalised head by head before they rotate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA, LN_LLAMA_QK_NORMS, LN_CLASS_SCORE};

const ln_family ln_family_qwen3 = {
    .name = "qwen3",
    .gguf = "qwen3",
    .hf_prefix = "model.",
    .defaults = "head_dim=128",
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    .qk_norm = LN_QK_NORM_HEAD,
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};
