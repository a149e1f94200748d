/* MiMo V2 Flash: windowed layers with sinks, twice the KV heads and a rotation of their own; values
 * narrower than keys; DeepSeek V3's mixture of experts without shared ones. V2.5 has q, k and v in
 * one matrix. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_QKV("model.layers.%d.self_attn.qkv_proj", .hf_part = LN_PART_QKV_BY_SHARD),
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.attention_sink_bias", .hf_bare = true},
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.sinks", .hf_bare = true},
    LN_LLAMA_EXPERTS,
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_mimo_v2_flash = {
    .name = "mimo_v2_flash",
    .hf_types = "mimo_v2_flash|mimo_v2",
    .gguf = "mimo2",
    .defaults = "num_key_value_heads=4|head_dim=192|v_head_dim=128|rope_theta=5e6|"
                "rms_norm_eps=1e-5|attention_value_scale=0.707|moe_intermediate_size=2048|"
                "n_routed_experts=256|num_experts_per_tok=8|sliding_window=129|"
                "first_k_dense_replace=1",
    .rope_fraction = 0.334,
    .local_rope = true,
    .local_theta = 10000.0,
    .window = LN_WINDOW_BETWEEN,
    .window_period = 6,
    .before_key = "sliding_window_size",
    .window_sinks = true,
    .window_kv_factor = 2,
    LN_SIGMOID_ROUTER,
    .gguf_lists = true,
    .gguf_value_scale = true,
    .gguf_dense_first = true,
    .gguf_dense_by_router = true,
    LN_BINDINGS(bindings),
};
