/* T5, and with a gate T5 1.1, Flan-T5 and mT5: encoder and decoder, relative positions, scores
 * without scale. And the encoder by itself (sentence-t5, gtr-t5), whose tokens all see each other.
 */
#include "model/family.h"

#define STACK(stack, ffn_layer, gguf_stack, enc)                                                   \
    {.role = LN_ROLE_ATTENTION_NORM,                                                               \
     .hf = stack ".block.%d.layer.0.layer_norm",                                                   \
     .gguf = gguf_stack ".blk.%d.attn_norm",                                                       \
     .encoder = enc},                                                                              \
        {.role = LN_ROLE_Q,                                                                        \
         .hf = stack ".block.%d.layer.0.SelfAttention.q",                                          \
         .gguf = gguf_stack ".blk.%d.attn_q",                                                      \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_K,                                                                        \
         .hf = stack ".block.%d.layer.0.SelfAttention.k",                                          \
         .gguf = gguf_stack ".blk.%d.attn_k",                                                      \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_V,                                                                        \
         .hf = stack ".block.%d.layer.0.SelfAttention.v",                                          \
         .gguf = gguf_stack ".blk.%d.attn_v",                                                      \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_O,                                                                        \
         .hf = stack ".block.%d.layer.0.SelfAttention.o",                                          \
         .gguf = gguf_stack ".blk.%d.attn_o",                                                      \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_RELATIVE_BIAS,                                                            \
         .hf = stack ".block.0.layer.0.SelfAttention.relative_attention_bias",                     \
         .gguf = gguf_stack ".blk.0.attn_rel_b",                                                   \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_OUTPUT_NORM,                                                              \
         .hf = stack ".final_layer_norm",                                                          \
         .gguf = gguf_stack ".output_norm",                                                        \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_FFN_NORM,                                                                 \
         .hf = stack ".block.%d.layer." ffn_layer ".layer_norm",                                   \
         .gguf = gguf_stack ".blk.%d.ffn_norm",                                                    \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_GATE,                                                                     \
         .hf = stack ".block.%d.layer." ffn_layer ".DenseReluDense.wi_0",                          \
         .gguf = gguf_stack ".blk.%d.ffn_gate",                                                    \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_UP,                                                                       \
         .hf = stack ".block.%d.layer." ffn_layer ".DenseReluDense.wi_1",                          \
         .gguf = gguf_stack ".blk.%d.ffn_up",                                                      \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_UP,                                                                       \
         .hf = stack ".block.%d.layer." ffn_layer ".DenseReluDense.wi",                            \
         .encoder = enc},                                                                          \
    {                                                                                              \
        .role = LN_ROLE_DOWN, .hf = stack ".block.%d.layer." ffn_layer ".DenseReluDense.wo",       \
        .gguf = gguf_stack ".blk.%d.ffn_down", .encoder = enc                                      \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "shared", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    STACK("encoder", "1", "enc", true),
    STACK("decoder", "2", "dec", false),
    {.role = LN_ROLE_CROSS_NORM,
     .hf = "decoder.block.%d.layer.1.layer_norm",
     .gguf = "dec.blk.%d.cross_attn_norm"},
    {.role = LN_ROLE_CROSS_Q,
     .hf = "decoder.block.%d.layer.1.EncDecAttention.q",
     .gguf = "dec.blk.%d.cross_attn_q"},
    {.role = LN_ROLE_CROSS_K,
     .hf = "decoder.block.%d.layer.1.EncDecAttention.k",
     .gguf = "dec.blk.%d.cross_attn_k"},
    {.role = LN_ROLE_CROSS_V,
     .hf = "decoder.block.%d.layer.1.EncDecAttention.v",
     .gguf = "dec.blk.%d.cross_attn_v"},
    {.role = LN_ROLE_CROSS_O,
     .hf = "decoder.block.%d.layer.1.EncDecAttention.o",
     .gguf = "dec.blk.%d.cross_attn_o"},
};

static const ln_binding encoder_bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "shared", .gguf = "token_embd"},
    {.role = LN_ROLE_EMBEDDING, .hf = "encoder.embed_tokens"},
    STACK("encoder", "1", "enc", false),
};

#define LAYERS                                                                                     \
    .refused = "", .activation = LN_ACT_RELU, .plain_ffn = true,                                   \
    .positions = LN_POSITIONS_RELATIVE, .unit_scale = true, .tied_by_default = true

const ln_family ln_family_t5 = {
    .name = "t5",
    .hf_types = "t5|mt5",
    .gguf = "t5",
    .ignored = "encoder.embed_tokens.weight|decoder.embed_tokens.weight|"
               "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    .defaults = "d_kv=64|mt5:scale_decoder_outputs=false|mt5:feed_forward_proj=gated-gelu",
    LAYERS,
    .has_encoder = true,
    .scale_tied_logits = true,
    LN_BINDINGS(bindings),
};

const ln_family ln_family_t5_encoder = {
    .name = "t5_encoder",
    .hf_types = "t5encoder", /* spec_read.c says so of T5's */
    .gguf = "t5encoder",
    .ignored = "encoder.embed_tokens.weight|shared.weight",
    .defaults = "d_kv=64",
    LAYERS,
    .bidirectional = true,
    .pooling = LINNET_POOLING_MEAN,
    LN_BINDINGS(encoder_bindings),
};
