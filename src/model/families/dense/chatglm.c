/* ChatGLM 2 and 3, and GLM-4 9B with the names of their line; GGUF's files are glm.c's. */
#include "model/families/bindings.h"

#define LAYER "transformer.encoder.layers.%d."
static const ln_binding bindings[] = {
    LN_ENDS("transformer.embedding.word_embeddings", "transformer.encoder.final_layernorm",
            "transformer.output_layer"),
    LN_BLOCK_NORMS(LAYER, "input_layernorm", "post_attention_layernorm"),
    LN_QKV(LAYER "self_attention.query_key_value", .hf_part = LN_PART_QKV),
    {.role = LN_ROLE_O, .hf = LAYER "self_attention.dense"},
    LN_GATE_UP(LAYER "mlp.dense_h_to_4h", .hf_part = LN_PART_GATE_UP),
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
