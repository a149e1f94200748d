/* MPNet (all-mpnet-base): learned positions and relative ones beside them. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_BERT_EMBEDDINGS("mpnet"),
    LN_ATTENTION("mpnet.encoder.layer.%d.attention.attn.", "q", "k", "v", "o"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "mpnet.encoder.layer.%d.attention.LayerNorm"},
    LN_BERT_FFN("mpnet"),
    {.role = LN_ROLE_RELATIVE_BIAS, .hf = "mpnet.encoder.relative_attention_bias"},
    LN_ROBERTA_CLASSES,
};

const ln_family ln_family_mpnet = {
    .name = "mpnet",
    .hf_prefix = "mpnet.",
    .ignored = LN_ROBERTA_IGNORED("mpnet"),
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .learned_after_pad = true,
    .also_relative = true,
    .pooling = LINNET_POOLING_MEAN,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
