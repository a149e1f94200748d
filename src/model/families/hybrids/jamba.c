/* Jamba: mostly Mamba 1, whose steps, keys and queries have norms, with attention without positions
 * in a few layers, and a mixture of experts in every other one. */
#include "model/families/mamba1.h"

#define LAYER "model.layers.%d"
#define MIXER LAYER ".mamba"
#define FFN   LAYER ".feed_forward"

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    LN_BLOCK_NORMS(LAYER ".", "input_layernorm", "pre_ff_layernorm"),
    LN_LLAMA_ATTENTION,
    LN_MAMBA1_MIXER(MIXER),
    {.role = LN_ROLE_MIXER_A_NORM, .hf = MIXER ".dt_layernorm"},
    {.role = LN_ROLE_MIXER_K_NORM, .hf = MIXER ".b_layernorm"},
    {.role = LN_ROLE_MIXER_Q_NORM, .hf = MIXER ".c_layernorm"},
    LN_GATED_FFN(FFN ".", "gate_proj", "up_proj", "down_proj"),
    {.role = LN_ROLE_ROUTER, .hf = FFN ".router"},
    LN_EXPERTS(FFN ".experts.%e.", "gate_proj", "up_proj", "down_proj"),
    LN_STACKED_EXPERTS(FFN ".experts."),
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
