/* ELECTRA: BERT with a matrix and an activation of its own before the classes. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_BERT_EMBEDDINGS("electra"),
    LN_BERT_LAYERS("electra"),
    LN_ROBERTA_CLASSES,
};

const ln_family ln_family_electra = {
    .name = "electra",
    .hf_prefix = "electra.",
    .ignored = "discriminator_predictions.dense.weight|discriminator_predictions.dense.bias|"
               "discriminator_predictions.dense_prediction.weight|"
               "discriminator_predictions.dense_prediction.bias",
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .pooling = LINNET_POOLING_CLS,
    .class_activation = LN_HEAD_GELU,
    LN_BINDINGS(bindings),
};
