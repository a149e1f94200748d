/* Granite 5 (Swash): Granite with attention sinks, one layer that sees all to three windowed ones,
 * layers that rotate or not by a list, and experts where there are any. */
#include "model/families/bindings.h"

#define PACKED(r, name, part)                                                                      \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.block_sparse_moe.experts." name, .hf_part = part,        \
        .hf_bare = true                                                                            \
    }
#define SHARED(r)                                                                                  \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.shared_mlp.input_linear", .gguf = "blk.%d.ffn_up_shexp", \
        .hf_part = LN_PART_GATE_UP, .gguf_part = LN_PART_GATE_UP                                   \
    }

static const ln_binding bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.sinks", .hf_bare = true},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.block_sparse_moe.router"},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.block_sparse_moe.router.layer"},
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", LN_PART_ALL),
    LN_GGUF_EXPERTS,
    {.role = LN_ROLE_EXPERT_GATE, .gguf = "blk.%d.ffn_gate_up_exps", .gguf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_EXPERT_UP, .gguf = "blk.%d.ffn_gate_up_exps", .gguf_part = LN_PART_GATE_UP},
    SHARED(LN_ROLE_SHARED_GATE),
    SHARED(LN_ROLE_SHARED_UP),
    {.role = LN_ROLE_SHARED_DOWN, .hf = "model.layers.%d.shared_mlp.output_linear"},
};

const ln_family ln_family_granite_swa = {
    .name = "granite_swa",
    .hf_types = "granite_swa|granitemoe_swa",
    .gguf = "granite_swa",
    .defaults = "attention_multiplier=1|sliding_window=128|granite_swa:rms_norm_eps=1e-5|"
                "granitemoe_swa:num_local_experts=8|granitemoe_swa:num_experts_per_tok=2",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .rope_rule = LN_ROPE_LISTED_BASES,
    .window = LN_WINDOW_BEHIND,
    .window_period = 4,
    .gguf_window_list = true,
    .sinks = true,
    .divide_logits = true,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};
