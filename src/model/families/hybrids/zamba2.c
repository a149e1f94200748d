/* Zamba 2: Mamba 2, with a transformer block in front of some layers, of which there are but one or
 * two. */
#include "model/families/mamba2.h"

#define BLOCK "model.layers.%d.shared_transformer"
#define LOW(role_low, name)                                                                        \
    {.role = role_low, .hf = BLOCK name "_adapter_list.%e.0"}, {                                   \
        .role = (ln_role)(role_low + 1), .hf = BLOCK name "_adapter_list.%e.1"                     \
    }

static const ln_binding bindings[] = {
    LN_ENDS("model.embed_tokens", "model.final_layernorm", "lm_head"),
    LN_BLOCK_NORMS("", "model.layers.%d.input_layernorm", BLOCK ".pre_ff_layernorm"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.mamba_decoder.input_layernorm"},
    LN_MAMBA2_MIXER("model.layers.%d.mamba"),
    LN_MAMBA2_MIXER("model.layers.%d.mamba_decoder.mamba"),
    {.role = LN_ROLE_BLOCK_NORM, .hf = BLOCK ".input_layernorm"},
    LN_ATTENTION(BLOCK ".self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),
    LOW(LN_ROLE_BLOCK_Q_LOW, ".self_attn.linear_q"),
    LOW(LN_ROLE_BLOCK_K_LOW, ".self_attn.linear_k"),
    LOW(LN_ROLE_BLOCK_V_LOW, ".self_attn.linear_v"),
    {.role = LN_ROLE_GATE, .hf = BLOCK ".feed_forward.gate_up_proj", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_UP, .hf = BLOCK ".feed_forward.gate_up_proj", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_DOWN, .hf = BLOCK ".feed_forward.down_proj"},
    {.role = LN_ROLE_BLOCK_FFN_LOW, .hf = BLOCK ".feed_forward.gate_up_proj_adapter_list.%e.0"},
    {.role = LN_ROLE_BLOCK_GATE_HIGH,
     .hf = BLOCK ".feed_forward.gate_up_proj_adapter_list.%e.1",
     .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_BLOCK_UP_HIGH,
     .hf = BLOCK ".feed_forward.gate_up_proj_adapter_list.%e.1",
     .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_BLOCK_OUT, .hf = "model.layers.%d.linear"},
};

const ln_family ln_family_zamba2 = {
    .name = "zamba2",
    .defaults = "rms_norm_eps=1e-5|n_mamba_heads=8|mamba_ngroups=1|mamba_d_state=64|"
                "mamba_d_conv=4|time_step_min=0.001|max_position_embeddings=4096",
    .refused = "add_bias_linear",
    .activation = LN_ACT_GELU,
    .tied_by_default = true,
    .mixer = LN_MIXER_SSD,
    .mixer_norm_groups = true,
    .mixer_eps = 1e-5,
    .least_time_step = true,
    .shared_blocks = true,
    LN_BINDINGS(bindings),
};
