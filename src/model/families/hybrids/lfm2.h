/* Tensors that LFM2 and its mixtures share. */
#ifndef LN_MODEL_FAMILIES_HYBRIDS_LFM2_H
#define LN_MODEL_FAMILIES_HYBRIDS_LFM2_H

#include "model/families/bindings.h"

#define LN_LFM2_THIRD(r)                                                                           \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.conv.in_proj", .gguf = "blk.%d.shortconv.in_proj",       \
        .hf_part = LN_PART_MIXER_THIRDS, .gguf_part = LN_PART_MIXER_THIRDS                         \
    }

/* All of a layer; GGUF calls the norm behind the last layer as others call the embedding's. */
#define LN_LFM2_BINDINGS                                                                           \
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},                                       \
        {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.embedding_norm", .gguf = "token_embd_norm"},    \
        {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},                                                 \
        LN_BLOCK_NORMS("model.layers.%d.", "operator_norm", "ffn_norm"),                           \
        LN_ATTENTION("model.layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj"),      \
        LN_QK_NORMS("model.layers.%d.self_attn.", "q_layernorm", "k_layernorm"),                   \
        LN_LFM2_THIRD(LN_ROLE_MIXER_IN_GATE), LN_LFM2_THIRD(LN_ROLE_MIXER_GATE),                   \
        LN_LFM2_THIRD(LN_ROLE_MIXER_IN),                                                           \
        {.role = LN_ROLE_MIXER_CONV,                                                               \
         .hf = "model.layers.%d.conv.conv",                                                        \
         .gguf = "blk.%d.shortconv.conv"},                                                         \
        {.role = LN_ROLE_MIXER_OUT,                                                                \
         .hf = "model.layers.%d.conv.out_proj",                                                    \
         .gguf = "blk.%d.shortconv.out_proj"},                                                     \
        LN_GATED_FFN("model.layers.%d.feed_forward.", "w1", "w3", "w2")

#define LN_LFM2_DEFAULTS                                                                           \
    "conv_L_cache=3|num_key_value_heads=8|norm_eps=1e-5|rope_theta=1000000|"                       \
    "max_position_embeddings=128000"

#define LN_LFM2_TRAITS                                                                             \
    .qk_norm = LN_QK_NORM_HEAD, .mixer = LN_MIXER_CONV, .mixer_word = "conv",                      \
    .tied_by_default = true

#endif
