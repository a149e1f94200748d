/* The text side of Qwen 3 VL: qwen3, whose three positions of a token are one for text. That of
 * Molmo 2: qwen3 under other names, with a second table for tokens of pictures. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    /* of Cosmos 3 Omni as it is published */
    LN_ATTENTION("model.layers.%d.self_attn.", "to_q", "to_k", "to_v", "to_out"),
    LN_QK_NORMS("model.layers.%d.self_attn.", "norm_q", "norm_k"),
};

const ln_family ln_family_qwen3_vl = {
    .name = "qwen3_vl",
    .hf_types = "qwen3_vl|qwen3_vl_text",
    .gguf = "qwen3vl",
    .hf_prefix = "model.",
    .defaults = "head_dim=128|rope_theta=500000",
    .qk_norm = LN_QK_NORM_HEAD,
    LN_BINDINGS(bindings),
};

#define MOLMO2(r, name, part)                                                                      \
    { .role = r, .hf = "model.transformer.blocks.%d." name, .hf_part = part }

static const ln_binding molmo2_bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.transformer.wte.embedding", .hf_bare = true},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.transformer.ln_f"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    MOLMO2(LN_ROLE_ATTENTION_NORM, "attn_norm", LN_PART_ALL),
    MOLMO2(LN_ROLE_FFN_NORM, "ff_norm", LN_PART_ALL),
    MOLMO2(LN_ROLE_Q, "self_attn.att_proj", LN_PART_QKV),
    MOLMO2(LN_ROLE_K, "self_attn.att_proj", LN_PART_QKV),
    MOLMO2(LN_ROLE_V, "self_attn.att_proj", LN_PART_QKV),
    MOLMO2(LN_ROLE_Q_NORM, "self_attn.q_norm", LN_PART_ALL),
    MOLMO2(LN_ROLE_K_NORM, "self_attn.k_norm", LN_PART_ALL),
    MOLMO2(LN_ROLE_O, "self_attn.attn_out", LN_PART_ALL),
    MOLMO2(LN_ROLE_GATE, "mlp.ff_proj", LN_PART_UP_GATE),
    MOLMO2(LN_ROLE_UP, "mlp.ff_proj", LN_PART_UP_GATE),
    MOLMO2(LN_ROLE_DOWN, "mlp.ff_out", LN_PART_ALL),
    /* as transformers has them in memory, and adapters name them; both tables are one */
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens", .hf_part = LN_PART_BEFORE_PADDING},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
};

const ln_family ln_family_molmo2 = {
    .name = "molmo2",
    .hf_types = "molmo2|molmo2_text",
    .ignored = "model.transformer.wte.new_embedding",
    .defaults = "head_dim=128|num_key_value_heads=8|additional_vocab_size=128",
    .refused = "norm_after",
    .added_key = "additional_vocab_size",
    .qk_norm = LN_QK_NORM_HEAD,
    LN_BINDINGS(molmo2_bindings),
};
