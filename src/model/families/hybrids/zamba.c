/* Zamba: Mamba 1 whose steps, keys and queries are made by heads, with a transformer block in front
 * of some layers, of which there is but one. */
#include "model/families/mamba1.h"

#define LAYER "model.layers.%d"
#define BLOCK LAYER ".shared_transf"
#define INPUT(mixer_role, base)                                                                    \
    { .role = mixer_role, .hf = base ".in_proj", .gguf = "", .hf_part = LN_PART_MIXER_PAIRS }
#define CONTROL(mixer_role, base)                                                                  \
    LN_STACKED_EXPERT(mixer_role, base ".x_proj_weight", .hf_part = LN_PART_MIXER_CONTROLS)
#define MIXER(base)                                                                                \
    INPUT(LN_ROLE_MIXER_IN, base), INPUT(LN_ROLE_MIXER_GATE, base),                                \
        {.role = LN_ROLE_MIXER_CONV, .hf = base ".conv1d"}, CONTROL(LN_ROLE_MIXER_A_LOW, base),    \
        CONTROL(LN_ROLE_MIXER_K, base), CONTROL(LN_ROLE_MIXER_Q, base),                            \
        LN_STACKED_EXPERT(LN_ROLE_MIXER_A, base ".dt_proj_weight", ),                              \
        LN_MAMBA1_VECTOR(LN_ROLE_MIXER_RATE, base ".A_log", ""),                                   \
        LN_MAMBA1_VECTOR(LN_ROLE_MIXER_SKIP, base ".D", ""), {                                     \
        .role = LN_ROLE_MIXER_OUT, .hf = base ".out_proj"                                          \
    }

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    LN_BLOCK_NORMS("", LAYER ".input_layernorm", BLOCK ".pre_ff_layernorm"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".mamba_decoder.input_layernorm"},
    MIXER(LAYER ".mamba"),
    MIXER(LAYER ".mamba_decoder.mamba"),
    {.role = LN_ROLE_BLOCK_NORM, .hf = BLOCK ".input_layernorm"},
    LN_ATTENTION(BLOCK ".self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),
    LN_GATED_FFN(BLOCK ".feed_forward.", "gate_proj", "up_proj", "down_proj"),
    {.role = LN_ROLE_BLOCK_OUT, .hf = LAYER ".linear"},
};

const ln_family ln_family_zamba = {
    .name = "zamba",
    .activation = LN_ACT_GELU,
    .positions = LN_POSITIONS_NONE,
    .tied_by_default = true,
    .mixer = LN_MIXER_SELECTIVE,
    .mixer_keys_by_head = true,
    .shared_blocks = true,
    LN_BINDINGS(bindings),
};
