/* Mistral 7B: llama with a sliding window on every layer. Its GGUF files call themselves llama. */
#include "model/family.h"

const ln_family ln_family_mistral = {
    .name = "mistral",
    .hf_types = "mistral",
    .gguf = NULL,
    .norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .qk_norm = LN_QK_NORM_NONE,
    .hf_rope = LN_ROPE_HALF,
    .window = LN_WINDOW_ALL,
    .bindings = ln_llama_bindings,
    .n_bindings = LN_N_LLAMA_BINDINGS,
};
