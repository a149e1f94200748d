/* GLM-4 9B: half of each head rotates, interleaved; gate and up in one
 * tensor. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    {.role = LN_ROLE_Q, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_K, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_V, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    LN_GATE_UP("model.layers.%d.mlp.gate_up_proj", .hf_part = LN_PART_GATE_UP, LN_GGUF_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.down_proj"},
};

const ln_family ln_family_glm = {
    .name = "glm",
    .gguf = "chatglm",
    .defaults = "head_dim=128|num_key_value_heads=2|rms_norm_eps=1.5625e-7",
    .rope_fraction = 0.5,
    LN_INTERLEAVED_ROPE,
    LN_BINDINGS(bindings),
};
