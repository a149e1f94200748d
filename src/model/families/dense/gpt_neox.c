/* GPT-NeoX and Pythia: two LayerNorms feed attention and feed-forward in parallel; q, k and v of
 * each head lie together. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "gpt_neox.layers.%d.attention.query_key_value",                           \
        .gguf = "blk.%d.attn_qkv", .hf_part = LN_PART_QKV_BY_GROUP, .gguf_part = LN_PART_QKV       \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "gpt_neox.embed_in", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "gpt_neox.final_layer_norm", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "embed_out", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "gpt_neox.layers.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "gpt_neox.layers.%d.attention.dense", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "gpt_neox.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_UP, .hf = "gpt_neox.layers.%d.mlp.dense_h_to_4h", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "gpt_neox.layers.%d.mlp.dense_4h_to_h", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_gpt_neox = {
    .name = "gpt_neox",
    .gguf = "gptneox",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .parallel_key = "use_parallel_residual",
    .activation = LN_ACT_GELU,
    .plain_ffn = true,
    .rope_fraction = 0.25,
    LN_BINDINGS(bindings),
};
