/* JetMoE: mixtures of experts, and of attention, whose queries and outputs have experts of their
 * own. A bias of all experts' results is that of each, since their weights add up to one. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d"
#define HEADS LAYER ".self_attention"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    {.role = LN_ROLE_ATTENTION_ROUTER, .hf = HEADS ".experts.router.layer"},
    {.role = LN_ROLE_EXPERT_Q, .hf = HEADS ".experts.input_linear"},
    {.role = LN_ROLE_EXPERT_O, .hf = HEADS ".experts.output_linear"},
    {.role = LN_ROLE_EXPERT_O, .hf = HEADS ".experts"},
    {.role = LN_ROLE_K, .hf = HEADS ".kv_proj", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_V, .hf = HEADS ".kv_proj", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_ROUTER, .hf = LAYER ".mlp.router.layer"},
    {.role = LN_ROLE_EXPERT_GATE, .hf = LAYER ".mlp.input_linear", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_EXPERT_UP, .hf = LAYER ".mlp.input_linear", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_EXPERT_DOWN, .hf = LAYER ".mlp.output_linear"},
    {.role = LN_ROLE_EXPERT_DOWN, .hf = LAYER ".mlp"},
};

const ln_family ln_family_jetmoe = {
    .name = "jetmoe",
    .defaults = "num_local_experts=8|num_experts_per_tok=2|num_key_value_heads=16",
    .activation_key = "activation_function",
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    .attention_experts = true,
    .norm_eps = 1e-6,
    .output_eps = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
