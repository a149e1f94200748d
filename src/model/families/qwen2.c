/* Qwen2 and 2.5: llama with biases on q, k and v; upper layers may have a window. */
#include "model/family.h"

const ln_family ln_family_qwen2 = {
    .name = "qwen2",
    .hf_types = "qwen2",
    .gguf = "qwen2",
    .norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .qk_norm = LN_QK_NORM_NONE,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ABOVE,
    .bindings = ln_llama_bindings,
    .n_bindings = LN_N_LLAMA_BINDINGS,
};
