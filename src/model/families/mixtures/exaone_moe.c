/* K-EXAONE: EXAONE 4's attention between norms in front, DeepSeek V3's mixture of experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%d.mlp.e_score_correction_bias",
     .hf_bare = true},
};

static const ln_config_default defaults[] = {LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT("sliding_window", 4096),
                                             LN_DEFAULT("moe_intermediate_size", 1024),
                                             LN_DEFAULT("num_experts", 64),
                                             LN_DEFAULT("num_experts_per_tok", 8),
                                             LN_DEFAULT("num_shared_experts", 1),
                                             LN_DEFAULT("routed_scaling_factor", 2.5),
                                             LN_DEFAULT("first_k_dense_replace", 1),
                                             {0}};

const ln_family ln_family_exaone_moe = {
    .name = "exaone_moe",
    .hf_types = "exaone_moe",
    .gguf = "exaone-moe",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .rope_rule = LN_ROPE_WINDOWED_OR_ALL,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    .router = LN_ROUTER_SIGMOID,
    .normalize_experts = true,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
