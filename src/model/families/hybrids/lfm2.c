/* LFM2: short convolutions between two gates, and attention in some layers. */
#include "model/families/hybrids/lfm2.h"

static const ln_binding bindings[] = {LN_LFM2_BINDINGS};

const ln_family ln_family_lfm2 = {
    .name = "lfm2",
    .gguf = "lfm2",
    .defaults = LN_LFM2_DEFAULTS
    "|block_auto_adjust_ff_dim=true|block_multiple_of=256|block_ffn_dim_multiplier=1",
    LN_LFM2_TRAITS,
    LN_BINDINGS(bindings),
};
