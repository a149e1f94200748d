/* Granite 3 with a mixture of experts, beside which GraniteMoeShared has a shared one. */
#include "model/families/bindings.h"

#define INPUT(r, name)                                                                             \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.block_sparse_moe.input_linear", .gguf = name,            \
        .hf_part = LN_PART_GATE_UP                                                                 \
    }

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.block_sparse_moe.router.layer"},
    INPUT(LN_ROLE_EXPERT_GATE, "blk.%d.ffn_gate_exps"),
    INPUT(LN_ROLE_EXPERT_UP, "blk.%d.ffn_up_exps"),
    {.role = LN_ROLE_EXPERT_DOWN, .hf = "model.layers.%d.block_sparse_moe.output_linear"},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.block_sparse_moe.router", .gguf = ""},
    LN_STACKED_EXPERTS("model.layers.%d.block_sparse_moe.experts."),
    {.role = LN_ROLE_SHARED_GATE,
     .hf = "model.layers.%d.shared_mlp.input_linear",
     .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_SHARED_UP,
     .hf = "model.layers.%d.shared_mlp.input_linear",
     .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_SHARED_DOWN, .hf = "model.layers.%d.shared_mlp.output_linear"},
};

const ln_family ln_family_granitemoe = {
    .name = "granitemoe",
    .hf_types = "granitemoe|granitemoeshared",
    .gguf = "granitemoe",
    .defaults = "attention_multiplier=1|num_local_experts=8|num_experts_per_tok=2",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .divide_logits = true,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};
