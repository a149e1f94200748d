/* MPT: ALiBi instead of positions, one matrix for q, k and v, which may be clamped. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.norm_f", "lm_head"),
    LN_BLOCK_NORMS("transformer.blocks.%d.", "norm_1", "norm_2"),
    LN_QKV("transformer.blocks.%d.attn.Wqkv", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.blocks.%d.attn.out_proj"},
    LN_PLAIN_FFN("transformer.blocks.%d.ffn.", "up_proj", "down_proj"),
};

const ln_family ln_family_mpt = {
    .name = "mpt",
    .gguf = "mpt",
    .hf_prefix = "transformer.",
    .refused = "attn_config.qk_ln|attn_config.prefix_lm|!attn_config.alibi",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU),
    .fixed_activation = true,
    .positions = LN_POSITIONS_ALIBI,
    .gguf_clips = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
