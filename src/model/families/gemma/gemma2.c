/* Gemma 2: norms before and after each block, soft-capped scores and logits, every other layer
 * windowed. VaultGemma: the same without the norms behind blocks. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

static const char defaults[] = "head_dim=256|num_key_value_heads=4|query_pre_attn_scalar=256|"
                               "attn_logit_softcapping=50|final_logit_softcapping=30|"
                               "sliding_window=4096";

const ln_family ln_family_gemma2 = {
    .name = "gemma2",
    .gguf = "gemma2",
    .defaults = defaults,
    .refused = "use_bidirectional_attention",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .placement = LN_PLACE_SANDWICH,
    .activation = LN_ACT_GELU_TANH,
    .activation_key = "hidden_activation",
    .caps_scores = true,
    .window = LN_WINDOW_PERIOD,
    .window_period = 2,
    .gguf_scale_layers = 46, /* the 27B; its files do not say it */
    .scale_embedding = true,
    LN_BINDINGS(bindings),
};

static const ln_binding vault_bindings[] = {
    LN_LLAMA_ENDS,
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "pre_feedforward_layernorm"),
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_vaultgemma = {
    .name = "vaultgemma",
    .defaults = defaults,
    .norm = LN_NORM_RMS_PLUS_ONE,
    .activation = LN_ACT_GELU_TANH,
    .activation_key = "hidden_activation",
    .caps_scores = true,
    .window = LN_WINDOW_PERIOD,
    .window_period = 2,
    .scale_embedding = true,
    .tied_by_default = true,
    LN_BINDINGS(vault_bindings),
};
