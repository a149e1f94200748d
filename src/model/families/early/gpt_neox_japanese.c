/* GPT-NeoX Japanese: GPT-NeoX one block after the other and without biases, but for one behind the
 * last layer's attention. */
#include "model/families/bindings.h"

#define LAYER "gpt_neox_japanese.layers.%d."
static const ln_binding bindings[] = {
    LN_ENDS("gpt_neox_japanese.embed_in", "gpt_neox_japanese.final_layer_norm", "embed_out"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER "input_layernorm"},
    LN_QKV(LAYER "attention.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP),
    {.role = LN_ROLE_O, .hf = LAYER "attention.dense"},
    {.role = LN_ROLE_O, .hf = LAYER "attention.dense", .hf_bare = true},
    /* dense_bias */
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER "post_attention_layernorm"},
    LN_PLAIN_FFN(LAYER "mlp.", "dense_h_to_4h", "dense_4h_to_h"),
};

const ln_family ln_family_gpt_neox_japanese = {
    .name = "gpt_neox_japanese",
    .hf_prefix = "gpt_neox_japanese.",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU),
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
