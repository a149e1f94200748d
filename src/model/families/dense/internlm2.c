/* InternLM 2 and 2.5: llama with q, k and v in one tensor, by group of heads. */
#include "model/family.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.tok_embeddings", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "output", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "model.layers.%d.attention_norm",
     .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.ffn_norm", .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_Q,
     .hf = "model.layers.%d.attention.wqkv",
     .gguf = "blk.%d.attn_q",
     .hf_part = LN_PART_QKV_BY_GROUP},
    {.role = LN_ROLE_K,
     .hf = "model.layers.%d.attention.wqkv",
     .gguf = "blk.%d.attn_k",
     .hf_part = LN_PART_QKV_BY_GROUP},
    {.role = LN_ROLE_V,
     .hf = "model.layers.%d.attention.wqkv",
     .gguf = "blk.%d.attn_v",
     .hf_part = LN_PART_QKV_BY_GROUP},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.attention.wo", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_GATE, .hf = "model.layers.%d.feed_forward.w1", .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_UP, .hf = "model.layers.%d.feed_forward.w3", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.feed_forward.w2", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_internlm2 = {
    .name = "internlm2",
    .gguf = "internlm2",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};
