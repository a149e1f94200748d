/* MPT: ALiBi instead of positions, one matrix for q, k and v, which may be clamped. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "transformer.blocks.%d.attn.Wqkv", .gguf = "blk.%d.attn_qkv",             \
        .hf_part = LN_PART_QKV, .gguf_part = LN_PART_QKV                                           \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.wte", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.norm_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "transformer.blocks.%d.norm_1",
     .gguf = "blk.%d.attn_norm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "transformer.blocks.%d.attn.out_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM, .hf = "transformer.blocks.%d.norm_2", .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_UP, .hf = "transformer.blocks.%d.ffn.up_proj", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "transformer.blocks.%d.ffn.down_proj", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_mpt = {
    .name = "mpt",
    .gguf = "mpt",
    .hf_prefix = "transformer.",
    .refused = "attn_config.qk_ln|attn_config.prefix_lm|!attn_config.alibi",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU,
    .fixed_activation = true,
    .plain_ffn = true,
    .positions = LN_POSITIONS_ALIBI,
    .gguf_clips = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
