/* ChatGLM 2 and 3, and GLM-4 9B with the names of their line; GGUF's files are glm.c's. */
#include "model/family.h"

#define LAYER "transformer.encoder.layers.%d."
#define QKV(r)                                                                                     \
    { .role = r, .hf = LAYER "self_attention.query_key_value", .hf_part = LN_PART_QKV }
#define GATE_UP(r)                                                                                 \
    { .role = r, .hf = LAYER "mlp.dense_h_to_4h", .hf_part = LN_PART_GATE_UP }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.embedding.word_embeddings"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.encoder.final_layernorm"},
    {.role = LN_ROLE_OUTPUT, .hf = "transformer.output_layer"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER "input_layernorm"},
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER "post_attention_layernorm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = LAYER "self_attention.dense"},
    GATE_UP(LN_ROLE_GATE),
    GATE_UP(LN_ROLE_UP),
    {.role = LN_ROLE_DOWN, .hf = LAYER "mlp.dense_4h_to_h"},
};

const ln_family ln_family_chatglm = {
    .name = "chatglm",
    .gguf_as = "chatglm",
    .refused = "!multi_query_attention|!rmsnorm|!original_rope|!post_layer_norm|apply_residual_"
               "connection_post_layernorm",
    .fixed_activation = true,
    .rope_fraction = 0.5,
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};
