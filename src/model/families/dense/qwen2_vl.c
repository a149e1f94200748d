/* The text side of Qwen 2 VL and 2.5 VL: qwen2, whose three positions of a token are one for text.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_qwen2_vl = {
    .name = "qwen2_vl",
    .hf_types = "qwen2_vl|qwen2_vl_text|qwen2_5_vl|qwen2_5_vl_text|qwen2_5_omni_text",
    .gguf = "qwen2vl",
    .defaults = "rope_theta=1e6|rms_norm_eps=1e-5|sliding_window=4096|max_window_layers=80",
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};
