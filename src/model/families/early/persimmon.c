/* Persimmon: LayerNorms, of each head of q and k, too; squared relu without gate; half of each head
 * rotates; q, k and v of each head lie together. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.self_attn.query_key_value",                              \
        .hf_part = LN_PART_QKV_BY_GROUP                                                            \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_layernorm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_Q_NORM, .hf = "model.layers.%d.self_attn.q_layernorm"},
    {.role = LN_ROLE_K_NORM, .hf = "model.layers.%d.self_attn.k_layernorm"},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.dense"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.post_attention_layernorm"},
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.mlp.dense_h_to_4h"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.dense_4h_to_h"},
};

const ln_family ln_family_persimmon = {
    .name = "persimmon",
    .hf_types = "persimmon|fuyu",
    .defaults = "qk_layernorm=true",
    .norm = LN_NORM_LAYER,
    .qk_norm = LN_QK_NORM_HEAD,
    .qk_norm_key = "qk_layernorm",
    .activation = LN_ACT_RELU_SQUARED,
    .plain_ffn = true,
    .rope_fraction = 0.5,
    LN_BINDINGS(bindings),
};
