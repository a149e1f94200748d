/* gpt-oss: attention sinks, every other layer windowed, biases everywhere, a mixture of experts
 * with a clamped gate. Folders hold gate and up rows in turn, transposed. */
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
    {.role = LN_ROLE_O, .gguf = "blk.%d.attn_out"},
    {.role = LN_ROLE_SINKS,
     .hf = "model.layers.%d.self_attn.sinks",
     .gguf = "blk.%d.attn_sinks",
     .hf_bare = true},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router", .gguf = "blk.%d.ffn_gate_inp"},
    {.role = LN_ROLE_EXPERT_GATE,
     .hf = "model.layers.%d.mlp.experts.gate_up_proj",
     .gguf = "blk.%d.ffn_gate_exps",
     .hf_part = LN_PART_GATE_UP_BY_ROW,
     .hf_transposed = true,
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_UP,
     .hf = "model.layers.%d.mlp.experts.gate_up_proj",
     .gguf = "blk.%d.ffn_up_exps",
     .hf_part = LN_PART_GATE_UP_BY_ROW,
     .hf_transposed = true,
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_DOWN,
     .hf = "model.layers.%d.mlp.experts.down_proj",
     .gguf = "blk.%d.ffn_down_exps",
     .hf_transposed = true,
     .hf_bare = true},
};

/* Where config.json says nothing of the scaling. */
#define ROPE_DEFAULT(name, ...)                                                                    \
    { .key = "rope_parameters." name, .unless = "rope_parameters|rope_scaling", __VA_ARGS__ }

static const ln_config_default defaults[] = {
    LN_DEFAULT("head_dim", 64),
    LN_DEFAULT("num_key_value_heads", 8),
    LN_DEFAULT("num_experts_per_tok", 4),
    LN_DEFAULT("sliding_window", 128),
    LN_DEFAULT("rms_norm_eps", 1e-5),
    LN_DEFAULT("rope_theta", 150000),
    ROPE_DEFAULT("rope_type", .text = "yarn"),
    ROPE_DEFAULT("factor", .value = 32),
    ROPE_DEFAULT("truncate", .value = false, .is_flag = true),
    ROPE_DEFAULT("original_max_position_embeddings", .value = 4096),
    {0}};

const ln_family ln_family_gpt_oss = {
    .name = "gpt_oss",
    .hf_types = "gpt_oss",
    .gguf = "gpt-oss",
    .defaults = defaults,
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .activation = LN_ACT_SWIGLU_CLAMPED,
    .fixed_activation = true,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_PERIOD,
    .window_period = 2,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    .sinks = true,
    LN_BINDINGS(bindings),
};
