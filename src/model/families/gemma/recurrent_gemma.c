/* RecurrentGemma (Griffin): gated linear recurrences behind a short convolution, with windowed
 * attention in every third layer. Half of a head rotates, and a feed-forward has half of the width
 * that config.json says. */
#include "model/family.h"

#define LAYER "model.layers.%d"
#define BLOCK LAYER ".temporal_block"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".temporal_pre_norm"},
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER ".channel_pre_norm"},
    {.role = LN_ROLE_Q, .hf = BLOCK ".q_proj"},
    {.role = LN_ROLE_K, .hf = BLOCK ".k_proj"},
    {.role = LN_ROLE_V, .hf = BLOCK ".v_proj"},
    {.role = LN_ROLE_O, .hf = BLOCK ".o_proj"},
    {.role = LN_ROLE_MIXER_IN, .hf = BLOCK ".linear_x"},
    {.role = LN_ROLE_MIXER_GATE, .hf = BLOCK ".linear_y"},
    {.role = LN_ROLE_MIXER_CONV, .hf = BLOCK ".conv_1d"},
    {.role = LN_ROLE_MIXER_A,
     .hf = BLOCK ".rg_lru.recurrent_gate_weight",
     .hf_bare = true,
     .hf_transposed = true},
    {.role = LN_ROLE_MIXER_IN_GATE,
     .hf = BLOCK ".rg_lru.input_gate_weight",
     .hf_bare = true,
     .hf_transposed = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = BLOCK ".rg_lru.recurrent_param", .hf_bare = true},
    {.role = LN_ROLE_MIXER_OUT, .hf = BLOCK ".linear_out"},
    {.role = LN_ROLE_GATE, .hf = LAYER ".mlp_block.gate_proj"},
    {.role = LN_ROLE_UP, .hf = LAYER ".mlp_block.up_proj"},
    {.role = LN_ROLE_DOWN, .hf = LAYER ".mlp_block.down_proj"},
};

const ln_family ln_family_recurrent_gemma = {
    .name = "recurrent_gemma",
    .defaults = "attn_layer_period=3|attn_layer_offset=2|logits_soft_cap=30|"
                "attention_window_size=2048|max_position_embeddings=8192",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .activation = LN_ACT_GELU_TANH,
    .activation_key = "hidden_activation",
    .rope_fraction = 0.5,
    .window = LN_WINDOW_ALL,
    .chunk_key = "attention_window_size",
    .scale_embedding = true,
    .bf16_embedding_scale = true,
    .halves_hidden = true,
    .tied_by_default = true,
    .mixer = LN_MIXER_LRU,
    .mixer_word = "recurrent",
    LN_BINDINGS(bindings),
};
