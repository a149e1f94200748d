/* Helium: llama whose neighbours rotate. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

static const ln_config_default defaults[] = {LN_DEFAULT("num_key_value_heads", 20),
                                             LN_DEFAULT("head_dim", 128),
                                             LN_DEFAULT("rms_norm_eps", 1e-8),
                                             LN_DEFAULT("rope_theta", 100000),
                                             {0}};

const ln_family ln_family_helium = {
    .name = "helium",
    .hf_types = "helium",
    .gguf_as = "llama",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};
