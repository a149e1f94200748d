/* Apertus: q and k normalised by head, xIELU without a gate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_BLOCK_NORMS("model.layers.%d.", "attention_layernorm", "feedforward_layernorm"),
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_PLAIN_FFN("model.layers.%d.mlp.", "up_proj", "down_proj"),
};

const ln_family ln_family_apertus = {
    .name = "apertus",
    .gguf = "apertus",
    .defaults = "rope_theta=12000000|rms_norm_eps=1e-5",
    LN_NO_GATE(LN_ACT_NONE),
    .qk_norm = LN_QK_NORM_HEAD,
    .xielu = true,
    LN_BINDINGS(bindings),
};
