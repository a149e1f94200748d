#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_jais2 = {
    .name = "jais2",
    .gguf = "jais2",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_RELU_SQUARED,
    .plain_ffn = true,
    LN_BINDINGS(bindings),
};
