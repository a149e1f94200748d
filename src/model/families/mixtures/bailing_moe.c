/* Bailing MoE (Ling, Ring): q, k and v in one tensor, part of each head may rotate, q and k may be
 * normalised by head, a mixture of experts with shared ones; the second version routes by sigmoid,
 * with a bias that counts for the choice alone. Sarvam MoE is the second with other defaults. */
#include "model/families/bindings.h"

#define SPLIT(r, name)                                                                             \
    { .role = r, .hf = "model.layers.%d.self_attn." name, .gguf = "" }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.word_embeddings"},
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_QKV("model.layers.%d.attention.query_key_value", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.attention.dense"},
    LN_QK_NORMS("model.layers.%d.attention.", "query_layernorm", "key_layernorm"),
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%d.mlp.gate.expert_bias",
     .hf_bare = true,
     .optional = true},
    {.role = LN_ROLE_ROUTER_BIAS, .optional = true},
    /* Sarvam MoE, as transformers has it in memory */
    SPLIT(LN_ROLE_Q, "q_proj"),
    SPLIT(LN_ROLE_K, "k_proj"),
    SPLIT(LN_ROLE_V, "v_proj"),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.o_proj"},
    LN_LLAMA_QK_NORMS,
    LN_MEMORY_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_bailing_moe = {
    .name = "bailing_moe",
    .hf_types = "bailing_moe|bailing_moe_v2|sarvam_moe",
    .gguf = "bailingmoe2",
    .gguf_unnormed = "bailingmoe",
    .defaults = "bailing_moe_v2:score_function=sigmoid|bailing_moe_v2:use_qk_norm=true|"
                "sarvam_moe:score_function=sigmoid",
    .refused = "norm_head",
    .qk_norm = LN_QK_NORM_HEAD,
    .qk_norm_key = "use_qk_norm",
    .normalize_experts = true,
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};

static const ln_binding v1_bindings[] = {
    LN_LLAMA,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
};

/* The first version in GGUF, without q/k norms: q and k are permuted. */
const ln_family ln_family_bailing_moe_v1 = {
    .name = "bailing_moe_v1",
    .gguf = "bailingmoe",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_softmax_alone = true,
    .normalize_experts = true,
    .gguf_dense_first = true,
    LN_BINDINGS(v1_bindings),
};
