/* OLMo 2: norms stand behind the blocks, q and k are normalised over all heads at once. OLMo 3: the
 * same with three windowed layers to one that sees all; the windowed ones rotate without scaling.
 * In GGUF both have one name, and OLMo 3 has a window. FlexOlmo: OLMo 2 with experts. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_POST_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,
};

const ln_family ln_family_olmo2 = {
    .name = "olmo2",
    .hf_types = "olmo2|olmo3",
    .gguf = "olmo2",
    .defaults = "rms_norm_eps=1e-5|olmo3:rope_theta=500000|olmo3:sliding_window=4096",
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_FULL,
    .local_rope = true,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    LN_BINDINGS(bindings),
};

static const ln_binding flex_bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_POST_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_EXPERTS,
};

const ln_family ln_family_flex_olmo = {
    .name = "flex_olmo",
    .defaults = "rope_theta=500000|num_experts=7|num_experts_per_tok=5",
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_FULL,
    LN_BINDINGS(flex_bindings),
};
