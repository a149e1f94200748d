/* Jina Embeddings v2: BERT with ALiBi both ways in place of positions, and a gated feed-forward.
 * Folders call it bert, with "position_embedding_type": "alibi", and keep gate and up as one. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_TYPED_EMBEDDINGS("bert.embeddings.", "bert.embeddings.LayerNorm"),
    LN_BERT_ATTENTION("bert"),
    LN_GATE_UP("bert.encoder.layer.%d.mlp.gated_layers", .hf_part = LN_PART_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = "bert.encoder.layer.%d.mlp.wo"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "bert.encoder.layer.%d.mlp.layernorm",
     .gguf = "blk.%d.layer_output_norm"},
    LN_CLASSES("bert.pooler.dense", "classifier"),
};

const ln_family ln_family_jina_bert = {
    .name = "jina_bert",
    .gguf = "jina-bert-v2",
    .hf_prefix = "bert.",
    .ignored = LN_BERT_IGNORED,
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .positions = LN_POSITIONS_ALIBI,
    .pooling = LINNET_POOLING_MEAN,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
