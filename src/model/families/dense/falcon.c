/* Falcon 7B (one KV head, one norm) and 40B, 180B (groups, two norms): parallel residual. Falcon
 * RW: as many KV heads as heads, one block after the other, ALiBi. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.word_embeddings", "transformer.ln_f", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "transformer.h.%d.ln_attn",
     .gguf = "blk.%d.attn_norm_2"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.h.%d.input_layernorm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "transformer.h.%d.ln_mlp",
     .gguf = "blk.%d.attn_norm",
     .optional = true},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "transformer.h.%d.post_attention_layernorm",
     .gguf = "",
     .sequential = true},
    LN_QKV("transformer.h.%d.self_attention.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP,
           LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.self_attention.dense"},
    LN_PLAIN_FFN("transformer.h.%d.mlp.", "dense_h_to_4h", "dense_4h_to_h"),
};

const ln_family ln_family_falcon = {
    .name = "falcon",
    .hf_types = "falcon|RefinedWeb|RefinedWebModel",
    .gguf = "falcon",
    .hf_prefix = "transformer.",
    .defaults = "multi_query=true",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .hf_parallel_key = "parallel_attn",
    .alibi_key = "alibi",
    .scales_alibi = true,
    LN_NO_GATE(LN_ACT_GELU),
    LN_BINDINGS(bindings),
};
