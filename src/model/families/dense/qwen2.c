/* Qwen2 and 2.5: llama with biases on q, k and v; upper layers may have a window. */
#include "model/family.h"

static const ln_binding bindings[] = {LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
                                      LN_LLAMA_FFN};

const ln_family ln_family_qwen2 = {
    .name = "qwen2",
    .hf_types = "qwen2",
    .gguf = "qwen2",
    .refused = "",
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};
