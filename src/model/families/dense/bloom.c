/* BLOOM: ALiBi instead of positions, a norm behind the embedding, q, k and v of each head
 * together. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.word_embeddings"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "transformer.word_embeddings_layernorm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.h.%d.input_layernorm"},
    LN_QKV("transformer.h.%d.self_attention.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP,
           LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.self_attention.dense"},
    {.role = LN_ROLE_FFN_NORM, .hf = "transformer.h.%d.post_attention_layernorm"},
    LN_PLAIN_FFN("transformer.h.%d.mlp.", "dense_h_to_4h", "dense_4h_to_h"),
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
