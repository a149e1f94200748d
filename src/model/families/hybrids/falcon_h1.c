/* Falcon-H1: every layer has attention and a Mamba 2 mixer beside one another. Folders multiply
 * what matrices read and give with numbers, which the weights of GGUF files contain. */
#include "model/families/mamba2.h"

#define LAYER "model.layers.%d"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_layernorm", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".input_layernorm", .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = LAYER ".pre_ff_layernorm",
     .gguf = "blk.%d.ffn_norm",
     .gguf_bare = true},
    LN_LLAMA_ATTENTION,
    LN_MAMBA2_MIXER(LAYER ".mamba"),
    {.role = LN_ROLE_GATE, .hf = LAYER ".feed_forward.gate_proj", .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_UP, .hf = LAYER ".feed_forward.up_proj", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = LAYER ".feed_forward.down_proj", .gguf = "blk.%d.ffn_down"},
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_key_value_heads", 8),
                                             LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT("max_position_embeddings", 8192),
                                             LN_DEFAULT("mamba_n_heads", 128),
                                             LN_DEFAULT("mamba_n_groups", 1),
                                             LN_DEFAULT("mamba_d_state", 256),
                                             LN_DEFAULT("mamba_d_conv", 4),
                                             LN_DEFAULT("mamba_d_ssm", 1024),
                                             LN_DEFAULT_FLAG("mamba_rms_norm", false),
                                             LN_DEFAULT_FLAG("mamba_norm_before_gate", true),
                                             {0}};

const ln_family ln_family_falcon_h1 = {
    .name = "falcon_h1",
    .hf_types = "falcon_h1",
    .gguf = "falcon-h1",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .mixer = LN_MIXER_SSD,
    .mixers_beside = true,
    .gguf_folds_scales = true,
    .mixer_norm_groups = true,
    LN_BINDINGS(bindings),
};
