/* OpenELM: layers differ in heads and in how wide their feed-forwards are; norms of queries and
 * keys. */
#include "model/families/bindings.h"

#define LAYER "transformer.layers.%d."

static const ln_binding bindings[] = {
    LN_ENDS("transformer.token_embeddings", "transformer.norm", "lm_head"),
    LN_BLOCK_NORMS(LAYER, "attn_norm", "ffn_norm"),
    LN_QKV(LAYER "attn.qkv_proj", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    LN_QK_NORMS(LAYER "attn.", "q_norm", "k_norm"),
    {.role = LN_ROLE_O, .hf = LAYER "attn.out_proj"},
    LN_GATE_UP(LAYER "ffn.proj_1", .hf_part = LN_PART_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = LAYER "ffn.proj_2"},
};

const ln_family ln_family_openelm = {
    .name = "openelm",
    .gguf = "openelm",
    .refused = "!ffn_with_glu|!normalize_qk_projections|!share_input_output_layers",
    .qk_norm = LN_QK_NORM_HEAD,
    .by_layer = true,
    .lists_alone = true,
    .lists_widths = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
