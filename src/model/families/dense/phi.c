/* Phi 1, 1.5 and 2: one LayerNorm feeds attention and feed-forward in parallel, biases
 * everywhere, part of each head rotates. */
#include "model/family.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_layernorm", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "model.layers.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.dense", .gguf = "blk.%d.attn_output"},
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_Q, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_K, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_V, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.mlp.fc1", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.fc2", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_phi = {
    .name = "phi",
    .gguf = "phi2",
    .refused = "qk_layernorm",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .activation = LN_ACT_GELU_TANH,
    .plain_ffn = true,
    .rope_fraction = 0.5,
    LN_BINDINGS(bindings),
};
