/* Kimi Linear: three layers of four are KDA, a delta rule with a decay for each channel; the others
 * latent attention without positions. Mixtures of experts as in DeepSeek V3. */
#include "model/families/latent.h"

#define MIXER  "model.layers.%d.self_attn"
#define MLP    "model.layers.%d.block_sparse_moe"
#define SHARED "model.layers.%d.mlp.shared_experts"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LATENT_ATTENTION,
    {.role = LN_ROLE_MIXER_Q, .hf = MIXER ".q_proj", .gguf = "blk.%d.attn_q"},
    {.role = LN_ROLE_MIXER_K, .hf = MIXER ".k_proj", .gguf = "blk.%d.attn_k"},
    {.role = LN_ROLE_MIXER_V, .hf = MIXER ".v_proj", .gguf = "blk.%d.attn_v"},
    LN_MIXER_CONVS(MIXER ".", "q_conv1d", "k_conv1d", "v_conv1d"),
    {.role = LN_ROLE_MIXER_A_LOW, .hf = MIXER ".f_a_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_A, .hf = MIXER ".f_b_proj", .gguf = "blk.%d.ssm_f_b"},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MIXER ".dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = MIXER ".A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_B, .hf = MIXER ".b_proj"},
    {.role = LN_ROLE_MIXER_GATE_LOW, .hf = MIXER ".g_a_proj"},
    {.role = LN_ROLE_MIXER_GATE, .hf = MIXER ".g_b_proj", .gguf = "blk.%d.ssm_g_b"},
    {.role = LN_ROLE_MIXER_NORM, .hf = MIXER ".o_norm"},
    {.role = LN_ROLE_MIXER_OUT, .hf = MIXER ".o_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_GATE, .hf = MLP ".gate_proj"},
    /* as transformers saves them */
    LN_PLAIN_FFN(MLP ".", "up_proj", "down_proj"),
    LN_MIXTRAL_EXPERTS,
    LN_EXPERT_BIAS("block_sparse_moe.gate.e_score_correction_bias"),
    LN_SHARED_EXPERTS("block_sparse_moe.shared_experts"),
    /* as transformers has them in memory, and adapters name them */
    LN_MIXER_FUSED_CONVS(MIXER ".conv1d"),
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MIXER ".forget_gate.dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = MIXER ".forget_gate.A_log", .hf_bare = true},
    LN_MEMORY_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    {.role = LN_ROLE_MIXER_A_LOW, .hf = MIXER ".forget_gate.f_a_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_A, .hf = MIXER ".forget_gate.f_b_proj", .gguf = "blk.%d.ssm_f_b"},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate"},
    LN_SHARED(SHARED ".", "gate_proj", "up_proj", "down_proj"),
};

const ln_family ln_family_kimi_linear = {
    .name = "kimi_linear",
    .gguf = "kimi-linear",
    .defaults = "rms_norm_eps=1e-5|max_position_embeddings=1048576|kv_lora_rank=512|"
                "qk_nope_head_dim=128|qk_rope_head_dim=64|v_head_dim=128|linear_num_heads=32|"
                "linear_head_dim=128|linear_conv_kernel_dim=4|num_experts=256|"
                "num_experts_per_token=8|moe_intermediate_size=1024|num_shared_experts=1|"
                "routed_scaling_factor=2.446|first_k_dense_replace=1",
    .refused = "!mla_use_nope",
    .still_latents = true,
    .latent_eps = 1e-6,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    .mixer = LN_MIXER_KDA,
    .mixer_word = "linear_attention",
    LN_BINDINGS(bindings),
};
