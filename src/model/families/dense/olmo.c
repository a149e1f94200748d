/* OLMo 1: llama with LayerNorms that have no weights; q, k and v may be clamped. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_OUTPUT_NORM, .bare = true},
    {.role = LN_ROLE_ATTENTION_NORM, .bare = true},
    {.role = LN_ROLE_FFN_NORM, .bare = true},
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_olmo = {
    .name = "olmo",
    .gguf = "olmo",
    .norm = LN_NORM_LAYER,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_clips = true,
    LN_BINDINGS(bindings),
};
