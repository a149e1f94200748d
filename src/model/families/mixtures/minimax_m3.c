/* MiniMax M3: Gemma's norms, gpt-oss's SwiGLU, a mixture of experts chosen by sigmoid and bias, and
 * attention that in some layers sees the best blocks of the context alone; contexts of no more
 * blocks run, which all layers see whole. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d."
/* As published, and as the transformers library calls it. */
#define INDEXER(r, name)                                                                           \
    {.role = r, .hf = LAYER "self_attn.index_" name, .gguf = "blk.%d.indexer." name}, {            \
        .role = r, .hf = LAYER "self_attn.indexer." name, .gguf = ""                               \
    }
#define PACKED(r, name, p, is_bare)                                                                \
    { .role = r, .hf = "model.layers.%d.mlp." name, .hf_part = p, .hf_bare = is_bare }

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ROUTER, .hf = LAYER "block_sparse_moe.gate"},
    LN_EXPERTS(LAYER "block_sparse_moe.experts.%e.", "w1", "w3", "w2"),
    LN_SHARED_EXPERTS("block_sparse_moe.shared_experts"),
    LN_EXPERT_BIAS("block_sparse_moe.e_score_correction_bias"),
    INDEXER(LN_ROLE_INDEX_Q, "q_proj"),
    INDEXER(LN_ROLE_INDEX_K, "k_proj"),
    INDEXER(LN_ROLE_INDEX_Q_NORM, "q_norm"),
    INDEXER(LN_ROLE_INDEX_K_NORM, "k_norm"),
    PACKED(LN_ROLE_GATE, "gate_up_proj", LN_PART_GATE_UP, false),
    PACKED(LN_ROLE_UP, "gate_up_proj", LN_PART_GATE_UP, false),
    PACKED(LN_ROLE_DOWN, "down_proj", LN_PART_ALL, false),
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate"},
    PACKED(LN_ROLE_EXPERT_GATE, "experts.gate_up_proj", LN_PART_GATE_UP, true),
    PACKED(LN_ROLE_EXPERT_UP, "experts.gate_up_proj", LN_PART_GATE_UP, true),
    PACKED(LN_ROLE_EXPERT_DOWN, "experts.down_proj", LN_PART_ALL, true),
    PACKED(LN_ROLE_SHARED_GATE, "shared_experts.gate_up_proj", LN_PART_GATE_UP, false),
    PACKED(LN_ROLE_SHARED_UP, "shared_experts.gate_up_proj", LN_PART_GATE_UP, false),
    PACKED(LN_ROLE_SHARED_DOWN, "shared_experts.down_proj", LN_PART_ALL, false),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_minimax_m3 = {
    .name = "minimax_m3",
    .gguf = "minimax-m3",
    .hf_types = "minimax_m3_vl_text|minimax_m3_vl",
    .defaults = "rope_theta=5000000",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .activation = LN_ACT_SWIGLU_CLAMPED,
    .fixed_activation = true,
    .rope_by_fraction = true,
    .qk_norm = LN_QK_NORM_HEAD,
    .sparse_blocks = true,
    LN_SIGMOID_ROUTER,
    .gguf_dense_first = true,
    .first_hidden_key = "dense_intermediate_size",
    LN_BINDINGS(bindings),
};
