/* Step 3.5 Flash: windowed layers with more heads and a rotation of their own, gates of heads,
 * norms around one, DeepSeek V3's mixture of experts with limits of what gate and up give in some
 * layers.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.g_proj",
     .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.moe.gate"},
    LN_EXPERTS("model.layers.%d.moe.", "gate_proj", "up_proj", "down_proj"),
    LN_GGUF_EXPERTS,
    LN_SHARED_EXPERTS("share_expert"),
    LN_EXPERT_BIAS("moe.router_bias"),
    /* as transformers has them in memory */
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate", .gguf = ""},
    LN_STACKED_EXPERTS("model.layers.%d.mlp.experts."),
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_MEMORY_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_step3p5 = {
    .name = "step3p5",
    .hf_types = "step3p5|step3p7",
    .gguf = "step35",
    .defaults = "num_key_value_heads=8|head_dim=128|rms_norm_eps=1e-5|moe_intermediate_size=1280|"
                "share_expert_dim=1280|n_routed_experts=288|num_experts_per_tok=8|"
                "first_k_dense_replace=3",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .qk_norm = LN_QK_NORM_HEAD,
    .output_gate = LN_GATE_BY_HEAD,
    .local_rope = true,
    .local_theta = 10000.0,
    .gguf_half_rope = true,
    .by_layer = true,
    .lists_alone = true,
    LN_SIGMOID_ROUTER,
    .limit_lists = true,
    .gguf_dense_first = true,
    .gguf_dense_by_router = true,
    LN_BINDINGS(bindings),
};
