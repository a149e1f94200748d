/* Muse Glimmer: Gemma 2's blocks with norms of two epsilons, an embedding that is normalised, q and
 * k normalised without weights, attention's output gated by element, and every fourth layer,
 * counted from the last, without positions and windows. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_EMBEDDING_NORM, .bare = true},
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.gate_proj",
     .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_Q_NORM}, /* GGUF: the scale of scores, and ones */
    {.role = LN_ROLE_K_NORM},
    LN_LLAMA_FFN,
};

#define MUSE_BLOCKS                                                                                \
    .norm = LN_NORM_RMS_PLUS_ONE, .output_norm_is_rms = true, .placement = LN_PLACE_SANDWICH,      \
    .qk_norm = LN_QK_NORM_HEAD, .bare_qk_norm = true, .bare_everywhere = true,                     \
    .output_gate = LN_GATE_BY_ELEMENT, .rope_rule = LN_ROPE_LISTED, .window = LN_WINDOW_FROM_LAST, \
    .window_period = 4

const ln_family ln_family_muse_glimmer = {
    .name = "muse_glimmer",
    .gguf = "muse-glimmer",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_window_list = true,
    .gguf_post_eps = 1e-8,
    .hf_types = "muse_glimmer_text|muse_glimmer",
    MUSE_BLOCKS,
    .activation_key = "hidden_activation",
    LN_BINDINGS(bindings),
};

/* Muse Spark: Muse Glimmer with mixtures in fewer dimensions, each head's output normalised, and a
 * residual stream that is weighted. */
#define PACKED(role_of, name, part)                                                                \
    { .role = role_of, .hf = "model.layers.%d.mlp.experts." name, .hf_part = part, .hf_bare = true }

static const ln_binding spark_bindings[] = {
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", LN_PART_ALL),
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_EMBEDDING_NORM, .bare = true},
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "pre_feedforward_layernorm"),
    {.role = LN_ROLE_FFN_POST_NORM, .hf = "model.layers.%d.post_feedforward_layernorm"},
    {.role = LN_ROLE_ATTENTION_BLEND,
     .hf = "model.layers.%d.post_attention_residual_gate.gate",
     .hf_bare = true},
    {.role = LN_ROLE_FFN_BLEND,
     .hf = "model.layers.%d.post_feedforward_residual_gate.gate",
     .hf_bare = true},
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_ATTENTION_GATE, .hf = "model.layers.%d.self_attn.gate_proj"},
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    {.role = LN_ROLE_EXPERT_LATENT_IN, .hf = "model.layers.%d.mlp.pre_expert_proj"},
    {.role = LN_ROLE_EXPERT_LATENT_OUT, .hf = "model.layers.%d.mlp.post_expert_proj"},
    {.role = LN_ROLE_EXPERT_IN_NORM, .hf = "model.layers.%d.mlp.pre_expert_norm"},
    {.role = LN_ROLE_EXPERT_OUT_NORM, .hf = "model.layers.%d.mlp.experts.post_expert_norm"},
};

const ln_family ln_family_muse_spark = {
    .name = "muse_spark",
    .hf_types = "muse_spark_text|muse_spark",
    .defaults = "rope_theta=500000 unless rope_parameters",
    MUSE_BLOCKS,
    .activation_key = "hidden_act",
    .blends = true,
    LN_SIGMOID_ROUTER,
    LN_BINDINGS(spark_bindings),
};
