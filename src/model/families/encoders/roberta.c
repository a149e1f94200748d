/* RoBERTa and XLM-RoBERTa (BGE-M3, multilingual E5, BGE rerankers), CamemBERT: BERT whose positions
 * are counted from behind the padding token's id. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_BERT_EMBEDDINGS("roberta"),
    LN_BERT_LAYERS("roberta"),
    LN_ROBERTA_CLASSES,
};

const ln_family ln_family_roberta = {
    .name = "roberta",
    .hf_types = "roberta|xlm-roberta|camembert",
    .gguf_as = "bert",
    .hf_prefix = "roberta.",
    .ignored = LN_ROBERTA_IGNORED("roberta"),
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .learned_after_pad = true,
    .pooling = LINNET_POOLING_CLS,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
