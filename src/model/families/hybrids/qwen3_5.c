/* Qwen3.5 and its successors: three layers of four are gated delta nets, the others attention whose
 * output is gated. */
#include "model/families/hybrids/qwen3_next.h"

static const ln_binding bindings[] = {LN_QWEN3_NEXT_COMMON, LN_QWEN3_5_DELTA, LN_LLAMA_FFN};

const ln_family ln_family_qwen3_5 = {
    .name = "qwen3_5",
    .hf_types = "qwen3_5|qwen3_5_text",
    .gguf = "qwen35",
    .defaults = LN_QWEN3_NEXT_DEFAULTS "|num_key_value_heads=4",
    LN_QWEN3_NEXT_TRAITS,
    .gguf_tiled_heads = true,
    LN_BINDINGS(bindings),
};
