/* Qwen3.5 and its successors: three layers of four are gated delta nets, the others attention whose
 * output is gated. */
#include "model/families/hybrids/qwen3_next.h"

static const ln_binding bindings[] = {LN_QWEN3_NEXT_COMMON, LN_QWEN3_5_DELTA, LN_LLAMA_FFN};

static const ln_config_default defaults[] = {
    LN_QWEN3_NEXT_DEFAULTS, LN_DEFAULT("num_key_value_heads", 4), {0}};

const ln_family ln_family_qwen3_5 = {
    .name = "qwen3_5",
    .hf_types = "qwen3_5|qwen3_5_text",
    .gguf = "qwen35",
    .defaults = defaults,
    LN_QWEN3_NEXT_TRAITS,
    .gguf_tiled_heads = true,
    LN_BINDINGS(bindings),
};
