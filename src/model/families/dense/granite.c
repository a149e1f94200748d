/* Granite 3: llama with multipliers on embedding, attention, residual and logits. HyperCLOVA X: the
 * same, whose logits are multiplied, with norms behind the blocks, too. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_granite = {
    .name = "granite",
    .hf_types = "granite|granite4_vision_text|granite_docling_text",
    .gguf = "granite",
    .defaults = "attention_multiplier=1",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .divide_logits = true,
    LN_BINDINGS(bindings),
};

static const ln_binding clova_bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_ATTENTION_POST_NORM, .hf = "model.layers.%d.post_norm1", .optional = true},
    {.role = LN_ROLE_FFN_POST_NORM, .hf = "model.layers.%d.post_norm2", .optional = true},
};

const ln_family ln_family_hyperclovax = {
    .name = "hyperclovax",
    .placement = LN_PLACE_SANDWICH,
    LN_BINDINGS(clova_bindings),
};
