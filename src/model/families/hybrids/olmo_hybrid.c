/* OLMo Hybrid: most layers are gated delta nets with norms before the blocks, the others OLMo 2's
 * attention with norms behind them, which has no positions where their base is null. */
#include "model/families/bindings.h"

#define MIXER "model.layers.%d.linear_attn"

/* transformers saves norms behind attention by the name of those before a feed-forward. */
static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.attention_layer_norm"},
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "feedforward_layer_norm"),
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.post_attention_layernorm"},
    {.role = LN_ROLE_ATTENTION_POST_NORM, .hf = "model.layers.%d.post_attention_layernorm"},
    LN_POST_NORMS("model.layers.%d.", "feedforward_layer_norm", "post_feedforward_layernorm"),
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
    LN_MIXER_QKV(MIXER ".", "q_proj", "k_proj", "v_proj"),
    LN_MIXER_CONVS(MIXER ".", "q_conv1d", "k_conv1d", "v_conv1d"),
    LN_MIXER_FUSED_CONVS(MIXER ".conv1d"),
    {.role = LN_ROLE_MIXER_A, .hf = MIXER ".a_proj"},
    {.role = LN_ROLE_MIXER_B, .hf = MIXER ".b_proj"},
    {.role = LN_ROLE_MIXER_GATE, .hf = MIXER ".g_proj"},
    {.role = LN_ROLE_MIXER_RATE, .hf = MIXER ".A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MIXER ".dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_NORM, .hf = MIXER ".o_norm"},
    {.role = LN_ROLE_MIXER_OUT, .hf = MIXER ".o_proj"},
};

const ln_family ln_family_olmo_hybrid = {
    .name = "olmo_hybrid",
    .defaults = "linear_conv_kernel_dim=4|max_position_embeddings=65536|"
                "rope_parameters.rope_theta=10000 unless rope_theta|linear_allow_neg_eigval=true",
    .placement = LN_PLACE_POST,
    .mixers_normed_first = true,
    .mixer_from_heads = true,
    .mixers_end_before = true,
    .qk_norm = LN_QK_NORM_FULL,
    .positions = LN_POSITIONS_NONE,
    .rope_key = "rope_parameters.rope_theta|rope_theta",
    .mixer = LN_MIXER_DELTA,
    .mixer_word = "linear_attention",
    .mixer_eps = 1e-5,
    LN_BINDINGS(bindings),
};
