/* RecurrentGemma (Griffin): gated linear recurrences behind a short convolution, with windowed
 * attention in every third layer. Half of a head rotates, and a feed-forward has half of the width
 * that config.json says. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d"
#define BLOCK LAYER ".temporal_block"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_norm", "lm_head"),
    LN_BLOCK_NORMS(LAYER ".", "temporal_pre_norm", "channel_pre_norm"),
    LN_ATTENTION(BLOCK ".", "q_proj", "k_proj", "v_proj", "o_proj"),
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
    LN_GATED_FFN(LAYER ".mlp_block.", "gate_proj", "up_proj", "down_proj"),
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
