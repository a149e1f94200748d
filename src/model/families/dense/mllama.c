/* Llama 3.2 Vision's text model: Llama 3, and between its layers others that read pictures. Eight
 * tokens more are embedded than written. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens", .hf_part = LN_PART_BEFORE_EMBEDDED},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_FFN,
};

const ln_family ln_family_mllama = {
    .name = "mllama",
    .hf_types = "mllama_text_model|mllama",
    .n_only_embedded = 8,
    .idle_layers_key = "cross_attention_layers",
    LN_BINDINGS(bindings),
};
