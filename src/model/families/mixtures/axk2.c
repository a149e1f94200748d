/* A.X K2: DeepSeek V3.2 with norms before attention and mixtures that are gated by a path of low
 * rank; queries and a gate of attention's output are made of the latent behind its norm and before.
 */
#include "model/families/latent.h"

#define GATED(low, gate, name)                                                                     \
    {.role = low, .hf = "model.layers.%d." name ".W_down"},                                        \
        {.role = low, .hf = "model.layers.%d." name ".mlp.fc1"},                                   \
        {.role = gate, .hf = "model.layers.%d." name ".W_up"}, {                                   \
        .role = gate, .hf = "model.layers.%d." name ".mlp.fc2"                                     \
    }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm.norm", "post_attention_layernorm.norm"),
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.post_attention_layernorm"},
    GATED(LN_ROLE_ATTENTION_NORM_LOW, LN_ROLE_ATTENTION_NORM_GATE, "input_layernorm"),
    GATED(LN_ROLE_FFN_NORM_LOW, LN_ROLE_FFN_NORM_GATE, "post_attention_layernorm"),
    {.role = LN_ROLE_Q_A, .hf = "model.layers.%d.self_attn.q_a_proj"},
    {.role = LN_ROLE_Q_A_NORM, .hf = "model.layers.%d.self_attn.q_a_layernorm"},
    {.role = LN_ROLE_Q_B,
     .hf = "model.layers.%d.self_attn.q_b_proj",
     .hf_part = LN_PART_LATENT_Q_GATE},
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.q_b_proj",
     .hf_part = LN_PART_LATENT_Q_GATE},
    {.role = LN_ROLE_Q_B,
     .hf = "model.layers.%d.self_attn.q_gate_proj",
     .hf_part = LN_PART_LATENT_Q_GATE},
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.q_gate_proj",
     .hf_part = LN_PART_LATENT_Q_GATE},
    {.role = LN_ROLE_KV_A, .hf = "model.layers.%d.self_attn.kv_a_proj_with_mqa"},
    {.role = LN_ROLE_KV_A_NORM, .hf = "model.layers.%d.self_attn.kv_a_layernorm"},
    {.role = LN_ROLE_K_B,
     .hf = "model.layers.%d.self_attn.kv_b_proj",
     .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_V_B,
     .hf = "model.layers.%d.self_attn.kv_b_proj",
     .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.o_proj"},
    {.role = LN_ROLE_INDEX_Q, .hf = "model.layers.%d.self_attn.indexer.wq_b"},
    {.role = LN_ROLE_INDEX_K, .hf = "model.layers.%d.self_attn.indexer.wk"},
    {.role = LN_ROLE_INDEX_K_NORM, .hf = "model.layers.%d.self_attn.indexer.k_norm"},
    {.role = LN_ROLE_INDEX_WEIGHTS, .hf = "model.layers.%d.self_attn.indexer.weights_proj"},
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_axk2 = {
    .name = "axk2",
    .defaults = "first_k_dense_replace=1",
    .zero_other_groups = true,
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .indexer = true,
    .latent_eps = 1e-6,
    .latent_pairs = true,
    .gated_norms = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    LN_BINDINGS(bindings),
};
