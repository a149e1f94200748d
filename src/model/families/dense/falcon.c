/* Falcon 7B (one KV head, one norm) and 40B, 180B (groups, two norms): parallel residual. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "transformer.h.%d.self_attention.query_key_value",                        \
        .gguf = "blk.%d.attn_qkv", .hf_part = LN_PART_QKV_BY_GROUP, .gguf_part = LN_PART_QKV       \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.word_embeddings", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "transformer.h.%d.ln_attn",
     .gguf = "blk.%d.attn_norm_2"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "transformer.h.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "transformer.h.%d.ln_mlp",
     .gguf = "blk.%d.attn_norm",
     .optional = true},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O,
     .hf = "transformer.h.%d.self_attention.dense",
     .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.dense_h_to_4h", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.dense_4h_to_h", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_falcon = {
    .name = "falcon",
    .hf_types = "falcon|RefinedWeb|RefinedWebModel",
    .gguf = "falcon",
    .hf_prefix = "transformer.",
    .defaults = "multi_query=true",
    .refused = "alibi|!parallel_attn",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .activation = LN_ACT_GELU,
    .plain_ffn = true,
    LN_BINDINGS(bindings),
};
