/* GLM 4.5 to 4.7: half of each head rotates, q and k may be normalised, DeepSeek V3's mixture of
 * experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "model.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.post_attention_norm"},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    LN_HEAD_BINDINGS,
};

const ln_family ln_family_glm4_moe = {
    .name = "glm4_moe",
    .hf_types = "glm4_moe|glm4v_moe_text",
    .gguf = "glm4moe",
    .defaults = "num_key_value_heads=8|rms_norm_eps=1e-5|moe_intermediate_size=1408|"
                "n_routed_experts=128|num_experts_per_tok=8|n_shared_experts=1|"
                "first_k_dense_replace=1",
    .qk_norm = LN_QK_NORM_HEAD,
    .qk_norm_key = "use_qk_norm",
    .rope_fraction = 0.5,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
