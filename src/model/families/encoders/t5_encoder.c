/* T5's encoder by itself (sentence-t5, gtr-t5): relative positions, scores without scale, tokens
 * that all see each other. */
#include "model/family.h"

#define LAYER(role_of, name, gguf_name)                                                            \
    { .role = role_of, .hf = "encoder.block.%d.layer." name, .gguf = "enc.blk.%d." gguf_name }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "shared", .gguf = "token_embd"},
    {.role = LN_ROLE_EMBEDDING, .hf = "encoder.embed_tokens"},
    LAYER(LN_ROLE_ATTENTION_NORM, "0.layer_norm", "attn_norm"),
    LAYER(LN_ROLE_Q, "0.SelfAttention.q", "attn_q"),
    LAYER(LN_ROLE_K, "0.SelfAttention.k", "attn_k"),
    LAYER(LN_ROLE_V, "0.SelfAttention.v", "attn_v"),
    LAYER(LN_ROLE_O, "0.SelfAttention.o", "attn_o"),
    {.role = LN_ROLE_RELATIVE_BIAS,
     .hf = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
     .gguf = "enc.blk.0.attn_rel_b"},
    LAYER(LN_ROLE_FFN_NORM, "1.layer_norm", "ffn_norm"),
    LAYER(LN_ROLE_GATE, "1.DenseReluDense.wi_0", "ffn_gate"),
    LAYER(LN_ROLE_UP, "1.DenseReluDense.wi_1", "ffn_up"),
    {.role = LN_ROLE_UP, .hf = "encoder.block.%d.layer.1.DenseReluDense.wi"},
    LAYER(LN_ROLE_DOWN, "1.DenseReluDense.wo", "ffn_down"),
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "encoder.final_layer_norm", .gguf = "enc.output_norm"},
};

static const ln_config_default defaults[] = {LN_DEFAULT("d_kv", 64), {0}};

const ln_family ln_family_t5_encoder = {
    .name = "t5_encoder",
    .hf_types = "t5encoder", /* spec_read.c says so of T5's */
    .gguf = "t5encoder",
    .ignored = "encoder.embed_tokens.weight|shared.weight",
    .defaults = defaults,
    .refused = "",
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_RELU,
    .plain_ffn = true,
    .positions = LN_POSITIONS_RELATIVE,
    .bidirectional = true,
    .unit_scale = true,
    .tied_by_default = true,
    .pooling = LINNET_POOLING_MEAN,
    LN_BINDINGS(bindings),
};
