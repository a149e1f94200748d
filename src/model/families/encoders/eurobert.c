/* EuroBERT: a Llama whose tokens all see each other. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_eurobert = {
    .name = "eurobert",
    .hf_prefix = "model.",
    .defaults = "rms_norm_eps=1e-5",
    .bidirectional = true,
    .pooling = LINNET_POOLING_MEAN,
    LN_BINDINGS(bindings),
};
