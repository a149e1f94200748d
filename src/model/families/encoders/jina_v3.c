/* Jina Embeddings v3 without its adapters: XLM-RoBERTa with rotary positions. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    LN_TYPED_EMBEDDINGS("embeddings.", "emb_ln"),
    LN_QKV("encoder.layers.%d.mixer.Wqkv", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "encoder.layers.%d.mixer.out_proj"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "encoder.layers.%d.norm1",
     .gguf = "blk.%d.attn_output_norm"},
    {.role = LN_ROLE_FFN_NORM, .hf = "encoder.layers.%d.norm2", .gguf = "blk.%d.layer_output_norm"},
    LN_PLAIN_FFN("encoder.layers.%d.mlp.", "fc1", "fc2"),
    LN_ROBERTA_CLASSES,
};

const ln_family ln_family_jina_embeddings_v3 = {
    .name = "jina_embeddings_v3",
    .gguf = "jina-bert-v3",
    .ignored = LN_ROBERTA_IGNORED("model"),
    .defaults = "rope_theta=20000",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .pooling = LINNET_POOLING_MEAN,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
