/* BLOOM: ALiBi instead of positions, a norm behind the embedding, q, k and v of each head
 * together. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "transformer.h.%d.self_attention.query_key_value",                        \
        .gguf = "blk.%d.attn_qkv", .hf_part = LN_PART_QKV_BY_GROUP, .gguf_part = LN_PART_QKV       \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.word_embeddings", .gguf = "token_embd"},
    {.role = LN_ROLE_EMBEDDING_NORM,
     .hf = "transformer.word_embeddings_layernorm",
     .gguf = "token_embd_norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "transformer.h.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O,
     .hf = "transformer.h.%d.self_attention.dense",
     .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "transformer.h.%d.post_attention_layernorm",
     .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.dense_h_to_4h", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.dense_4h_to_h", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_bloom = {
    .name = "bloom",
    .gguf = "bloom",
    .hf_prefix = "transformer.",
    .refused = "apply_residual_connection_post_layernorm",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU_TANH,
    .fixed_activation = true,
    .plain_ffn = true,
    .positions = LN_POSITIONS_ALIBI,
    LN_BINDINGS(bindings),
};
