/* Laguna: numbers of heads by layer, attention's output times the softplus of a linear of its
 * input, by head or by element, two rotations, and a mixture of experts chosen by sigmoid and bias.
 */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ATTENTION_GATE, .hf = "model.layers.%d.self_attn.g_proj"},
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_expert"),
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.experts.e_score_correction_bias"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

static const ln_config_default defaults[] = {
    LN_DEFAULT("first_k_dense_replace", 1),
    LN_DEFAULT_ROPE("full_attention.rope_theta", .value = 500000),
    LN_DEFAULT_ROPE("full_attention.partial_rotary_factor", .value = 0.5),
    LN_DEFAULT_ROPE("sliding_attention.rope_theta", .value = 10000),
    {0}};

const ln_family ln_family_laguna = {
    .name = "laguna",
    .hf_types = "laguna",
    .defaults = defaults,
    .refused = "moe_apply_router_weight_on_input",
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .output_gate = LN_GATE_BY_HEAD,
    .gating = true,
    .softplus_gate = true,
    .hf_rope = LN_ROPE_HALF,
    .local_rope = true,
    .local_theta = 10000.0,
    .by_layer = true,
    .lists_alone = true,
    .router = LN_ROUTER_SIGMOID,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
