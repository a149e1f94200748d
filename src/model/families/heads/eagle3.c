/* EAGLE-3 (Li et al., 2025): a head in a folder of its own, which drafts for another model. It has
 * one layer of llama's shape, which reads an embedding and a hidden state side by side. */
#include "model/family.h"

#define LAYER(at)                                                                                  \
    {.role = LN_ROLE_HEAD_TOKEN_NORM, .hf = at ".input_layernorm"},                                \
        {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = at ".hidden_norm"},                               \
        {.role = LN_ROLE_FFN_NORM, .hf = at ".post_attention_layernorm"},                          \
        {.role = LN_ROLE_Q, .hf = at ".self_attn.q_proj"},                                         \
        {.role = LN_ROLE_K, .hf = at ".self_attn.k_proj"},                                         \
        {.role = LN_ROLE_V, .hf = at ".self_attn.v_proj"},                                         \
        {.role = LN_ROLE_O, .hf = at ".self_attn.o_proj"},                                         \
        {.role = LN_ROLE_GATE, .hf = at ".mlp.gate_proj"},                                         \
        {.role = LN_ROLE_UP, .hf = at ".mlp.up_proj"}, {                                           \
        .role = LN_ROLE_DOWN, .hf = at ".mlp.down_proj"                                            \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_HEAD_INPUT, .hf = "model.fc"},
    LAYER("model.midlayer"),
    LAYER("model.layers.0"),
};

const ln_family ln_family_eagle3 = {
    .name = "eagle3",
    .hf_prefix = "model.",
    .ignored = "d2t|t2d",
    .drafts = true,
    LN_BINDINGS(bindings),
};
