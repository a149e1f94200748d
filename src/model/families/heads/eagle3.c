/* EAGLE-3 (Li et al., 2025): a head in a folder of its own, which drafts for another model. It has
 * one layer of llama's shape, which reads an embedding and a hidden state side by side; in GGUF
 * with q and k as llama's. The norm of hidden states of EAGLE-3.1 is optional. */
#include "model/families/bindings.h"

#define LAYER(at)                                                                                  \
    {.role = LN_ROLE_HEAD_TOKEN_NORM, .hf = at ".input_layernorm", .gguf = "blk.%d.attn_norm"},    \
        {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = at ".hidden_norm", .gguf = "blk.%d.attn_norm_2"}, \
        {.role = LN_ROLE_FFN_NORM, .hf = at ".post_attention_layernorm"},                          \
        LN_ATTENTION(at ".self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),                    \
        LN_GATED_FFN(at ".mlp.", "gate_proj", "up_proj", "down_proj")

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.norm", "lm_head"),
    {.role = LN_ROLE_HEAD_INPUT, .hf = "model.fc", .gguf = "fc"},
    {.role = LN_ROLE_HEAD_NORM, .hf = "model.input_norm", .gguf = "enc.output_norm"},
    LAYER("model.midlayer"),
    LAYER("model.layers.0"),
};

const ln_family ln_family_eagle3 = {
    .name = "eagle3",
    .gguf = "eagle3",
    .hf_prefix = "model.",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .ignored = "d2t|t2d",
    .drafts = true,
    LN_BINDINGS(bindings),
};
