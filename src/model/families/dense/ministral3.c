/* Ministral 3, Devstral 2 and their kin: llama with YaRN, whose queries grow with their position.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_ministral3 = {
    .name = "ministral3",
    .gguf = "mistral3",
    .defaults = "num_key_value_heads=8|head_dim=128|rms_norm_eps=1e-5",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .query_scale = LN_QUERY_SCALE_ALL,
    .window = LN_WINDOW_ALL,
    LN_BINDINGS(bindings),
};
