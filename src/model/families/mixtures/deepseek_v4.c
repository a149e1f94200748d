/* DeepSeek V4: several residual streams that mix; attention of one head of keys, which are its
 * values, to a window and to compressed entries before it; experts of the first layers by a table
 * of tokens. Folders have the names of DeepSeek's own files, but for what is outside of layers. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d."
/* As published, and as the transformers library calls it. */
#define BOTH(role_of, published, other)                                                            \
    {.role = role_of, .hf = LAYER published}, {                                                    \
        .role = role_of, .hf = LAYER other                                                         \
    }
#define BOTH_BARE(role_of, published, other)                                                       \
    {.role = role_of, .hf = LAYER published, .hf_bare = true}, {                                   \
        .role = role_of, .hf = LAYER other, .hf_bare = true                                        \
    }
#define COMPRESSOR(value, gate, bias, norm_of, published, other)                                   \
    BOTH(value, published "wkv", other "kv_proj"),                                                 \
        BOTH(gate, published "wgate", other "gate_proj"),                                          \
        BOTH_BARE(bias, published "ape", other "position_bias"),                                   \
        BOTH(norm_of, published "norm", other "kv_norm")
#define HYPER(role_of, published, other)                                                           \
    BOTH_BARE(role_of, published "fn", other "fn"),                                                \
        BOTH_BARE(role_of##_BASE, published "base", other "base"),                                 \
        BOTH_BARE(role_of##_SCALE, published "scale", other "scale")
#define HYPER_HEAD(role_of, word)                                                                  \
    {.role = role_of, .hf = "model.hc_head_" word, .hf_bare = true}, {                             \
        .role = role_of, .hf = "model.hc_head.hc_" word, .hf_bare = true                           \
    }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_EMBEDDING, .hf = "embed"},
    {.role = LN_ROLE_OUTPUT, .hf = "head"},
    BOTH(LN_ROLE_ATTENTION_NORM, "attn_norm", "input_layernorm"),
    BOTH(LN_ROLE_FFN_NORM, "ffn_norm", "post_attention_layernorm"),
    BOTH_BARE(LN_ROLE_SINKS, "attn.attn_sink", "self_attn.sinks"),
    BOTH(LN_ROLE_Q_A, "attn.wq_a", "self_attn.q_a_proj"),
    BOTH(LN_ROLE_Q_A_NORM, "attn.q_norm", "self_attn.q_a_norm"),
    BOTH(LN_ROLE_Q_B, "attn.wq_b", "self_attn.q_b_proj"),
    {.role = LN_ROLE_K, .hf = LAYER "attn.wkv", .gguf = "blk.%d.attn_kv"},
    {.role = LN_ROLE_K, .hf = LAYER "self_attn.kv_proj", .gguf = ""},
    {.role = LN_ROLE_K_NORM, .hf = LAYER "attn.kv_norm", .gguf = "blk.%d.attn_kv_a_norm"},
    {.role = LN_ROLE_K_NORM, .hf = LAYER "self_attn.kv_norm", .gguf = ""},
    {.role = LN_ROLE_K_NORM, .hf = LAYER "attn.norm", .gguf = ""},
    /* as saved by the transformers library */
    BOTH(LN_ROLE_O_GROUPS, "attn.wo_a", "self_attn.o_a_proj"),
    {.role = LN_ROLE_O, .hf = LAYER "attn.wo_b", .gguf = "blk.%d.attn_output_b"},
    {.role = LN_ROLE_O, .hf = LAYER "self_attn.o_b_proj", .gguf = ""},
    COMPRESSOR(LN_ROLE_COMPRESS_VALUE, LN_ROLE_COMPRESS_GATE, LN_ROLE_COMPRESS_BIAS,
               LN_ROLE_COMPRESS_NORM, "attn.compressor.", "self_attn.compressor."),
    COMPRESSOR(LN_ROLE_INDEX_VALUE, LN_ROLE_INDEX_GATE, LN_ROLE_INDEX_BIAS, LN_ROLE_INDEX_NORM,
               "attn.indexer.compressor.", "self_attn.compressor.indexer."),
    BOTH(LN_ROLE_INDEX_Q, "attn.indexer.wq_b", "self_attn.compressor.indexer.q_b_proj"),
    BOTH(LN_ROLE_INDEX_WEIGHTS, "attn.indexer.weights_proj",
         "self_attn.compressor.indexer.scorer.weights_proj"),
    HYPER(LN_ROLE_ATTENTION_HYPER, "hc_attn_", "attn_hc."),
    HYPER(LN_ROLE_FFN_HYPER, "hc_ffn_", "ffn_hc."),
    HYPER_HEAD(LN_ROLE_OUTPUT_HYPER, "fn"),
    HYPER_HEAD(LN_ROLE_OUTPUT_HYPER_BASE, "base"),
    HYPER_HEAD(LN_ROLE_OUTPUT_HYPER_SCALE, "scale"),
    BOTH_BARE(LN_ROLE_ROUTER, "ffn.gate.weight", "mlp.gate.weight"),
    /* whose bias is another's */
    BOTH_BARE(LN_ROLE_ROUTER_BIAS, "ffn.gate.bias", "mlp.gate.e_score_correction_bias"),
    BOTH_BARE(LN_ROLE_HASH_EXPERTS, "ffn.gate.tid2eid", "mlp.gate.tid2eid"),
    LN_EXPERTS(LAYER "ffn.experts.%e.", "w1", "w3", "w2"),
    LN_STACKED_EXPERTS(LAYER "mlp.experts."),
    BOTH(LN_ROLE_SHARED_GATE, "ffn.shared_experts.w1", "mlp.shared_experts.gate_proj"),
    BOTH(LN_ROLE_SHARED_UP, "ffn.shared_experts.w3", "mlp.shared_experts.up_proj"),
    BOTH(LN_ROLE_SHARED_DOWN, "ffn.shared_experts.w2", "mlp.shared_experts.down_proj"),
};

#define LIMITS .limits_before = true, .limits_shared = true

const ln_family ln_family_deepseek_v4 = {
    .name = "deepseek_v4",
    .gguf = "deepseek4",
    .hf_prefix = "model.",
    LN_INTERLEAVED_ROPE,
    .local_rope = true,
    .window_unlisted = true,
    .router = LN_ROUTER_ROOT_SOFTPLUS,
    .normalize_experts = true,
    .keeps_expert_weights = true,
    .sinks = true,
    .hyper = true,
    .mixes_streams = true,
    LIMITS,
    .limit_lists = true,
    .compressed_attention = true,
    .hash_routing = true,
    LN_BINDINGS(bindings),
};
