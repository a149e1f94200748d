/* GTE (gte-base-en-v1.5, gte-multilingual-base), Alibaba's own BERT: rotary positions, a gated
 * feed-forward whose matrices lie as one, up first. */
#include "model/families/encoders/bert.h"

#define LAYER(role_of, name, newer)                                                                \
    {.role = role_of, .hf = "encoder.layer.%d." name}, {                                           \
        .role = role_of, .hf = "layers.%d." newer                                                  \
    }

static const ln_binding bindings[] = {
    LN_TYPED_EMBEDDINGS("embeddings.", "embeddings.LayerNorm"),
    LN_QKV("encoder.layer.%d.attention.qkv_proj", .hf_part = LN_PART_QKV),
    {.role = LN_ROLE_O, .hf = "encoder.layer.%d.attention.o_proj"},
    LN_ATTENTION("layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),
    LAYER(LN_ROLE_ATTENTION_NORM, "attn_ln", "post_attention_layernorm"),
    LN_GATE_UP("encoder.layer.%d.mlp.up_gate_proj", .hf_part = LN_PART_UP_GATE),
    {.role = LN_ROLE_DOWN, .hf = "encoder.layer.%d.mlp.down_proj"},
    LN_GATED_FFN("layers.%d.mlp.", "gate_proj", "up_proj", "down_proj"),
    LAYER(LN_ROLE_FFN_NORM, "mlp_ln", "post_mlp_layernorm"),
    LN_CLASSES("pooler.dense", "classifier"),
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
