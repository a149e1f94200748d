/* Mistral 7B: llama with a sliding window on every layer. Its GGUF files call themselves llama. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA, LN_CLASS_SCORE};

const ln_family ln_family_mistral = {
    .name = "mistral",
    .hf_types = "mistral|ministral|cwm",
    .gguf_as = "llama",
    .hf_prefix = "model.",
    .defaults =
        "num_key_value_heads=8|cwm:sliding_window=8192|cwm:rms_norm_eps=1e-5|"
        "cwm:head_dim=128|cwm:layer_types=full_attention,sliding_attention,sliding_attention,"
        "sliding_attention|sliding_window=4096",
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    .window = LN_WINDOW_ALL,
    LN_BINDINGS(bindings),
};
