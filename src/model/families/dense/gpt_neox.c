/* GPT-NeoX and Pythia: two LayerNorms feed attention and feed-forward in parallel; q, k and v of
 * each head lie together. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("gpt_neox.embed_in", "gpt_neox.final_layer_norm", "embed_out"),
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = ""},
    LN_BLOCK_NORMS("gpt_neox.layers.%d.", "input_layernorm", "post_attention_layernorm"),
    LN_QKV("gpt_neox.layers.%d.attention.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP,
           LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "gpt_neox.layers.%d.attention.dense"},
    LN_PLAIN_FFN("gpt_neox.layers.%d.mlp.", "dense_h_to_4h", "dense_4h_to_h"),
};

const ln_family ln_family_gpt_neox = {
    .name = "gpt_neox",
    .gguf = "gptneox",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_PARALLEL,
    .parallel_key = "use_parallel_residual",
    LN_NO_GATE(LN_ACT_GELU),
    .rope_fraction = 0.25,
    LN_BINDINGS(bindings),
};
