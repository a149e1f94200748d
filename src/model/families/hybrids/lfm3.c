/* LFM3: LFM2 with norms behind the blocks, layers that see a window, and a gate by head of what
 * attention gives. */
#include "model/families/bindings.h"

#define THIRD(r)                                                                                   \
    { .role = r, .hf = "model.layers.%d.conv.in_proj", .hf_part = LN_PART_MIXER_THIRDS }

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.embedding_norm", "lm_head"),
    LN_BLOCK_NORMS("model.layers.%d.", "operator_norm", "ffn_norm"),
    {.role = LN_ROLE_ATTENTION_POST_NORM,
     .hf = "model.layers.%d.post_operator_norm",
     .optional = true},
    {.role = LN_ROLE_FFN_POST_NORM, .hf = "model.layers.%d.post_ffn_norm", .optional = true},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ATTENTION_GATE, .hf = "model.layers.%d.self_attn.gate_proj"},
    {.role = LN_ROLE_ATTENTION_GATE, .hf = "model.layers.%d.self_attn.g_proj"},
    THIRD(LN_ROLE_MIXER_IN_GATE),
    THIRD(LN_ROLE_MIXER_GATE),
    THIRD(LN_ROLE_MIXER_IN),
    {.role = LN_ROLE_MIXER_CONV, .hf = "model.layers.%d.conv.conv"},
    {.role = LN_ROLE_MIXER_OUT, .hf = "model.layers.%d.conv.out_proj"},
    LN_GATED_FFN("model.layers.%d.feed_forward.", "w1", "w3", "w2"),
};

const ln_family ln_family_lfm3 = {
    .name = "lfm3",
    .defaults = "conv_L_cache=7|num_key_value_heads=4|head_dim=128|sliding_window=256|"
                "norm_eps=1e-5|rope_theta=1000000|max_position_embeddings=128000|"
                "rope_parameters.full_attention.rope_type=proportional unless rope_parameters|"
                "rope_parameters.full_attention.partial_rotary_factor=0.5 unless rope_parameters|"
                "rope_parameters.full_attention.rope_theta=1e6 unless rope_parameters",
    .placement = LN_PLACE_SANDWICH,
    .qk_norm = LN_QK_NORM_HEAD,
    .local_rope = true,
    .local_theta = 10000.0,
    .output_gate = LN_GATE_BY_HEAD,
    .output_gate_key = "use_attention_gate",
    .mixer = LN_MIXER_CONV,
    .mixer_word = "conv",
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
