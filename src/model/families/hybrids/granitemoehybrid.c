/* Granite 4 H: mostly Mamba 2, with attention in a few layers; every layer has a dense feed-forward
 * beside its experts, or, without experts, alone. */
#include "model/families/mamba2.h"

#define INPUT(r, name, gguf_name)                                                                  \
    { .role = r, .hf = name, .gguf = "blk.%d." gguf_name, .hf_part = LN_PART_GATE_UP }
#define EXPERTS "model.layers.%d.block_sparse_moe"
#define SHARED  "model.layers.%d.shared_mlp"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_MAMBA2_MIXER("model.layers.%d.mamba"),
    {.role = LN_ROLE_ROUTER, .hf = EXPERTS ".router.layer"},
    INPUT(LN_ROLE_EXPERT_GATE, EXPERTS ".input_linear", "ffn_gate_exps"),
    INPUT(LN_ROLE_EXPERT_UP, EXPERTS ".input_linear", "ffn_up_exps"),
    {.role = LN_ROLE_EXPERT_DOWN, .hf = EXPERTS ".output_linear"},
    {.role = LN_ROLE_ROUTER, .hf = EXPERTS ".router", .gguf = ""},
    LN_STACKED_EXPERTS(EXPERTS ".experts."),
    INPUT(LN_ROLE_SHARED_GATE, SHARED ".input_linear", "ffn_gate_shexp"),
    INPUT(LN_ROLE_SHARED_UP, SHARED ".input_linear", "ffn_up_shexp"),
    {.role = LN_ROLE_SHARED_DOWN, .hf = SHARED ".output_linear"},
    INPUT(LN_ROLE_GATE, SHARED ".input_linear", "ffn_gate"),
    INPUT(LN_ROLE_UP, SHARED ".input_linear", "ffn_up"),
    {.role = LN_ROLE_DOWN, .hf = SHARED ".output_linear"},
};

const ln_family ln_family_granitemoehybrid = {
    .name = "granitemoehybrid",
    .gguf = "granitehybrid",
    .gguf_even = "granite|granitemoe",
    .defaults = "attention_multiplier=1|num_local_experts=8|num_experts_per_tok=2|"
                "shared_intermediate_size=1024|mamba_n_heads=128|mamba_n_groups=1|"
                "mamba_d_state=256|mamba_d_conv=4|layer_types=linear_attention",
    .positions = LN_POSITIONS_NONE,
    .rope_key = "position_embedding_type",
    .gguf_rope_flag = true,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .divide_logits = true,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    .dense_hidden_key = "shared_intermediate_size",
    .mixer = LN_MIXER_SSD,
    .mixer_norm_groups = true,
    .mixer_word = "linear_attention|mamba",
    LN_BINDINGS(bindings),
};
