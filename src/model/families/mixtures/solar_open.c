/* Solar Open: GLM 4.5's mixture of experts in every layer, whole heads that rotate, no q/k norms.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_solar_open = {
    .name = "solar_open",
    .gguf_as = "glm4moe",
    .defaults = "num_key_value_heads=8|head_dim=128|rms_norm_eps=1e-5|rope_theta=1e6|"
                "moe_intermediate_size=1280|n_routed_experts=128|num_experts_per_tok=8|"
                "n_shared_experts=1",
    LN_SIGMOID_ROUTER,
    LN_BINDINGS(bindings),
};
