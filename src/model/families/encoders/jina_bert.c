/* Jina Embeddings v2: BERT with ALiBi both ways in place of positions, and a gated feed-forward.
 * Folders call it bert, with "position_embedding_type": "alibi", and keep gate and up as one. */
#include "model/families/encoders/bert.h"

#define LAYER(role_of, name, gguf_name)                                                            \
    { .role = role_of, .hf = "bert.encoder.layer.%d." name, .gguf = "blk.%d." gguf_name }
#define HALF(role_of, gguf_name)                                                                   \
    {                                                                                              \
        .role = role_of, .hf = "bert.encoder.layer.%d.mlp.gated_layers",                           \
        .gguf = "blk.%d." gguf_name, .hf_part = LN_PART_GATE_UP                                    \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "bert.embeddings.word_embeddings"},
    {.role = LN_ROLE_TOKEN_TYPES, .hf = "bert.embeddings.token_type_embeddings"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "bert.embeddings.LayerNorm"},
    LAYER(LN_ROLE_Q, "attention.self.query", "attn_q"),
    LAYER(LN_ROLE_K, "attention.self.key", "attn_k"),
    LAYER(LN_ROLE_V, "attention.self.value", "attn_v"),
    LAYER(LN_ROLE_O, "attention.output.dense", "attn_output"),
    LAYER(LN_ROLE_ATTENTION_NORM, "attention.output.LayerNorm", "attn_output_norm"),
    HALF(LN_ROLE_GATE, "ffn_gate"),
    HALF(LN_ROLE_UP, "ffn_up"),
    LAYER(LN_ROLE_DOWN, "mlp.wo", "ffn_down"),
    LAYER(LN_ROLE_FFN_NORM, "mlp.layernorm", "layer_output_norm"),
    {.role = LN_ROLE_CLASS_DENSE, .hf = "bert.pooler.dense"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier"},
};

const ln_family ln_family_jina_bert = {
    .name = "jina_bert",
    .gguf = "jina-bert-v2",
    .hf_prefix = "bert.",
    .ignored = "cls.predictions.bias|cls.predictions.transform.dense.weight|"
               "cls.predictions.transform.dense.bias|cls.predictions.transform.LayerNorm.weight|"
               "cls.predictions.transform.LayerNorm.bias|cls.predictions.decoder.weight|"
               "cls.predictions.decoder.bias",
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .positions = LN_POSITIONS_ALIBI,
    .pooling = LINNET_POOLING_MEAN,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
