/* Ling 3: most layers are KDA, whose decays are bounded; the others latent attention, whose heads
 * have gates. Mixtures of experts as in DeepSeek V3. */
#include "model/families/bindings.h"

#define ATTENTION "model.layers.%d.attention"
#define MODULE    "model.layers.%d.self_attn"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.word_embeddings"},
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    {.role = LN_ROLE_Q, .hf = ATTENTION ".q_proj"},
    {.role = LN_ROLE_Q_A, .hf = ATTENTION ".q_a_proj"},
    {.role = LN_ROLE_Q_A_NORM, .hf = ATTENTION ".q_a_layernorm"},
    {.role = LN_ROLE_Q_B, .hf = ATTENTION ".q_b_proj"},
    {.role = LN_ROLE_KV_A, .hf = ATTENTION ".kv_a_proj_with_mqa"},
    {.role = LN_ROLE_KV_A_NORM, .hf = ATTENTION ".kv_a_layernorm"},
    {.role = LN_ROLE_K_B, .hf = ATTENTION ".kv_b_proj", .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_V_B, .hf = ATTENTION ".kv_b_proj", .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_ATTENTION_GATE, .hf = ATTENTION ".g_proj", .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_O, .hf = ATTENTION ".dense"},
    {.role = LN_ROLE_MIXER_Q, .hf = ATTENTION ".q_proj", .gguf = "blk.%d.attn_q"},
    {.role = LN_ROLE_MIXER_K, .hf = ATTENTION ".k_proj", .gguf = "blk.%d.attn_k"},
    {.role = LN_ROLE_MIXER_V, .hf = ATTENTION ".v_proj", .gguf = "blk.%d.attn_v"},
    LN_MIXER_CONVS(ATTENTION ".", "q_conv1d", "k_conv1d", "v_conv1d"),
    {.role = LN_ROLE_MIXER_A, .hf = ATTENTION ".f_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = ATTENTION ".dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = ATTENTION ".A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_B, .hf = ATTENTION ".b_proj"},
    {.role = LN_ROLE_MIXER_GATE, .hf = ATTENTION ".g_proj", .gguf = "blk.%d.ssm_g_a"},
    {.role = LN_ROLE_MIXER_NORM, .hf = ATTENTION ".o_norm"},
    {.role = LN_ROLE_MIXER_OUT, .hf = ATTENTION ".dense", .gguf = "blk.%d.attn_output"},
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.expert_bias"),
    /* as transformers has them in memory, and adapters name them */
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_Q_A_NORM, .hf = MODULE ".q_a_layernorm"},
    {.role = LN_ROLE_KV_A_NORM, .hf = MODULE ".kv_a_layernorm"},
    LN_MIXER_FUSED_CONVS(MODULE ".conv1d"),
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MODULE ".forget_gate.dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = MODULE ".forget_gate.A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_NORM, .hf = MODULE ".o_norm"},
    LN_MEMORY_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    {.role = LN_ROLE_Q, .hf = MODULE ".q_proj"},
    {.role = LN_ROLE_Q_A, .hf = MODULE ".q_a_proj"},
    {.role = LN_ROLE_Q_B, .hf = MODULE ".q_b_proj"},
    {.role = LN_ROLE_KV_A, .hf = MODULE ".kv_a_proj_with_mqa"},
    {.role = LN_ROLE_K_B, .hf = MODULE ".kv_b_proj", .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_V_B, .hf = MODULE ".kv_b_proj", .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_ATTENTION_GATE, .hf = MODULE ".g_proj", .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_O, .hf = MODULE ".o_proj"},
    {.role = LN_ROLE_MIXER_Q, .hf = MODULE ".q_proj", .gguf = "blk.%d.attn_q"},
    {.role = LN_ROLE_MIXER_K, .hf = MODULE ".k_proj", .gguf = "blk.%d.attn_k"},
    {.role = LN_ROLE_MIXER_V, .hf = MODULE ".v_proj", .gguf = "blk.%d.attn_v"},
    {.role = LN_ROLE_MIXER_A, .hf = MODULE ".forget_gate.f_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_B, .hf = MODULE ".b_proj"},
    {.role = LN_ROLE_MIXER_GATE, .hf = MODULE ".g_proj", .gguf = "blk.%d.ssm_g_a"},
    {.role = LN_ROLE_MIXER_OUT, .hf = MODULE ".o_proj", .gguf = "blk.%d.attn_output"},
};

const ln_family ln_family_bailing_hybrid = {
    .name = "bailing_hybrid",
    .gguf = "bailingmoe3",
    .defaults = "rms_norm_eps=1e-6|model_max_length=262144|rope_theta=6000000|kv_lora_rank=512|"
                "qk_nope_head_dim=128|qk_rope_head_dim=64|v_head_dim=128|head_dim=128|"
                "short_conv_kernel_size=4|layer_group_size=6|kda_safe_gate=true|"
                "kda_lower_bound=-5|num_experts=512|num_experts_per_token=8|"
                "moe_intermediate_size=768|num_shared_experts=1|num_expert_group=8|topk_group=4|"
                "routed_scaling_factor=2.5|first_k_dense_replace=2",
    .hf_rope = LN_ROPE_INTERLEAVED,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .latent_eps = 1e-6,
    .output_gate = LN_GATE_BY_HEAD,
    LN_SIGMOID_ROUTER,
    .limit_lists = true,
    .gguf_dense_first = true,
    .mixer = LN_MIXER_KDA,
    .mixer_word = "linear_attention",
    LN_BINDINGS(bindings),
};
