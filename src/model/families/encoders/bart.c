/* BART: encoder and decoder, learned positions that begin at row 2, norms behind the residual. */
#include "model/families/bindings.h"

#define STACK(stack, enc)                                                                          \
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "model." stack ".embed_positions", .encoder = enc},  \
        {.role = LN_ROLE_EMBEDDING_NORM,                                                           \
         .hf = "model." stack ".layernorm_embedding",                                              \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_Q, .hf = "model." stack ".layers.%d.self_attn.q_proj", .encoder = enc},   \
        {.role = LN_ROLE_K, .hf = "model." stack ".layers.%d.self_attn.k_proj", .encoder = enc},   \
        {.role = LN_ROLE_V, .hf = "model." stack ".layers.%d.self_attn.v_proj", .encoder = enc},   \
        {.role = LN_ROLE_O, .hf = "model." stack ".layers.%d.self_attn.out_proj", .encoder = enc}, \
        {.role = LN_ROLE_ATTENTION_NORM,                                                           \
         .hf = "model." stack ".layers.%d.self_attn_layer_norm",                                   \
         .encoder = enc},                                                                          \
        {.role = LN_ROLE_UP, .hf = "model." stack ".layers.%d.fc1", .encoder = enc},               \
        {.role = LN_ROLE_DOWN, .hf = "model." stack ".layers.%d.fc2", .encoder = enc}, {           \
        .role = LN_ROLE_FFN_NORM, .hf = "model." stack ".layers.%d.final_layer_norm",              \
        .encoder = enc                                                                             \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.shared"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_OUTPUT_BIAS, .hf = "final_logits_bias", .hf_bare = true, .optional = true},
    STACK("encoder", true),
    STACK("decoder", false),
    {.role = LN_ROLE_CROSS_NORM, .hf = "model.decoder.layers.%d.encoder_attn_layer_norm"},
    {.role = LN_ROLE_CROSS_Q, .hf = "model.decoder.layers.%d.encoder_attn.q_proj"},
    {.role = LN_ROLE_CROSS_K, .hf = "model.decoder.layers.%d.encoder_attn.k_proj"},
    {.role = LN_ROLE_CROSS_V, .hf = "model.decoder.layers.%d.encoder_attn.v_proj"},
    {.role = LN_ROLE_CROSS_O, .hf = "model.decoder.layers.%d.encoder_attn.out_proj"},
};

const ln_family ln_family_bart = {
    .name = "bart",
    .ignored = "model.encoder.embed_tokens.weight|model.decoder.embed_tokens.weight",
    .defaults = "decoder_start_token_id=2",
    .refused = "!tie_word_embeddings", /* then either stack has an embedding of its own */
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_AFTER,
    LN_NO_GATE(LN_ACT_GELU),
    .positions = LN_POSITIONS_LEARNED,
    .learned_offset = 2,
    .has_encoder = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
