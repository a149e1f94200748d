/* Hunyuan with a mixture of experts beside a shared one. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_QK_NORMS("model.layers.%d.self_attn.", "query_layernorm", "key_layernorm"),
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate.wg"},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_mlp"),
};

const ln_family ln_family_hunyuan_v1_moe = {
    .name = "hunyuan_v1_moe",
    .gguf = "hunyuan-moe",
    .defaults = "rms_norm_eps=1e-5|moe_topk=1",
    .qk_norm = LN_QK_NORM_HEAD,
    .norm_after_rope = true,
    .normalize_experts = true,
    .expert_hidden_key = "intermediate_size",
    .n_shared_experts = 1,
    LN_BINDINGS(bindings),
};
