/* OLMoE: q and k normalised over all heads at once, a mixture of experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA_BUT_FFN, LN_LLAMA_QK_NORMS, LN_LLAMA_EXPERTS};

const ln_family ln_family_olmoe = {
    .name = "olmoe",
    .gguf = "olmoe",
    .defaults = "rms_norm_eps=1e-5|num_experts=64|num_experts_per_tok=8|norm_topk_prob=false",
    .qk_norm = LN_QK_NORM_FULL,
    LN_BINDINGS(bindings),
};
