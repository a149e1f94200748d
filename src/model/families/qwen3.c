/* Qwen3, dense: q and k are normalised head by head before they rotate. */
#include "model/family.h"

const ln_family ln_family_qwen3 = {
    .name = "qwen3",
    .hf_types = "qwen3",
    .gguf = "qwen3",
    .norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ABOVE,
    .bindings = ln_llama_bindings,
    .n_bindings = LN_N_LLAMA_BINDINGS,
};
