/* ERNIE 4.5: llama whose heads rotate neighbours. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

static const char defaults[] = "num_key_value_heads=2|head_dim=128|rope_theta=500000|"
                               "rms_norm_eps=1e-5";

const ln_family ln_family_ernie4_5 = {
    .name = "ernie4_5",
    .gguf = "ernie4_5",
    .defaults = defaults,
    LN_INTERLEAVED_ROPE,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};

/* PaddleOCR-VL (text): the same, which rotates halves. */
const ln_family ln_family_paddleocr_vl = {
    .name = "paddleocr_vl",
    .hf_types = "paddleocr_vl|paddleocr_vl_text",
    .gguf = "paddleocr",
    .defaults = defaults,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
