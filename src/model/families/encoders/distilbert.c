/* DistilBERT: BERT without token types. */
#include "model/families/encoders/bert.h"

#define LAYER "distilbert.transformer.layer.%d."

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "distilbert.embeddings.word_embeddings"},
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "distilbert.embeddings.position_embeddings"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "distilbert.embeddings.LayerNorm"},
    LN_ATTENTION(LAYER "attention.", "q_lin", "k_lin", "v_lin", "out_lin"),
    LN_BLOCK_NORMS(LAYER, "sa_layer_norm", "output_layer_norm"),
    LN_PLAIN_FFN(LAYER "ffn.", "lin1", "lin2"),
    {.role = LN_ROLE_CLASS_DENSE, .hf = "pre_classifier"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier"},
};

const ln_family ln_family_distilbert = {
    .name = "distilbert",
    .hf_prefix = "distilbert.",
    .ignored = "vocab_transform.weight|vocab_transform.bias|vocab_layer_norm.weight|"
               "vocab_layer_norm.bias|vocab_projector.weight|vocab_projector.bias",
    .defaults = "layer_norm_eps=1e-12",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .positions = LN_POSITIONS_LEARNED,
    .pooling = LINNET_POOLING_CLS,
    .class_activation = LN_HEAD_RELU,
    LN_BINDINGS(bindings),
};
