/* Nomic BERT: rotary positions, a gated feed-forward, no biases. GGUF joins q, k and v. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_TYPED_EMBEDDINGS("embeddings.", "emb_ln"),
    LN_QKV("encoder.layers.%d.attn.Wqkv", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "encoder.layers.%d.attn.out_proj"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "encoder.layers.%d.norm1",
     .gguf = "blk.%d.attn_output_norm"},
    LN_GATED_FFN("encoder.layers.%d.mlp.", "fc12", "fc11", "fc2"),
    {.role = LN_ROLE_FFN_NORM, .hf = "encoder.layers.%d.norm2", .gguf = "blk.%d.layer_output_norm"},
    {.role = LN_ROLE_CLASS_DENSE, .hf = "pooler.dense", .gguf = ""},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier", .gguf = ""},
};

const ln_family ln_family_nomic_bert = {
    .name = "nomic_bert",
    .gguf = "nomic-bert",
    .ignored = LN_BERT_IGNORED,
    .defaults = "layer_norm_eps=1e-12|rope_theta=1000",
    LN_BERT_SHAPE(LN_ACT_SILU),
    .fixed_activation = true,
    .pooling = LINNET_POOLING_MEAN,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
