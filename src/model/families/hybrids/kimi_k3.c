/* Kimi K3: as Kimi Linear, and its residual stream attends to blocks of layers before, whose
 * queries folders have in two parts. Decays are bounded, gates of recurrent layers have their full
 * rank, and latent attention has one, too. Experts work in fewer dimensions, and what they give
 * together is normalised. All that is gated has SiTU. Folders name it by Kimi Linear's type. */
#include "model/families/latent.h"

#define LAYER  "model.layers.%d."
#define MIXER  LAYER "self_attn."
#define SPARSE LAYER "block_sparse_moe."

static const ln_binding bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_OUTPUT_QUERY, .hf = "model.output_attn_res_proj"},
    {.role = LN_ROLE_OUTPUT_QUERY_NORM, .hf = "model.output_attn_res_norm", .gguf = ""},
    {.role = LN_ROLE_ATTENTION_QUERIES, .hf = LAYER "self_attention_res_proj"},
    {.role = LN_ROLE_ATTENTION_QUERY_NORM, .hf = LAYER "self_attention_res_norm", .gguf = ""},
    {.role = LN_ROLE_FFN_QUERY, .hf = LAYER "mlp_res_proj"},
    {.role = LN_ROLE_FFN_QUERY_NORM, .hf = LAYER "mlp_res_norm", .gguf = ""},
    LN_LATENT_ATTENTION,
    {.role = LN_ROLE_ATTENTION_GATE, .hf = MIXER "g_proj", .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_MIXER_Q, .hf = MIXER "q_proj", .gguf = "blk.%d.attn_q"},
    {.role = LN_ROLE_MIXER_K, .hf = MIXER "k_proj", .gguf = "blk.%d.attn_k"},
    {.role = LN_ROLE_MIXER_V, .hf = MIXER "v_proj", .gguf = "blk.%d.attn_v"},
    LN_MIXER_CONVS(MIXER, "q_conv1d", "k_conv1d", "v_conv1d"),
    {.role = LN_ROLE_MIXER_A_LOW, .hf = MIXER "f_a_proj", .gguf = "blk.%d.ssm_f_a"},
    {.role = LN_ROLE_MIXER_A, .hf = MIXER "f_b_proj", .gguf = "blk.%d.ssm_f_b"},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MIXER "dt_bias", .hf_bare = true},
    {.role = LN_ROLE_MIXER_RATE, .hf = MIXER "A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_B, .hf = MIXER "b_proj"},
    {.role = LN_ROLE_MIXER_GATE, .hf = MIXER "g_proj", .gguf = "blk.%d.ssm_g"},
    {.role = LN_ROLE_MIXER_NORM, .hf = MIXER "o_norm"},
    {.role = LN_ROLE_MIXER_OUT, .hf = MIXER "o_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_ROUTER, .hf = SPARSE "gate"},
    LN_EXPERT_BIAS("block_sparse_moe.gate.e_score_correction_bias"),
    LN_EXPERTS(SPARSE "experts.%e.", "w1", "w3", "w2"),
    LN_SHARED_EXPERTS("block_sparse_moe.shared_experts"),
    {.role = LN_ROLE_EXPERT_LATENT_IN,
     .hf = SPARSE "routed_expert_down_proj",
     .gguf = "blk.%d.ffn_routed_down"},
    {.role = LN_ROLE_EXPERT_LATENT_OUT,
     .hf = SPARSE "routed_expert_up_proj",
     .gguf = "blk.%d.ffn_routed_up"},
    {.role = LN_ROLE_EXPERT_LATENT_NORM,
     .hf = SPARSE "routed_expert_norm",
     .gguf = "blk.%d.ffn_routed_norm",
     .optional = true},
};

const ln_family ln_family_kimi_k3 = {
    .name = "kimi_k3",
    .gguf = "kimi-k3",
    .defaults = "rms_norm_eps=1e-6|max_position_embeddings=4096|num_shared_experts=0|"
                "mla_use_output_gate=false",
    .refused = "!mla_use_nope",
    .still_latents = true,
    .latent_eps = 1e-6,
    .output_gate = LN_GATE_BY_ELEMENT,
    .output_gate_key = "mla_use_output_gate",
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    .block_residual = true,
    .raw_residual = true,
    .situ = true,
    .mixer = LN_MIXER_KDA,
    .mixer_word = "linear_attention",
    .flat_rates = true,
    LN_BINDINGS(bindings),
};
