/* LongCat Flash: layers of two latent attentions and two dense feed-forwards, and beside the second
 * attention experts, some of which give what they read; their sum joins behind it all. Each half
 * is a layer here. */
#include "model/families/latent.h"

#define ATTENTION(r, name)                                                                         \
    { .role = r, .hf = "model.layers.%h.self_attn.%p." name }
#define OF_HALF(r, name)                                                                           \
    { .role = r, .hf = "model.layers.%h." name }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    OF_HALF(LN_ROLE_ATTENTION_NORM, "input_layernorm.%p"),
    OF_HALF(LN_ROLE_FFN_NORM, "post_attention_layernorm.%p"),
    ATTENTION(LN_ROLE_Q_A, "q_a_proj"),
    ATTENTION(LN_ROLE_Q_A_NORM, "q_a_layernorm"),
    ATTENTION(LN_ROLE_Q_B, "q_b_proj"),
    ATTENTION(LN_ROLE_KV_A, "kv_a_proj_with_mqa"),
    ATTENTION(LN_ROLE_KV_A_NORM, "kv_a_layernorm"),
    {.role = LN_ROLE_K_B,
     .hf = "model.layers.%h.self_attn.%p.kv_b_proj",
     .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_V_B,
     .hf = "model.layers.%h.self_attn.%p.kv_b_proj",
     .hf_part = LN_PART_KV_BY_HEAD},
    ATTENTION(LN_ROLE_O, "o_proj"),
    OF_HALF(LN_ROLE_GATE, "mlps.%p.gate_proj"),
    OF_HALF(LN_ROLE_UP, "mlps.%p.up_proj"),
    OF_HALF(LN_ROLE_DOWN, "mlps.%p.down_proj"),
    OF_HALF(LN_ROLE_ROUTER, "mlp.router.classifier"),
    OF_HALF(LN_ROLE_EXPERT_GATE, "mlp.experts.%e.gate_proj"),
    OF_HALF(LN_ROLE_EXPERT_UP, "mlp.experts.%e.up_proj"),
    OF_HALF(LN_ROLE_EXPERT_DOWN, "mlp.experts.%e.down_proj"),
    LN_STACKED_EXPERTS("model.layers.%h.mlp.experts."),
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%h.mlp.router.e_score_correction_bias",
     .hf_bare = true},
};

const ln_family ln_family_longcat_flash = {
    .name = "longcat_flash",
    .refused = "router_bias|!mla_scale_q_lora|!mla_scale_kv_lora",
    .hf_rope = LN_ROPE_INTERLEAVED,
    .keeps_expert_weights = true,
    .expert_hidden_key = "expert_ffn_hidden_size",
    .latent_eps = 1e-6,
    .shortcut = true,
    .scales_latents = true,
    LN_BINDINGS(bindings),
};
