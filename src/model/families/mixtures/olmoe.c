/* OLMoE: q and k normalised over all heads at once, a mixture of experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_EXPERTS,
};

static const ln_config_default defaults[] = {LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT("num_experts", 64),
                                             LN_DEFAULT("num_experts_per_tok", 8),
                                             LN_DEFAULT_FLAG("norm_topk_prob", false),
                                             {0}};

const ln_family ln_family_olmoe = {
    .name = "olmoe",
    .hf_types = "olmoe",
    .gguf = "olmoe",
    .defaults = defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .qk_norm = LN_QK_NORM_FULL,
    .router = LN_ROUTER_SOFTMAX,
    LN_BINDINGS(bindings),
};
