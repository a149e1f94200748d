/* StarCoder and SantaCoder: GPT-2 with one KV head, its matrices stored [out][in]. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "transformer.h.%d.attn.c_attn", .gguf = "blk.%d.attn_qkv",                \
        .hf_part = LN_PART_QKV, .gguf_part = LN_PART_QKV                                           \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.wte", .gguf = "token_embd"},
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "transformer.wpe", .gguf = "position_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.h.%d.ln_1", .gguf = "blk.%d.attn_norm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM, .hf = "transformer.h.%d.ln_2", .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.c_fc", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.c_proj", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_gpt_bigcode = {
    .name = "gpt_bigcode",
    .gguf = "starcoder",
    .hf_prefix = "transformer.",
    .defaults = "multi_query=true",
    .refused = "!multi_query|!scale_attn_weights|add_cross_attention",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU_TANH,
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    LN_BINDINGS(bindings),
};
