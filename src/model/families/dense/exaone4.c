/* EXAONE 4: norms stand behind the blocks, q and k are normalised by head; in models with windows
 * only windowed layers rotate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS, LN_LLAMA_POST_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,
};

const ln_family ln_family_exaone4 = {
    .name = "exaone4",
    .gguf = "exaone4",
    .defaults = "rms_norm_eps=1e-5|sliding_window=4096",
    .placement = LN_PLACE_POST,
    .qk_norm = LN_QK_NORM_HEAD,
    .rope_rule = LN_ROPE_WINDOWED_OR_ALL,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    LN_BINDINGS(bindings),
};
