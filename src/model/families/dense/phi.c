/* Phi 1, 1.5 and 2: one LayerNorm feeds attention and feed-forward in parallel, biases
 * everywhere, part of each head rotates. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.dense"},
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_Q, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_K, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_V, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    LN_PLAIN_FFN("model.layers.%d.mlp.", "fc1", "fc2"),
};

const ln_family ln_family_phi = {
    .name = "phi",
    .gguf = "phi2",
    .refused = "qk_layernorm",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .rope_fraction = 0.5,
    LN_BINDINGS(bindings),
};
