/* InternLM 2 and 2.5: llama with q, k and v in one tensor, by group of heads. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("model.tok_embeddings", "model.norm", "output"),
    LN_BLOCK_NORMS("model.layers.%d.", "attention_norm", "ffn_norm"),
    {.role = LN_ROLE_Q, .hf = "model.layers.%d.attention.wqkv", .hf_part = LN_PART_QKV_BY_GROUP},
    {.role = LN_ROLE_K, .hf = "model.layers.%d.attention.wqkv", .hf_part = LN_PART_QKV_BY_GROUP},
    {.role = LN_ROLE_V, .hf = "model.layers.%d.attention.wqkv", .hf_part = LN_PART_QKV_BY_GROUP},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.attention.wo"},
    LN_GATED_FFN("model.layers.%d.feed_forward.", "w1", "w3", "w2"),
};

const ln_family ln_family_internlm2 = {
    .name = "internlm2",
    .gguf = "internlm2",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};
