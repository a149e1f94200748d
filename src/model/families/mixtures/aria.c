/* Aria (text): llama with a mixture of experts, whose matrices are stored [in][out], and shared
 * ones. */
#include "model/families/bindings.h"

#define INPUT(r)                                                                                   \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.mlp.experts.fc1", .hf_part = LN_PART_GATE_UP,            \
        .hf_transposed = true                                                                      \
    }
/* As transformers has them in memory. */
#define STACKED(r, name, part)                                                                     \
    LN_STACKED_EXPERT(r, "model.layers.%d.mlp.experts." name, .hf_part = part,                     \
                      .hf_transposed = true)

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router"},
    INPUT(LN_ROLE_EXPERT_GATE),
    INPUT(LN_ROLE_EXPERT_UP),
    {.role = LN_ROLE_EXPERT_DOWN, .hf = "model.layers.%d.mlp.experts.fc2", .hf_transposed = true},
    STACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", LN_PART_GATE_UP),
    STACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", LN_PART_GATE_UP),
    STACKED(LN_ROLE_EXPERT_DOWN, "down_proj", LN_PART_ALL),
    LN_SHARED_EXPERTS("mlp.shared_experts"),
};

const ln_family ln_family_aria_text = {
    .name = "aria_text",
    .hf_types = "aria_text|aria",
    .defaults = "intermediate_size=4096|moe_num_experts=8|moe_topk=2|moe_num_shared_experts=2",
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};
