/* Baichuan: llama with q, k and v in one tensor; the 13B has ALiBi instead of rotation and, unlike
 * the 7B, no max_position_embeddings. Baichuan 2, which has 125,696 tokens, divides the output's
 * rows by their length. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_QKV("model.layers.%d.self_attn.W_pack", .hf_part = LN_PART_QKV),
    LN_LLAMA,
};

const ln_family ln_family_baichuan = {
    .name = "baichuan",
    .gguf = "baichuan",
    .positions = LN_POSITIONS_ALIBI,
    .rope_key = "max_position_embeddings",
    .gguf_alibi_layers = 40,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .unit_output_vocab = 125696,
    LN_BINDINGS(bindings),
};
