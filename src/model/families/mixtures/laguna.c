/* Laguna: numbers of heads by layer, attention's output times the softplus of a linear of its
 * input, by head or by element, two rotations, and a mixture of experts chosen by sigmoid and bias.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.g_proj",
     .gguf = "blk.%d.attn_gate"},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_expert"),
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.experts.e_score_correction_bias"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_laguna = {
    .name = "laguna",
    .gguf = "laguna",
    .defaults = "first_k_dense_replace=1|"
                "rope_parameters.full_attention.rope_theta=500000 unless rope_parameters|"
                "rope_parameters.full_attention.partial_rotary_factor=0.5 unless rope_parameters|"
                "rope_parameters.sliding_attention.rope_theta=10000 unless rope_parameters",
    .refused = "moe_apply_router_weight_on_input",
    .qk_norm = LN_QK_NORM_HEAD,
    .output_gate = LN_GATE_BY_HEAD,
    .gating = true,
    .softplus_gate = true,
    .local_rope = true,
    .local_theta = 10000.0,
    .gguf_window = LN_WINDOW_BEHIND,
    .window_period = 4,
    .by_layer = true,
    .lists_alone = true,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
