/* The text side of Qwen 2 VL and 2.5 VL: qwen2, whose three positions of a token are one for text.
 */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

static const ln_config_default defaults[] = {LN_DEFAULT("rope_theta", 1e6),
                                             LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT("sliding_window", 4096),
                                             LN_DEFAULT("max_window_layers", 80),
                                             {0}};

const ln_family ln_family_qwen2_vl = {
    .name = "qwen2_vl",
    .hf_types = "qwen2_vl|qwen2_vl_text|qwen2_5_vl|qwen2_5_vl_text|qwen2_5_omni_text",
    .gguf = "qwen2vl",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};
