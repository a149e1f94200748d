/* Qwen 1: one matrix with biases for q, k and v; config.json and GGUF say twice the width of the
 * feed-forward, whose gate is the second matrix. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_QKV("transformer.h.%d.attn.c_attn", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj"},
    LN_GATED_FFN("transformer.h.%d.mlp.", "w2", "w1", "c_proj"),
};

const ln_family ln_family_qwen = {
    .name = "qwen",
    .gguf = "qwen",
    .halves_hidden = true,
    .trained_ctx = true,
    LN_BINDINGS(bindings),
};
