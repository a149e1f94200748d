/* ZAYA: attention whose queries and keys go through convolutions, whose values are half of the
 * token before, a residual stream that is scaled by element, and a mixture of experts whose router
 * is a feed-forward that reads the one of the layer before; it may choose none. */
#include "model/families/bindings.h"

#define LAYER  "model.layers.%d."
#define CCA    LAYER "self_attn.qkv_proj."
#define ROUTER LAYER "mlp.gate."
#define VECTOR(role_of, name)                                                                      \
    { .role = role_of, .hf = name, .hf_bare = true }
#define PACKED(role_of, name, part)                                                                \
    { .role = role_of, .hf = LAYER "mlp.experts." name, .hf_part = part, .hf_bare = true }
#define SCALES(residual_shift, residual_scale, output_shift, output_scale, base)                   \
    VECTOR(residual_shift, LAYER base ".residual_bias"),                                           \
        VECTOR(residual_scale, LAYER base ".residual_scale"),                                      \
        VECTOR(output_shift, LAYER base ".hidden_states_bias"),                                    \
        VECTOR(output_scale, LAYER base ".hidden_states_scale")

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    VECTOR(LN_ROLE_EMBEDDING_SHIFT, "model.input_hidden_states_bias"),
    VECTOR(LN_ROLE_EMBEDDING_SCALE, "model.input_hidden_states_scale"),
    LN_LLAMA_NORMS,
    {.role = LN_ROLE_Q, .hf = CCA "q_proj"},
    {.role = LN_ROLE_K, .hf = CCA "k_proj"},
    {.role = LN_ROLE_V, .hf = CCA "v_proj_current"},
    {.role = LN_ROLE_V_DELAYED, .hf = CCA "v_proj_delayed"},
    {.role = LN_ROLE_MIXER_CONV, .hf = CCA "conv_qk_depthwise"},
    {.role = LN_ROLE_HEAD_CONV, .hf = CCA "conv_qk_grouped"},
    VECTOR(LN_ROLE_K_SCALE, LAYER "self_attn.qk_norm.temp"),
    {.role = LN_ROLE_O, .hf = LAYER "self_attn.o_proj"},
    SCALES(LN_ROLE_ATTENTION_RESIDUAL_SHIFT, LN_ROLE_ATTENTION_RESIDUAL_SCALE,
           LN_ROLE_ATTENTION_OUTPUT_SHIFT, LN_ROLE_ATTENTION_OUTPUT_SCALE,
           "post_attention_residual_scale"),
    SCALES(LN_ROLE_FFN_RESIDUAL_SHIFT, LN_ROLE_FFN_RESIDUAL_SCALE, LN_ROLE_FFN_OUTPUT_SHIFT,
           LN_ROLE_FFN_OUTPUT_SCALE, "post_mlp_residual_scale"),
    {.role = LN_ROLE_ROUTER_IN, .hf = ROUTER "down_proj"},
    VECTOR(LN_ROLE_ROUTER_CARRY, ROUTER "router_states_scale"),
    {.role = LN_ROLE_ROUTER_NORM, .hf = ROUTER "router_mlp.norm"},
    {.role = LN_ROLE_ROUTER_FIRST, .hf = ROUTER "router_mlp.fc1"},
    {.role = LN_ROLE_ROUTER_SECOND, .hf = ROUTER "router_mlp.fc2"},
    {.role = LN_ROLE_ROUTER, .hf = ROUTER "router_mlp.out_proj"},
    VECTOR(LN_ROLE_ROUTER_BIAS, ROUTER "balancing_biases"),
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", LN_PART_ALL),
    LN_EXPERTS(LAYER "mlp.experts.%e.", "gate_proj", "up_proj", "down_proj"),
};

const ln_family ln_family_zaya = {
    .name = "zaya",
    .defaults = "rope_parameters.hybrid.rope_theta=5000000 unless rope_parameters|"
                "rope_parameters.hybrid.partial_rotary_factor=0.5 unless rope_parameters|"
                "rope_parameters.hybrid_sliding.rope_theta=10000 unless rope_parameters|"
                "rope_parameters.hybrid_sliding.partial_rotary_factor=0.5 unless rope_parameters",
    .qk_norm = LN_QK_NORM_OWN,
    .local_rope = true,
    .mixer = LN_MIXER_CCA,
    .mixers_beside = true,
    .scales_residual = true,
    .router_mlp = true,
    .keeps_expert_weights = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
