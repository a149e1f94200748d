/* Mamba 2: recurrent layers alone. */
#include "model/families/mamba2.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "backbone.embeddings", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "backbone.norm_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "backbone.layers.%d.norm", .gguf = "blk.%d.attn_norm"},
    LN_MAMBA2_MIXER("backbone.layers.%d.mixer"),
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_heads", 128),
                                             LN_DEFAULT("head_dim", 64),
                                             LN_DEFAULT("state_size", 128),
                                             LN_DEFAULT("n_groups", 8),
                                             LN_DEFAULT("conv_kernel", 4),
                                             LN_DEFAULT("layer_norm_epsilon", 1e-5),
                                             LN_DEFAULT("max_position_embeddings", 1 << 20),
                                             {0}};

const ln_family ln_family_mamba2 = {
    .name = "mamba2",
    .hf_types = "mamba2",
    .gguf = "mamba2",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .positions = LN_POSITIONS_NONE,
    .mixer = LN_MIXER_SSD,
    .one_block = true,
    .mixer_norm_groups = true,
    LN_BINDINGS(bindings),
};
