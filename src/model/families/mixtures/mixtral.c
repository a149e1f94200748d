/* Mixtral: mistral with a mixture of experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_MIXTRAL_EXPERTS,
};

const ln_family ln_family_mixtral = {
    .name = "mixtral",
    .gguf_as = "llama",
    .defaults = "num_key_value_heads=8|rope_theta=1e6|rms_norm_eps=1e-5|num_local_experts=8|"
                "num_experts_per_tok=2",
    .window = LN_WINDOW_ALL,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};
