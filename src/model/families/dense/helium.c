/* Helium: llama whose neighbours rotate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_helium = {
    .name = "helium",
    .gguf_as = "llama",
    .defaults = "num_key_value_heads=20|head_dim=128|rms_norm_eps=1e-8|rope_theta=100000",
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};
