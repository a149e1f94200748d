/* GPT-NeoX Japanese: GPT-NeoX one block after the other and without biases, but for one behind the
 * last layer's attention. */
#include "model/family.h"

#define LAYER "gpt_neox_japanese.layers.%d."
#define QKV(r)                                                                                     \
    { .role = r, .hf = LAYER "attention.query_key_value", .hf_part = LN_PART_QKV_BY_GROUP }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "gpt_neox_japanese.embed_in"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "gpt_neox_japanese.final_layer_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "embed_out"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER "input_layernorm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = LAYER "attention.dense"},
    {.role = LN_ROLE_O, .hf = LAYER "attention.dense", .hf_bare = true}, /* dense_bias */
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER "post_attention_layernorm"},
    {.role = LN_ROLE_UP, .hf = LAYER "mlp.dense_h_to_4h"},
    {.role = LN_ROLE_DOWN, .hf = LAYER "mlp.dense_4h_to_h"},
};

const ln_family ln_family_gpt_neox_japanese = {
    .name = "gpt_neox_japanese",
    .hf_prefix = "gpt_neox_japanese.",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU,
    .plain_ffn = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
