/* BLOOM: ALiBi instead of positions, a norm behind the embedding, q, k and v of each head
 * together. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.word_embeddings", "transformer.ln_f", "lm_head"),
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "transformer.word_embeddings_layernorm"},
    LN_BLOCK_NORMS("transformer.h.%d.", "input_layernorm", "post_attention_layernorm"),
    LN_QKV("transformer.h.%d.self_attention.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP,
           LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.self_attention.dense"},
    LN_PLAIN_FFN("transformer.h.%d.mlp.", "dense_h_to_4h", "dense_4h_to_h"),
};

const ln_family ln_family_bloom = {
    .name = "bloom",
    .gguf = "bloom",
    .hf_prefix = "transformer.",
    .refused = "apply_residual_connection_post_layernorm",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .fixed_activation = true,
    .positions = LN_POSITIONS_ALIBI,
    LN_BINDINGS(bindings),
};
