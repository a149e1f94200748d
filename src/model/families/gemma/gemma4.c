/* Gemma 4 (text): windowed layers and layers that see all, which have larger heads, whose values
 * may be their keys, and of which only a part of the pairs rotates; the last layers may attend to
 * keys and values of earlier ones. A mixture stands beside the dense feed-forward, and small models
 * give each layer an embedding of its own. */
#include "model/families/gemma/gemma4.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
    LN_LOOKUP_EMBEDDINGS,
    LN_GEMMA4_LAYER_SCALE,
    {.role = LN_ROLE_DENSE_POST_NORM, .hf = "model.layers.%d.post_feedforward_layernorm_1"},
    {.role = LN_ROLE_EXPERTS_NORM, .hf = "model.layers.%d.pre_feedforward_layernorm_2"},
    {.role = LN_ROLE_EXPERTS_POST_NORM, .hf = "model.layers.%d.post_feedforward_layernorm_2"},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.router.proj"},
    {.role = LN_ROLE_ROUTER_NORM, .hf = "model.layers.%d.router.scale", .hf_bare = true},
    {.role = LN_ROLE_EXPERT_SCALE,
     .hf = "model.layers.%d.router.per_expert_scale",
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_GATE,
     .hf = "model.layers.%d.experts.gate_up_proj",
     .hf_part = LN_PART_GATE_UP,
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_UP,
     .hf = "model.layers.%d.experts.gate_up_proj",
     .hf_part = LN_PART_GATE_UP,
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_GATE, .gguf = "blk.%d.ffn_gate_up_exps", .gguf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_EXPERT_UP, .gguf = "blk.%d.ffn_gate_up_exps", .gguf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_EXPERT_DOWN, .hf = "model.layers.%d.experts.down_proj", .hf_bare = true},
};

const ln_family ln_family_gemma4 = {
    .name = "gemma4",
    .hf_types = "gemma4|gemma4_text|gemma4_unified|gemma4_unified_text",
    .gguf = "gemma4",
    LN_GEMMA4_SHAPE,
    .normalize_experts = true,
    .experts_flag = "enable_moe_block",
    .expert_hidden_key = "moe_intermediate_size",
    .v_norm = true,
    .lookup = true,
    .moe_beside = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
