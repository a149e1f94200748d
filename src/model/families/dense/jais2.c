#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_jais2 = {
    .name = "jais2",
    .gguf = "jais2",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    LN_BINDINGS(bindings),
};
