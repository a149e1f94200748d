/* HY 3: q and k normalised by head, a mixture of experts chosen by sigmoid and bias, a shared one.
 */
#include "model/family.h"

#define SHARED "model.layers.%d.mlp.shared_experts"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router.gate"},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_mlp"),
    {.role = LN_ROLE_ROUTER_BIAS, .hf = "model.layers.%d.mlp.expert_bias", .hf_bare = true},
    {.role = LN_ROLE_ROUTER_BIAS, .gguf = "blk.%d.exp_probs_b", .gguf_bare = true},
    {.role = LN_ROLE_ROUTER_BIAS, .gguf = "blk.%d.exp_probs_b.bias", .gguf_bare = true},
    /* as adapters name them */
    {.role = LN_ROLE_SHARED_GATE, .hf = SHARED ".gate_proj"},
    {.role = LN_ROLE_SHARED_UP, .hf = SHARED ".up_proj"},
    {.role = LN_ROLE_SHARED_DOWN, .hf = SHARED ".down_proj"},
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_key_value_heads", 8),
                                             LN_DEFAULT("head_dim", 128),
                                             LN_DEFAULT("rope_theta", 11158840),
                                             LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT("num_experts", 192),
                                             LN_DEFAULT("num_experts_per_tok", 8),
                                             LN_DEFAULT("num_shared_experts", 1),
                                             LN_DEFAULT("moe_intermediate_size", 1536),
                                             LN_DEFAULT("router_scaling_factor", 2.826),
                                             LN_DEFAULT("first_k_dense_replace", 1),
                                             {0}};

const ln_family ln_family_hy_v3 = {
    .name = "hy_v3",
    .hf_types = "hy_v3",
    .gguf = "hy_v3",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .router = LN_ROUTER_SIGMOID,
    .normalize_experts = true,
    .gguf_dense_first = true,
    .gguf_dense_by_router = true,
    .dense_by_router = true,
    LN_BINDINGS(bindings),
};
