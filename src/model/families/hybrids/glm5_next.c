/* GLM 5 Next: three layers of four are KDA, with bounded decays; the others latent attention
 * without positions, whose indexer chooses runs of tokens. Several residual streams mix, and the
 * last norm reads their mean. Mixtures of experts, with limits, as in GLM 5. */
#include "model/families/latent.h"

#define LAYER     "model.layers.%d."
#define ATTENTION LAYER "self_attn."
#define INDEXER   ATTENTION "indexer."
#define HYPER(role_of, name)                                                                       \
    {.role = role_of, .hf = LAYER name "fn", .hf_bare = true},                                     \
        {.role = role_of##_BASE, .hf = LAYER name "base", .hf_bare = true}, {                      \
        .role = role_of##_SCALE, .hf = LAYER name "scale", .hf_bare = true                         \
    }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LATENT_ATTENTION,
    {.role = LN_ROLE_INDEX_Q, .hf = INDEXER "wq_b"},
    {.role = LN_ROLE_INDEX_K, .hf = INDEXER "wk"},
    {.role = LN_ROLE_INDEX_K_NORM, .hf = INDEXER "k_norm"},
    {.role = LN_ROLE_INDEX_WEIGHTS, .hf = INDEXER "weights_proj"},
    {.role = LN_ROLE_INDEX_GATE, .hf = INDEXER "index_kpool_compress_gate", .hf_bare = true},
    {.role = LN_ROLE_INDEX_BIAS, .hf = INDEXER "index_kpool_compress_ape", .hf_bare = true},
    {.role = LN_ROLE_MIXER_Q, .hf = ATTENTION "q_proj", .gguf = "blk.%d.attn_q"},
    {.role = LN_ROLE_MIXER_K, .hf = ATTENTION "k_proj", .gguf = "blk.%d.attn_k"},
    {.role = LN_ROLE_MIXER_V, .hf = ATTENTION "v_proj", .gguf = "blk.%d.attn_v"},
    {.role = LN_ROLE_MIXER_CONV_Q, .hf = ATTENTION "q_conv1d"},
    {.role = LN_ROLE_MIXER_CONV_K, .hf = ATTENTION "k_conv1d"},
    {.role = LN_ROLE_MIXER_CONV_V, .hf = ATTENTION "v_conv1d"},
    {.role = LN_ROLE_MIXER_A_LOW, .hf = ATTENTION "f_a_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_A, .hf = ATTENTION "f_b_proj", .gguf = "blk.%d.ssm_f_b"},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = ATTENTION "dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = ATTENTION "A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_B, .hf = ATTENTION "b_proj"},
    {.role = LN_ROLE_MIXER_GATE_LOW, .hf = ATTENTION "g_a_proj"},
    {.role = LN_ROLE_MIXER_GATE, .hf = ATTENTION "g_b_proj", .gguf = "blk.%d.ssm_g_b"},
    {.role = LN_ROLE_MIXER_NORM, .hf = ATTENTION "o_norm"},
    {.role = LN_ROLE_MIXER_OUT, .hf = ATTENTION "o_proj", .gguf = "blk.%d.attn_output"},
    HYPER(LN_ROLE_ATTENTION_HYPER, "hc_attn_"),
    HYPER(LN_ROLE_FFN_HYPER, "hc_ffn_"),
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    /* as transformers has them in memory, and adapters name them */
    HYPER(LN_ROLE_ATTENTION_HYPER, "attn_hc."),
    HYPER(LN_ROLE_FFN_HYPER, "ffn_hc."),
    LN_MIXER_FUSED_CONVS(ATTENTION "conv1d"),
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = ATTENTION "forget_gate.dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = ATTENTION "forget_gate.A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_A_LOW, .hf = ATTENTION "forget_gate.f_a_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_A, .hf = ATTENTION "forget_gate.f_b_proj", .gguf = "blk.%d.ssm_f_b"},
};

const ln_family ln_family_glm5_next = {
    .name = "glm5_next",
    .gguf = "glm5-next",
    .hf_types = "glm5_next|glm5_next_text",
    .defaults = "rms_norm_eps=1e-5|kv_lora_rank=512|q_lora_rank=1536|qk_nope_head_dim=256|"
                "qk_rope_head_dim=0|v_head_dim=256|linear_num_heads=64|linear_head_dim=128|"
                "linear_conv_kernel_dim=4|linear_lower_bound=-5|kda_safe_gate=true|"
                "full_attention_interval=4|index_topk=2048|index_head_dim=128|index_n_heads=32|"
                "index_kpool=16|hc_mult=4|n_shared_experts=1|n_routed_experts=288|"
                "num_experts_per_tok=8|moe_intermediate_size=2048|routed_scaling_factor=2.5|"
                "first_k_dense_replace=3 unless mlp_layer_types",
    .refused = "!index_kpool_always_select_tail",
    .positions = LN_POSITIONS_NONE,
    LN_SIGMOID_ROUTER,
    .indexer = true,
    .index_runs = true,
    .hyper = true,
    .mixes_streams = true,
    .averages_streams = true,
    .limits_before = true,
    .limits_shared = true,
    .limit_lists = true,
    .gguf_dense_first = true,
    .mixer = LN_MIXER_KDA,
    .mixer_word = "linear_attention",
    LN_BINDINGS(bindings),
};
