/* LFM2: short convolutions between two gates, and attention in some layers. */
#include "model/families/hybrids/lfm2.h"

static const ln_binding bindings[] = {LN_LFM2_BINDINGS};

static const ln_config_default defaults[] = {LN_LFM2_DEFAULTS,
                                             LN_DEFAULT_FLAG("block_auto_adjust_ff_dim", true),
                                             LN_DEFAULT("block_multiple_of", 256),
                                             LN_DEFAULT("block_ffn_dim_multiplier", 1),
                                             {0}};

const ln_family ln_family_lfm2 = {
    .name = "lfm2",
    .hf_types = "lfm2",
    .gguf = "lfm2",
    .defaults = defaults,
    LN_LFM2_TRAITS,
    LN_BINDINGS(bindings),
};
