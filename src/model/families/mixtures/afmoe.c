/* AFMoE (Trinity): norms around each block, a gate for each element of what attention gives,
 * windowed layers that rotate and others that do not, a mixture of experts chosen by sigmoid and
 * bias. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "pre_mlp_layernorm"),
    LN_POST_NORMS("model.layers.%d.", "post_attention_layernorm", "post_mlp_layernorm"),
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.gate_proj",
     .gguf = "blk.%d.attn_gate"},
    LN_LLAMA_FFN,
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.router.gate"},
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("mlp.expert_bias"),
};

const ln_family ln_family_afmoe = {
    .name = "afmoe",
    .gguf = "afmoe",
    .defaults = "head_dim=128|rms_norm_eps=1e-5|num_experts=64|num_experts_per_tok=6|"
                "moe_intermediate_size=1408|num_dense_layers=1|num_shared_experts=2|"
                "sliding_window=1024|mup_enabled=false",
    .placement = LN_PLACE_SANDWICH,
    .qk_norm = LN_QK_NORM_HEAD,
    .rope_rule = LN_ROPE_WINDOWED_LAYERS,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    .scale_embedding = true,
    LN_SIGMOID_ROUTER,
    .output_gate = LN_GATE_BY_ELEMENT,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
