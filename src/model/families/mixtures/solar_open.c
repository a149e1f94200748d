/* Solar Open: GLM 4.5's mixture of experts in every layer, whole heads that rotate, no q/k norms.
 */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_key_value_heads", 8),
                                             LN_DEFAULT("head_dim", 128),
                                             LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT("rope_theta", 1e6),
                                             LN_DEFAULT("moe_intermediate_size", 1280),
                                             LN_DEFAULT("n_routed_experts", 128),
                                             LN_DEFAULT("num_experts_per_tok", 8),
                                             LN_DEFAULT("n_shared_experts", 1),
                                             {0}};

const ln_family ln_family_solar_open = {
    .name = "solar_open",
    .hf_types = "solar_open",
    .gguf_as = "glm4moe",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .router = LN_ROUTER_SIGMOID,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
