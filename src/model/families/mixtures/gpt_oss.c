/* gpt-oss: attention sinks, every other layer windowed, biases everywhere, a mixture of experts
 * with a clamped gate. Folders hold gate and up rows in turn, transposed. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "model.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.post_attention_norm"},
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_O, .gguf = "blk.%d.attn_out"},
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.sinks", .hf_bare = true},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router"},
    {.role = LN_ROLE_EXPERT_GATE,
     .hf = "model.layers.%d.mlp.experts.gate_up_proj",
     .hf_part = LN_PART_GATE_UP_BY_ROW,
     .hf_transposed = true,
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_UP,
     .hf = "model.layers.%d.mlp.experts.gate_up_proj",
     .hf_part = LN_PART_GATE_UP_BY_ROW,
     .hf_transposed = true,
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_DOWN,
     .hf = "model.layers.%d.mlp.experts.down_proj",
     .hf_transposed = true,
     .hf_bare = true},
};

/* Where config.json says nothing of the scaling. */
const ln_family ln_family_gpt_oss = {
    .name = "gpt_oss",
    .gguf = "gpt-oss",
    .defaults = "head_dim=64|num_key_value_heads=8|num_experts_per_tok=4|sliding_window=128|"
                "rms_norm_eps=1e-5|rope_theta=150000|"
                "rope_parameters.rope_type=yarn unless rope_parameters unless rope_scaling|"
                "rope_parameters.factor=32 unless rope_parameters unless rope_scaling|"
                "rope_parameters.truncate=false unless rope_parameters unless rope_scaling|"
                "rope_parameters.original_max_position_embeddings=4096 unless rope_parameters "
                "unless rope_scaling",
    .activation = LN_ACT_SWIGLU_CLAMPED,
    .fixed_activation = true,
    .window = LN_WINDOW_PERIOD,
    .window_period = 2,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    .sinks = true,
    .gguf_whole_yarn = true,
    LN_BINDINGS(bindings),
};
