/* T5, and with a gate T5 1.1, Flan-T5 and mT5: encoder and decoder, relative positions, scores
 * without scale. And the encoder by itself (sentence-t5, gtr-t5), whose tokens all see each other.
 */
#include "model/families/bindings.h"

#define ROW(r, name, gguf_name, enc)                                                               \
    { .role = r, .hf = name, .gguf = gguf_name, .encoder = enc }
#define ATTENTION(r, stack, name, file, gguf_name, enc)                                            \
    ROW(r, stack ".block.%d.layer.0." name, file ".blk.%d." gguf_name, enc)
#define FFN(r, stack, layer, name, file, gguf_name, enc)                                           \
    ROW(r, stack ".block.%d.layer." layer "." name, file ".blk.%d." gguf_name, enc)
#define STACK(stack, layer, file, enc)                                                             \
    ATTENTION(LN_ROLE_ATTENTION_NORM, stack, "layer_norm", file, "attn_norm", enc),                \
        ATTENTION(LN_ROLE_Q, stack, "SelfAttention.q", file, "attn_q", enc),                       \
        ATTENTION(LN_ROLE_K, stack, "SelfAttention.k", file, "attn_k", enc),                       \
        ATTENTION(LN_ROLE_V, stack, "SelfAttention.v", file, "attn_v", enc),                       \
        ATTENTION(LN_ROLE_O, stack, "SelfAttention.o", file, "attn_o", enc),                       \
        ROW(LN_ROLE_RELATIVE_BIAS, stack ".block.0.layer.0.SelfAttention.relative_attention_bias", \
            file ".blk.0.attn_rel_b", enc),                                                        \
        ROW(LN_ROLE_OUTPUT_NORM, stack ".final_layer_norm", file ".output_norm", enc),             \
        FFN(LN_ROLE_FFN_NORM, stack, layer, "layer_norm", file, "ffn_norm", enc),                  \
        FFN(LN_ROLE_GATE, stack, layer, "DenseReluDense.wi_0", file, "ffn_gate", enc),             \
        FFN(LN_ROLE_UP, stack, layer, "DenseReluDense.wi_1", file, "ffn_up", enc),                 \
        FFN(LN_ROLE_UP, stack, layer, "DenseReluDense.wi", file, "ffn_up", enc),                   \
        FFN(LN_ROLE_DOWN, stack, layer, "DenseReluDense.wo", file, "ffn_down", enc)

#define CROSS(r, name, gguf_name)                                                                  \
    ROW(r, "decoder.block.%d.layer.1." name, "dec.blk.%d." gguf_name, false)

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "shared"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    STACK("encoder", "1", "enc", true),
    STACK("decoder", "2", "dec", false),
    CROSS(LN_ROLE_CROSS_NORM, "layer_norm", "cross_attn_norm"),
    CROSS(LN_ROLE_CROSS_Q, "EncDecAttention.q", "cross_attn_q"),
    CROSS(LN_ROLE_CROSS_K, "EncDecAttention.k", "cross_attn_k"),
    CROSS(LN_ROLE_CROSS_V, "EncDecAttention.v", "cross_attn_v"),
    CROSS(LN_ROLE_CROSS_O, "EncDecAttention.o", "cross_attn_o"),
};

static const ln_binding encoder_bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "shared"},
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
