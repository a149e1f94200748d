/* K-EXAONE: EXAONE 4's attention between norms in front, DeepSeek V3's mixture of experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    LN_EXPERT_BIAS("mlp.e_score_correction_bias"),
};

const ln_family ln_family_exaone_moe = {
    .name = "exaone_moe",
    .gguf = "exaone-moe",
    .defaults = "rms_norm_eps=1e-5|sliding_window=4096|moe_intermediate_size=1024|num_experts=64|"
                "num_experts_per_tok=8|num_shared_experts=1|routed_scaling_factor=2.5|"
                "first_k_dense_replace=1",
    .qk_norm = LN_QK_NORM_HEAD,
    .rope_rule = LN_ROPE_WINDOWED_OR_ALL,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
