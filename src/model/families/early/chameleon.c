/* Chameleon: llama whose q and k have a LayerNorm for each head, and whose image tokens are
 * suppressed. The larger model has norms behind its blocks, by the names of those before them. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_ATTENTION_POST_NORM,
     .hf = "model.layers.%d.input_layernorm",
     .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_FFN_POST_NORM,
     .hf = "model.layers.%d.post_attention_layernorm",
     .gguf = "blk.%d.ffn_norm"},
    LN_LLAMA_QK_NORMS,
};

const ln_family ln_family_chameleon = {
    .name = "chameleon",
    .gguf = "chameleon",
    .defaults = "rms_norm_eps=1e-5|max_position_embeddings=4096",
    .norm_post_key = "swin_norm",
    .qk_norm = LN_QK_NORM_OWN,
    .qk_layer_norm = true,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .suppressed_prefix = "IMGIMG",
    LN_BINDINGS(bindings),
};
