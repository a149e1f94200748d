/* Nomic BERT: rotary positions, a gated feed-forward, no biases. GGUF joins q, k and v. */
#include "model/families/encoders/bert.h"

#define QKV(role_of)                                                                               \
    {                                                                                              \
        .role = role_of, .hf = "encoder.layers.%d.attn.Wqkv", .gguf = "blk.%d.attn_qkv",           \
        .hf_part = LN_PART_QKV, .gguf_part = LN_PART_QKV                                           \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "embeddings.word_embeddings", .gguf = "token_embd"},
    {.role = LN_ROLE_TOKEN_TYPES, .hf = "embeddings.token_type_embeddings", .gguf = "token_types"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "emb_ln", .gguf = "token_embd_norm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "encoder.layers.%d.attn.out_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "encoder.layers.%d.norm1",
     .gguf = "blk.%d.attn_output_norm"},
    {.role = LN_ROLE_GATE, .hf = "encoder.layers.%d.mlp.fc12", .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_UP, .hf = "encoder.layers.%d.mlp.fc11", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "encoder.layers.%d.mlp.fc2", .gguf = "blk.%d.ffn_down"},
    {.role = LN_ROLE_FFN_NORM, .hf = "encoder.layers.%d.norm2", .gguf = "blk.%d.layer_output_norm"},
    {.role = LN_ROLE_CLASS_DENSE, .hf = "pooler.dense"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier"},
};

const ln_family ln_family_nomic_bert = {
    .name = "nomic_bert",
    .gguf = "nomic-bert",
    .ignored = "cls.predictions.bias|cls.predictions.transform.dense.weight|"
               "cls.predictions.transform.dense.bias|cls.predictions.transform.LayerNorm.weight|"
               "cls.predictions.transform.LayerNorm.bias|cls.predictions.decoder.weight|"
               "cls.predictions.decoder.bias",
    .defaults = "layer_norm_eps=1e-12|rope_theta=1000",
    LN_BERT_SHAPE(LN_ACT_SILU),
    .fixed_activation = true,
    .pooling = LINNET_POOLING_MEAN,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
