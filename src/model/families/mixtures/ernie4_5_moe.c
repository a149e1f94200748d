/* ERNIE 4.5 with a mixture of experts: softmax with a bias that counts for the choice alone, shared
 * experts, dense layers before and between. ERNIE 4.5 VL: its text, which has experts of its own.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate", .hf_either = true},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.gate.moe_statics.e_score_correction_bias"),
    LN_EXPERT_BIAS("mlp.moe_statics.e_score_correction_bias"),
    /* ERNIE 4.5 VL, as transformers has it in memory */
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.text_moe.gate", .gguf = ""},
    LN_STACKED_EXPERTS("model.layers.%d.mlp.text_moe.experts."),
    LN_MEMORY_EXPERT_BIAS("mlp.text_moe.gate.moe_statics.e_score_correction_bias"),
};

const ln_family ln_family_ernie4_5_moe = {
    .name = "ernie4_5_moe",
    .hf_types = "ernie4_5_moe|ernie4_5_vl_moe|ernie4_5_vl_moe_text",
    .gguf = "ernie4_5-moe",
    .defaults = "num_key_value_heads=4|rope_theta=500000|rms_norm_eps=1e-5|moe_num_experts=64|"
                "moe_k=6|moe_num_shared_experts=2|moe_intermediate_size=1536|"
                "moe_layer_start_index=1",
    LN_INTERLEAVED_ROPE,
    .tied_by_default = true,
    .normalize_experts = true,
    .experts_of_pictures = true,
    .gguf_dense_first = true,
    .gguf_dense_between = true,
    LN_BINDINGS(bindings),
};
