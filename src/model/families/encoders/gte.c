/* GTE (gte-base-en-v1.5, gte-multilingual-base), Alibaba's own BERT: rotary positions, a gated
 * feed-forward whose matrices lie as one, up first. */
#include "model/families/encoders/bert.h"

#define LAYER(role_of, name, newer)                                                                \
    {.role = role_of, .hf = "encoder.layer.%d." name}, {                                           \
        .role = role_of, .hf = "layers.%d." newer                                                  \
    }
#define QKV(role_of, newer)                                                                        \
    {.role = role_of, .hf = "encoder.layer.%d.attention.qkv_proj", .hf_part = LN_PART_QKV}, {      \
        .role = role_of, .hf = "layers.%d.self_attn." newer                                        \
    }
#define HALF(role_of, newer)                                                                       \
    {.role = role_of, .hf = "encoder.layer.%d.mlp.up_gate_proj", .hf_part = LN_PART_UP_GATE}, {    \
        .role = role_of, .hf = "layers.%d.mlp." newer                                              \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "embeddings.word_embeddings"},
    {.role = LN_ROLE_TOKEN_TYPES, .hf = "embeddings.token_type_embeddings"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "embeddings.LayerNorm"},
    QKV(LN_ROLE_Q, "q_proj"),
    QKV(LN_ROLE_K, "k_proj"),
    QKV(LN_ROLE_V, "v_proj"),
    LAYER(LN_ROLE_O, "attention.o_proj", "self_attn.o_proj"),
    LAYER(LN_ROLE_ATTENTION_NORM, "attn_ln", "post_attention_layernorm"),
    HALF(LN_ROLE_GATE, "gate_proj"),
    HALF(LN_ROLE_UP, "up_proj"),
    LAYER(LN_ROLE_DOWN, "mlp.down_proj", "mlp.down_proj"),
    LAYER(LN_ROLE_FFN_NORM, "mlp_ln", "post_mlp_layernorm"),
    {.role = LN_ROLE_CLASS_DENSE, .hf = "pooler.dense"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier"},
};

const ln_family ln_family_gte = {
    .name = "gte",
    .hf_types = "gte|new",
    .hf_prefix = "new.",
    .ignored = "lm_head.dense.weight|lm_head.dense.bias|lm_head.norm.weight|lm_head.norm.bias|"
               "lm_head.decoder.weight|lm_head.decoder.bias|pooler.dense.weight|pooler.dense.bias|"
               "new.pooler.dense.weight|new.pooler.dense.bias",
    .defaults = "layer_norm_eps=1e-12|gte:rope_theta=160000|new:rope_theta=10000",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .pooling = LINNET_POOLING_CLS,
    .class_activation = LN_HEAD_TANH,
    LN_BINDINGS(bindings),
};
