/* Gemma 4 (text): windowed layers and layers that see all, which have larger heads, whose values
 * may be their keys, and of which only a part of the pairs rotates; the last layers may attend to
 * keys and values of earlier ones. A mixture stands beside the dense feed-forward, and small models
 * give each layer an embedding of its own. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
    LN_LOOKUP_EMBEDDINGS,
    {.role = LN_ROLE_LAYER_SCALE,
     .hf = "model.layers.%d.layer_scalar",
     .hf_bare = true,
     .optional = true},
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
    .defaults = "hidden_size=2304|intermediate_size=9216|num_hidden_layers=30|"
                "num_attention_heads=8|num_key_value_heads=4|head_dim=256|global_head_dim=512|"
                "gemma4_unified_text:max_position_embeddings=262144|"
                "gemma4_unified_text:sliding_window=1024|"
                "gemma4_unified_text:hidden_size_per_layer_input=0|max_position_embeddings=131072|"
                "sliding_window=512|hidden_size_per_layer_input=256|enable_moe_block=false|"
                "rope_parameters.full_attention.rope_type=proportional unless rope_parameters|"
                "rope_parameters.full_attention.partial_rotary_factor=0.25 unless rope_parameters|"
                "rope_parameters.full_attention.rope_theta=1e6 unless rope_parameters",
    LN_GEMMA3_ATTENTION,
    .window_period = 6,
    .unit_scale = true,
    .normalize_experts = true,
    .experts_flag = "enable_moe_block",
    .expert_hidden_key = "moe_intermediate_size",
    .by_layer = true,
    .v_norm = true,
    .layer_scales = true,
    .lookup = true,
    .moe_beside = true,
    .ends_in_full = true,
    .gguf_turning = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
