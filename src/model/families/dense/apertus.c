/* Apertus: q and k normalised by head, xIELU without a gate. Apertus 1.5 embeds pictures and sounds
 * as tokens behind those that it writes. */
#include "model/families/bindings.h"

#define BINDINGS                                                                                   \
    LN_LLAMA_ENDS,                                                                                 \
        LN_BLOCK_NORMS("model.layers.%d.", "attention_layernorm", "feedforward_layernorm"),        \
        LN_LLAMA_ATTENTION, LN_LLAMA_QK_NORMS,                                                     \
        LN_PLAIN_FFN("model.layers.%d.mlp.", "up_proj", "down_proj")

static const ln_binding bindings[] = {BINDINGS};

static const ln_binding multimodal_bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens", .hf_part = LN_PART_BEFORE_PADDING},
    BINDINGS,
};

const ln_family ln_family_apertus = {
    .name = "apertus",
    .gguf = "apertus",
    .defaults = "rope_theta=12000000|rms_norm_eps=1e-5",
    LN_NO_GATE(LN_ACT_NONE),
    .qk_norm = LN_QK_NORM_HEAD,
    .xielu = true,
    LN_BINDINGS(bindings),
};

const ln_family ln_family_apertus1p5 = {
    .name = "apertus1p5",
    .hf_types = "apertus1p5|apertus1p5_text",
    .unpadded_key = "output_vocab_size",
    .defaults = "rope_theta=12000000|rms_norm_eps=1e-5",
    LN_NO_GATE(LN_ACT_NONE),
    .qk_norm = LN_QK_NORM_HEAD,
    .xielu = true,
    LN_BINDINGS(multimodal_bindings),
};
