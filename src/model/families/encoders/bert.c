/* BERT, and sentence-transformers of its shape (MiniLM, BGE, E5, GTE, Arctic-Embed). */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_BERT_EMBEDDINGS("bert"),
    LN_BERT_LAYERS("bert"),
    {.role = LN_ROLE_CLASS_DENSE, .hf = "bert.pooler.dense"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier"},
};

const ln_family ln_family_bert = {
    .name = "bert",
    .gguf = "bert",
    .hf_prefix = "bert.",
    .ignored = "cls.predictions.bias|cls.predictions.transform.dense.weight|"
               "cls.predictions.transform.dense.bias|cls.predictions.transform.LayerNorm.weight|"
               "cls.predictions.transform.LayerNorm.bias|cls.predictions.decoder.weight|"
               "cls.predictions.decoder.bias|cls.seq_relationship.weight|"
               "cls.seq_relationship.bias",
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .pooling = LINNET_POOLING_CLS,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
