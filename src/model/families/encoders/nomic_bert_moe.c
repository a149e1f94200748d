/* Nomic Embed v2: Nomic BERT with biases, feed-forwards without gates, and a mixture of experts in
 * every second layer, to whose sum a vector is added. Folders call it nomic_bert, with
 * "moe_every_n_layers"; GGUF leaves that vector out. */
#include "model/families/encoders/bert.h"

#define LAYER "encoder.layers.%d."

static const ln_binding bindings[] = {
    LN_TYPED_EMBEDDINGS("embeddings.", "emb_ln"),
    LN_QKV(LAYER "attn.Wqkv", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = LAYER "attn.out_proj"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER "norm1", .gguf = "blk.%d.attn_output_norm"},
    LN_PLAIN_FFN(LAYER "mlp.", "fc1", "fc2"),
    {.role = LN_ROLE_ROUTER, .hf = LAYER "mlp.router.layer"},
    {.role = LN_ROLE_EXPERT_UP, .hf = LAYER "mlp.experts.mlp.w1", .hf_bare = true},
    {.role = LN_ROLE_EXPERT_DOWN,
     .hf = LAYER "mlp.experts.mlp.w2",
     .hf_bare = true,
     .hf_transposed = true},
    {.role = LN_ROLE_EXPERTS_BIAS,
     .hf = LAYER "mlp.experts.bias",
     .hf_bare = true,
     .gguf = "",
     .optional = true},
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER "norm2", .gguf = "blk.%d.layer_output_norm"},
};

const ln_family ln_family_nomic_bert_moe = {
    .name = "nomic_bert_moe",
    .gguf = "nomic-bert-moe",
    .ignored = LN_BERT_IGNORED,
    .defaults = "layer_norm_epsilon=1e-12|rotary_emb_base=10000",
    LN_BERT_SHAPE(LN_ACT_GELU),
    .plain_ffn = true,
    .pooling = LINNET_POOLING_MEAN,
    LN_BINDINGS(bindings),
};
