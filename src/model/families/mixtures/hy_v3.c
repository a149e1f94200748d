/* HY 3: q and k normalised by head, a mixture of experts chosen by sigmoid and bias, a shared one.
 */
#include "model/families/bindings.h"

#define SHARED "model.layers.%d.mlp.shared_experts"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router.gate"},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_mlp"),
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%d.mlp.expert_bias",
     .gguf = "blk.%d.exp_probs_b",
     .hf_bare = true,
     .gguf_bare = true},
    {.role = LN_ROLE_ROUTER_BIAS},
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%d.mlp.e_score_correction_bias",
     .gguf = "",
     .hf_bare = true},
    /* as adapters name them */
    LN_SHARED(SHARED ".", "gate_proj", "up_proj", "down_proj"),
};

const ln_family ln_family_hy_v3 = {
    .name = "hy_v3",
    .gguf = "hy_v3",
    .defaults = "num_key_value_heads=8|head_dim=128|rope_theta=11158840|rms_norm_eps=1e-5|"
                "num_experts=192|num_experts_per_tok=8|num_shared_experts=1|"
                "moe_intermediate_size=1536|router_scaling_factor=2.826|first_k_dense_replace=1",
    .qk_norm = LN_QK_NORM_HEAD,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    .gguf_dense_by_router = true,
    .dense_by_router = true,
    LN_BINDINGS(bindings),
};
