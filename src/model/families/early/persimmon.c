/* Persimmon: LayerNorms, of each head of q and k, too; squared relu without gate; half of each head
 * rotates; q, k and v of each head lie together. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "post_attention_layernorm"),
    LN_QKV("model.layers.%d.self_attn.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP),
    LN_QK_NORMS("model.layers.%d.self_attn.", "q_layernorm", "k_layernorm"),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.dense"},
    LN_PLAIN_FFN("model.layers.%d.mlp.", "dense_h_to_4h", "dense_4h_to_h"),
};

const ln_family ln_family_persimmon = {
    .name = "persimmon",
    .hf_types = "persimmon|fuyu",
    .defaults = "qk_layernorm=true",
    .norm = LN_NORM_LAYER,
    .qk_norm = LN_QK_NORM_HEAD,
    .qk_norm_key = "qk_layernorm",
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    .rope_fraction = 0.5,
    LN_BINDINGS(bindings),
};
