/* Jamba: mostly Mamba 1, whose steps, keys and queries have norms, with attention without positions
 * in a few layers, and a mixture of experts in every other one. */
#include "model/families/mamba1.h"

#define LAYER "model.layers.%d"
#define MIXER LAYER ".mamba"
#define FFN   LAYER ".feed_forward"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_layernorm", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".input_layernorm", .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER ".pre_ff_layernorm", .gguf = "blk.%d.ffn_norm"},
    LN_LLAMA_ATTENTION,
    LN_MAMBA1_MIXER(MIXER),
    {.role = LN_ROLE_MIXER_A_NORM, .hf = MIXER ".dt_layernorm", .gguf = "blk.%d.ssm_dt_norm"},
    {.role = LN_ROLE_MIXER_K_NORM, .hf = MIXER ".b_layernorm", .gguf = "blk.%d.ssm_b_norm"},
    {.role = LN_ROLE_MIXER_Q_NORM, .hf = MIXER ".c_layernorm", .gguf = "blk.%d.ssm_c_norm"},
    {.role = LN_ROLE_GATE, .hf = FFN ".gate_proj", .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_UP, .hf = FFN ".up_proj", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = FFN ".down_proj", .gguf = "blk.%d.ffn_down"},
    {.role = LN_ROLE_ROUTER, .hf = FFN ".router", .gguf = "blk.%d.ffn_gate_inp"},
    {.role = LN_ROLE_EXPERT_GATE,
     .hf = FFN ".experts.%e.gate_proj",
     .gguf = "blk.%d.ffn_gate_exps"},
    {.role = LN_ROLE_EXPERT_UP, .hf = FFN ".experts.%e.up_proj", .gguf = "blk.%d.ffn_up_exps"},
    {.role = LN_ROLE_EXPERT_DOWN,
     .hf = FFN ".experts.%e.down_proj",
     .gguf = "blk.%d.ffn_down_exps"},
};

const ln_family ln_family_jamba = {
    .name = "jamba",
    .gguf = "jamba",
    .defaults = "num_key_value_heads=8|max_position_embeddings=262144|num_experts=16|"
                "num_experts_per_tok=2|expert_layer_period=2|expert_layer_offset=1|"
                "attn_layer_period=8|attn_layer_offset=4|mamba_d_state=16|mamba_d_conv=4",
    .positions = LN_POSITIONS_NONE,
    .gguf_dense_by_router = true,
    .mixer = LN_MIXER_SELECTIVE,
    .mixer_word = "linear_attention|mamba",
    LN_BINDINGS(bindings),
};
