/* StarCoder and SantaCoder: GPT-2 with one KV head, its matrices stored [out][in]. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "transformer.wpe"},
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_QKV("transformer.h.%d.attn.c_attn", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj"},
    LN_PLAIN_FFN("transformer.h.%d.mlp.", "c_fc", "c_proj"),
};

const ln_family ln_family_gpt_bigcode = {
    .name = "gpt_bigcode",
    .gguf = "starcoder",
    .hf_prefix = "transformer.",
    .defaults = "multi_query=true",
    .refused = "!multi_query|!scale_attn_weights|add_cross_attention",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .positions = LN_POSITIONS_LEARNED,
    LN_BINDINGS(bindings),
};

static const ln_binding codeshell_bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_QKV("transformer.h.%d.attn.c_attn", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj"},
    LN_PLAIN_FFN("transformer.h.%d.mlp.", "c_fc", "c_proj"),
};

/* CodeShell: the same with groups of heads, and RoPE. */
const ln_family ln_family_codeshell = {
    .name = "codeshell",
    .hf_types = "codeshell|kclgpt",
    .gguf = "codeshell",
    .hf_prefix = "transformer.",
    .refused = "!scale_attn_weights|add_cross_attention",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    LN_BINDINGS(codeshell_bindings),
};
