/* Nemotron-H and Nemotron 3: a layer is a Mamba 2 mixer, attention without positions, a
 * feed-forward or a mixture of experts, neither of which has a gate. */
#include "model/families/mamba2.h"

#define LAYER "backbone.layers.%d"
#define MIXER LAYER ".mixer"

static const ln_binding bindings[] = {
    LN_ENDS("backbone.embeddings", "backbone.norm_f", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".norm"},
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER ".norm", .gguf = "blk.%d.attn_norm"},
    LN_MAMBA2_MIXER(MIXER),
    /* in Nemotron 3.5 Transcribe */
    LN_ENDS("llm.model.embed_tokens", "llm.model.norm", "llm.lm_head"),
    {.role = LN_ROLE_MIXER_RATE, .hf = MIXER "._fp32_params.A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MIXER "._fp32_params.dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_SKIP, .hf = MIXER "._fp32_params.D", .hf_bare = true},
    LN_ATTENTION(MIXER ".", "q_proj", "k_proj", "v_proj", "o_proj"),
    LN_PLAIN_FFN(MIXER ".", "up_proj", "down_proj"),
    {.role = LN_ROLE_ROUTER, .hf = MIXER ".gate"},
    {.role = LN_ROLE_ROUTER_BIAS, .hf = MIXER ".gate.e_score_correction_bias", .hf_bare = true},
    {.role = LN_ROLE_ROUTER_BIAS},
    {.role = LN_ROLE_EXPERT_UP, .hf = MIXER ".experts.%e.up_proj"},
    {.role = LN_ROLE_EXPERT_DOWN, .hf = MIXER ".experts.%e.down_proj"},
    LN_STACKED_PLAIN_EXPERTS(MIXER ".experts."),
    {.role = LN_ROLE_EXPERT_LATENT_IN, .hf = MIXER ".fc1_latent_proj"},
    {.role = LN_ROLE_EXPERT_LATENT_OUT, .hf = MIXER ".fc2_latent_proj"},
    {.role = LN_ROLE_SHARED_UP, .hf = MIXER ".shared_experts.up_proj"},
    {.role = LN_ROLE_SHARED_DOWN, .hf = MIXER ".shared_experts.down_proj"},
};

const ln_family ln_family_nemotron_h = {
    .name = "nemotron_h",
    .gguf = "nemotron_h|nemotron_h_moe",
    .gguf_mixture = "nemotron_h_moe",
    .defaults = "num_key_value_heads=8|head_dim=128|layer_norm_epsilon=1e-5|"
                "max_position_embeddings=4096|mamba_num_heads=128|mamba_head_dim=64|n_groups=8|"
                "ssm_state_size=128|conv_kernel=4|time_step_min=0.001|num_experts_per_tok=2|"
                "n_shared_experts=1|norm_topk_prob=true",
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    .positions = LN_POSITIONS_NONE,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .mixer = LN_MIXER_SSD,
    .least_time_step = true,
    .one_block = true,
    .mixer_norm_groups = true,
    .mixer_word = "linear_attention|mamba",
    LN_BINDINGS(bindings),
};
