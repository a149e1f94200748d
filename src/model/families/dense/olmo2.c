/* OLMo 2: norms stand behind the blocks, q and k are normalised over all heads at once. OLMo 3: the
 * same with three windowed layers to one that sees all; the windowed ones rotate without scaling.
 * In GGUF both have one name, and OLMo 3 has a window. FlexOlmo: OLMo 2 with experts. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_POST_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,
};

static const ln_config_default defaults[] = {LN_DEFAULT("rms_norm_eps", 1e-5),
                                             LN_DEFAULT_OF("olmo3", "rope_theta", 500000),
                                             LN_DEFAULT_OF("olmo3", "sliding_window", 4096),
                                             {0}};

const ln_family ln_family_olmo2 = {
    .name = "olmo2",
    .hf_types = "olmo2|olmo3",
    .gguf = "olmo2",
    .defaults = defaults,
    .norm = LN_NORM_RMS,
    .gguf_norm = LN_NORM_RMS,
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_FULL,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_HALF,
    .local_rope = true,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    LN_BINDINGS(bindings),
};

static const ln_binding flex_bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_POST_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_EXPERTS,
};

static const ln_config_default flex_defaults[] = {LN_DEFAULT("rope_theta", 500000),
                                                  LN_DEFAULT("num_experts", 7),
                                                  LN_DEFAULT("num_experts_per_tok", 5),
                                                  {0}};

const ln_family ln_family_flex_olmo = {
    .name = "flex_olmo",
    .hf_types = "flex_olmo",
    .defaults = flex_defaults,
    .norm = LN_NORM_RMS,
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_FULL,
    .activation = LN_ACT_SILU,
    .hf_rope = LN_ROPE_HALF,
    .router = LN_ROUTER_SOFTMAX,
    LN_BINDINGS(flex_bindings),
};
