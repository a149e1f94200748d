/* Mistral Large 4: DeepSeek V3.2's attention without a latent of queries, which each head scales by
 * the logarithm of their position; frequencies that are learned, and layers without positions. */
#include "model/families/latent.h"

#define LAYER     "layers.%d."
#define ATTENTION LAYER "attention."
#define INDEXER   ATTENTION "indexer."
/* As transformers has it in memory. */
#define MODULE "model.layers.%d.self_attn."
#define LOG_SCALES(scale, bias, module)                                                            \
    {.role = scale, .hf = module "softmax_scaling.scale", .hf_bare = true}, {                      \
        .role = bias, .hf = module "softmax_scaling.bias", .hf_bare = true                         \
    }

static const ln_binding bindings[] = {
    LN_ENDS("tok_embeddings", "norm", "output"),
    {.role = LN_ROLE_ROPE_ALPHA, .hf = "lerope.alpha", .hf_bare = true, .optional = true},
    LN_BLOCK_NORMS(LAYER, "attention_norm", "ffn_norm"),
    {.role = LN_ROLE_Q, .hf = ATTENTION "wq"},
    {.role = LN_ROLE_KV_A, .hf = ATTENTION "wkv_a_with_mqa"},
    {.role = LN_ROLE_KV_A_NORM, .hf = ATTENTION "kv_a_norm"},
    {.role = LN_ROLE_K_B, .hf = ATTENTION "wkv_b", .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_V_B, .hf = ATTENTION "wkv_b", .hf_part = LN_PART_KV_BY_HEAD},
    {.role = LN_ROLE_O, .hf = ATTENTION "wo"},
    {.role = LN_ROLE_Q_LOG_SCALE, .hf = ATTENTION "ssmax_scaling.s", .hf_bare = true},
    {.role = LN_ROLE_Q_LOG_BIAS, .hf = ATTENTION "ssmax_scaling.b", .hf_bare = true},
    {.role = LN_ROLE_INDEX_Q_NORM, .hf = INDEXER "q_input_norm"},
    {.role = LN_ROLE_INDEX_Q, .hf = INDEXER "wq_b"},
    {.role = LN_ROLE_INDEX_K, .hf = INDEXER "wk"},
    {.role = LN_ROLE_INDEX_K_NORM, .hf = INDEXER "k_norm"},
    {.role = LN_ROLE_INDEX_WEIGHTS, .hf = INDEXER "weights_proj"},
    {.role = LN_ROLE_INDEX_LOG_SCALE, .hf = INDEXER "ssmax_scaling.s", .hf_bare = true},
    {.role = LN_ROLE_INDEX_LOG_BIAS, .hf = INDEXER "ssmax_scaling.b", .hf_bare = true},
    LN_GATED_FFN(LAYER "feed_forward.", "w1", "w3", "w2"),
    {.role = LN_ROLE_ROUTER, .hf = LAYER "gate"},
    LN_EXPERTS(LAYER "experts.%e.", "w1", "w3", "w2"),
    LN_SHARED(LAYER "shared_experts.", "w1", "w3", "w2"),
    /* as transformers has them in memory */
    LN_LLAMA,
    LN_LATENT_ATTENTION,
    {.role = LN_ROLE_ROPE_ALPHA, .hf = "model.rotary_emb.alpha", .hf_bare = true},
    LOG_SCALES(LN_ROLE_Q_LOG_SCALE, LN_ROLE_Q_LOG_BIAS, MODULE),
    {.role = LN_ROLE_INDEX_Q_NORM, .hf = MODULE "indexer.q_input_norm"},
    {.role = LN_ROLE_INDEX_Q, .hf = MODULE "indexer.wq_b"},
    {.role = LN_ROLE_INDEX_K, .hf = MODULE "indexer.wk"},
    {.role = LN_ROLE_INDEX_K_NORM, .hf = MODULE "indexer.k_norm"},
    {.role = LN_ROLE_INDEX_WEIGHTS, .hf = MODULE "indexer.weights_proj"},
    LOG_SCALES(LN_ROLE_INDEX_LOG_SCALE, LN_ROLE_INDEX_LOG_BIAS, MODULE "indexer."),
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
};

const ln_family ln_family_mistral_large4 = {
    .name = "mistral_large4",
    .hf_types = "mistral_large4_text|mistral_large4",
    .defaults = "rope_parameters.rope_type=yarn unless rope_parameters|"
                "rope_parameters.factor=2048 unless rope_parameters|"
                "rope_parameters.original_max_position_embeddings=512 unless rope_parameters|"
                "rope_parameters.attention_factor=1 unless rope_parameters",
    .hf_rope = LN_ROPE_INTERLEAVED,
    .rope_rule = LN_ROPE_LISTED_LAYERS,
    .query_scale = LN_QUERY_SCALE_LOG,
    .group_by_two = true,
    .zero_other_groups = true,
    .normalize_experts = true,
    .keeps_expert_weights = true,
    .indexer = true,
    .index_rope = LN_ROPE_INTERLEAVED,
    .plain_latents = true,
    LN_BINDINGS(bindings),
};
