/* Qwen 4: three layers of four are gated delta nets, the others attention whose output is gated and
 * whose indexer chooses runs of tokens. Residual streams are gated, and some layers have embeddings
 * of hashed n-grams in front. Mixtures of experts as in Qwen3.5-MoE. GGUF files have whole numbers
 * of the hashes in their metadata, and one layer with n-grams at most. */
#include "model/families/hybrids/qwen3_next.h"

#define LAYER   "model.layers.%d."
#define INDEXER LAYER "self_attn.indexer."
#define NGRAMS  LAYER "ple."
#define HYPER(role_of, name)                                                                       \
    {.role = role_of##_NORM, .hf = name "hc_norm"},                                                \
        {.role = role_of##_LOW, .hf = name "input_mix_weight_down"}, {                             \
        .role = role_of##_GATE, .hf = name "input_mix_weight_up"                                   \
    }
/* Of folders; all experts in one tensor. */
#define PACKED(r, folder, file, part)                                                              \
    {                                                                                              \
        .role = r, .hf = LAYER "mlp.experts." folder, .gguf = "blk.%d." file, .hf_part = part,     \
        .hf_bare = true                                                                            \
    }
/* Whole numbers, which GGUF has in its metadata. */
#define HASH(r, name)                                                                              \
    { .role = r, .hf = NGRAMS "ple_embedding." name, .gguf = "", .hf_bare = true }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    HYPER(LN_ROLE_ATTENTION_HYPER, LAYER "attn_hyper_connection."),
    HYPER(LN_ROLE_FFN_HYPER, LAYER "mlp_hyper_connection."),
    HYPER(LN_ROLE_OUTPUT_HYPER, "model.hyper_connection_mixer."),
    {.role = LN_ROLE_ATTENTION_HYPER,
     .hf = LAYER "attn_hyper_connection.block_inject_weight",
     .gguf = "blk.%d.hc_attn_inject"},
    {.role = LN_ROLE_FFN_HYPER,
     .hf = LAYER "mlp_hyper_connection.block_inject_weight",
     .gguf = "blk.%d.hc_ffn_inject"},
    LN_QWEN3_NEXT_LAYER,
    LN_QWEN3_5_DELTA,
    {.role = LN_ROLE_INDEX_Q,
     .hf = INDEXER "index_qk_proj",
     .gguf = "blk.%d.indexer.q_proj",
     .hf_part = LN_PART_INDEX_QK},
    {.role = LN_ROLE_INDEX_K,
     .hf = INDEXER "index_qk_proj",
     .gguf = "blk.%d.indexer.k_proj",
     .hf_part = LN_PART_INDEX_QK},
    {.role = LN_ROLE_INDEX_Q_NORM, .hf = INDEXER "q_layernorm", .gguf = "blk.%d.indexer.q_norm"},
    {.role = LN_ROLE_INDEX_NORM, .hf = INDEXER "k_layernorm", .gguf = "blk.%d.indexer.k_norm"},
    {.role = LN_ROLE_NGRAM_EMBEDDING, .hf = NGRAMS "ple_embedding.ngram_embedding.shard_%e"},
    {.role = LN_ROLE_NGRAM_EMBEDDING, .hf = NGRAMS "ple_embedding.ngram_embedding"},
    HASH(LN_ROLE_NGRAM_FACTORS, "layer_multipliers"),
    HASH(LN_ROLE_NGRAM_SIZES, "ngram_heads_vocab_sizes"),
    HASH(LN_ROLE_NGRAM_BEGINS, "ngram_heads_offsets"),
    {.role = LN_ROLE_NGRAM_KEY, .hf = NGRAMS "key_proj"},
    {.role = LN_ROLE_NGRAM_VALUE, .hf = NGRAMS "value_proj"},
    {.role = LN_ROLE_NGRAM_KEY_NORM, .hf = NGRAMS "norm_key"},
    {.role = LN_ROLE_NGRAM_STREAM_NORM, .hf = NGRAMS "norm_query"},
    {.role = LN_ROLE_NGRAM_CONV_NORM, .hf = NGRAMS "norm_conv"},
    {.role = LN_ROLE_NGRAM_CONV, .hf = NGRAMS "conv1d"},
    LN_QWEN_SHARED_EXPERT,
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", "ffn_gate_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", "ffn_up_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", "ffn_down_exps", LN_PART_ALL),
    LN_LLAMA_EXPERTS,
};

const ln_family ln_family_qwen4_exp = {
    .name = "qwen4_exp",
    .gguf = "qwen4exp",
    .hf_types = "qwen4_exp|qwen4_exp_text",
    .defaults =
        LN_QWEN3_NEXT_DEFAULTS "|num_key_value_heads=2|num_experts_per_tok=10|num_experts=512|"
                               "moe_intermediate_size=512|shared_expert_intermediate_size=512|"
                               "hc_count=4|hc_lowrank=320",
    .norm = LN_NORM_RMS,
    .norms_add_one = true,
    .qk_norm = LN_QK_NORM_HEAD,
    .output_gate = LN_GATE_BY_ELEMENT,
    .mixer = LN_MIXER_DELTA,
    .mixer_word = "linear_attention",
    .gguf_tiled_heads = true,
    .gguf_sigmoid_gates = true,
    .indexer = true,
    .index_means = true,
    .gated_streams = true,
    .ngrams = true,
    .normalize_experts = true,
    .shared_gate = true,
    LN_BINDINGS(bindings),
};
