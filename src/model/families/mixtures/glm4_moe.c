/* GLM 4.5 to 4.7: half of each head rotates, q and k may be normalised, DeepSeek V3's mixture of
 * experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "model.layers.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
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

static const ln_config_default defaults[] = {
    LN_DEFAULT("num_key_value_heads", 8),      LN_DEFAULT("rms_norm_eps", 1e-5),
    LN_DEFAULT("moe_intermediate_size", 1408), LN_DEFAULT("n_routed_experts", 128),
    LN_DEFAULT("num_experts_per_tok", 8),      LN_DEFAULT("n_shared_experts", 1),
    LN_DEFAULT("first_k_dense_replace", 1),    {0}};

const ln_family ln_family_glm4_moe = {
    .name = "glm4_moe",
    .hf_types = "glm4_moe|glm4v_moe_text",
    .gguf = "glm4moe",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .qk_norm = LN_QK_NORM_HEAD,
    .qk_norm_key = "use_qk_norm",
    .rope_fraction = 0.5,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .router = LN_ROUTER_SIGMOID,
    .normalize_experts = true,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
