/* EXAONE 3 and 3.5: llama under GPT-2's names, or its own. */
#include "model/families/bindings.h"

#define LAYER "transformer.h.%d"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    LN_BLOCK_NORMS(LAYER ".", "ln_1", "ln_2"),
    LN_ATTENTION(LAYER ".attn.attention.", "q_proj", "k_proj", "v_proj", "out_proj"),
    LN_GATED_FFN(LAYER ".mlp.", "c_fc_0", "c_fc_1", "c_proj"),
    LN_LLAMA,
};

const ln_family ln_family_exaone = {
    .name = "exaone",
    .gguf = "exaone",
    LN_BINDINGS(bindings),
};
