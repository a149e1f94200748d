/* DeepSeek V2 and V3: latent attention, a mixture of experts with shared ones, dense first layers.
 * V3 routes by sigmoid, with a bias that counts for the choice alone. GLM 4.7 Flash is V3 with
 * other defaults, Youtu without experts. Mistral 4 routes by softmax, and its queries grow with
 * their position. */
#include "model/families/latent.h"

#define BINDINGS                                                                                   \
    LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION, LN_LLAMA_FFN, LN_LATENT_ATTENTION,          \
        LN_LLAMA_EXPERTS,                                                                          \
        LN_SHARED("model.layers.%d.mlp.shared_experts.", "gate_proj", "up_proj", "down_proj")

static const ln_binding v2_bindings[] = {
    BINDINGS,
    {.role = LN_ROLE_ROUTER_BIAS, .optional = true},
    LN_HEAD_BINDINGS,
};

const ln_family ln_family_deepseek_v2 = {
    .name = "deepseek_v2",
    .gguf = "deepseek2",
    .defaults = "kv_lora_rank=512|q_lora_rank=1536|qk_nope_head_dim=128|qk_rope_head_dim=64|"
                "v_head_dim=128|n_shared_experts=2",
    LN_INTERLEAVED_ROPE,
    .keeps_expert_weights = true,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    .gguf_bias_is_sigmoid = true,
    LN_BINDINGS(v2_bindings),
};

static const ln_binding v3_bindings[] = {
    BINDINGS,
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    LN_HEAD_BINDINGS,
};

const ln_family ln_family_deepseek_v3 = {
    .name = "deepseek_v3",
    .hf_types = "deepseek_v3|kimi_k2|kimi_k25",
    .gguf_as = "deepseek2",
    .defaults = "kv_lora_rank=512|q_lora_rank=1536|qk_nope_head_dim=128|qk_rope_head_dim=64|"
                "v_head_dim=128|n_shared_experts=1|n_routed_experts=256|num_experts_per_tok=8|"
                "n_group=8|topk_group=4|routed_scaling_factor=2.5|first_k_dense_replace=3",
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    LN_BINDINGS(v3_bindings),
};

/* Sarvam MLA: V3 with other defaults, and no latents of queries unless config.json says so. */
const ln_family ln_family_sarvam_mla = {
    .name = "sarvam_mla",
    .gguf_as = "deepseek2",
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    LN_BINDINGS(v3_bindings),
};

/* A.X K1: V3 with a norm behind each mixture. */
static const ln_binding axk1_bindings[] = {
    BINDINGS,
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
    {.role = LN_ROLE_FFN_POST_NORM, .hf = "model.layers.%d.post_mlp_layernorm", .optional = true},
    {.role = LN_ROLE_FFN_POST_NORM,
     .hf = "model.layers.%d.mlp.post_mlp_layernorm",
     .optional = true},
    LN_HEAD_BINDINGS,
};

const ln_family ln_family_axk1 = {
    .name = "axk1",
    .defaults = "kv_lora_rank=512|q_lora_rank=1536|qk_nope_head_dim=128|qk_rope_head_dim=64|"
                "v_head_dim=128|n_shared_experts=1|n_routed_experts=192|num_experts_per_tok=8|"
                "n_group=8|topk_group=4|routed_scaling_factor=2.5|first_k_dense_replace=1",
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .latent_eps = 1e-6,
    LN_BINDINGS(axk1_bindings),
};

const ln_family ln_family_glm4_moe_lite = {
    .name = "glm4_moe_lite",
    .gguf_as = "deepseek2",
    .defaults = "kv_lora_rank=512|q_lora_rank=768|qk_nope_head_dim=192|qk_rope_head_dim=64|"
                "v_head_dim=256|rms_norm_eps=1e-5|n_shared_experts=1|n_routed_experts=64|"
                "num_experts_per_tok=4|moe_intermediate_size=1536|routed_scaling_factor=1.8|"
                "first_k_dense_replace=1",
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    LN_BINDINGS(v3_bindings),
};

/* MiniCPM 3, dense; its files hold what makes keys and values as it is. */
#define KV_B(r)                                                                                    \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.self_attn.kv_b_proj", .gguf = "blk.%d.attn_kv_b",        \
        .hf_part = LN_PART_KV_BY_HEAD, .gguf_part = LN_PART_KV_BY_HEAD                             \
    }

static const ln_binding minicpm3_bindings[] = {
    KV_B(LN_ROLE_K_B),  KV_B(LN_ROLE_V_B), LN_LLAMA_ENDS,       LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION, LN_LLAMA_FFN,      LN_LATENT_ATTENTION,
};

const ln_family ln_family_minicpm3 = {
    .name = "minicpm3",
    .gguf = "minicpm3",
    .defaults = "kv_lora_rank=256|q_lora_rank=768|qk_nope_head_dim=64|qk_rope_head_dim=32|"
                "rms_norm_eps=1e-5|scale_emb=12|scale_depth=1.4|dim_model_base=256",
    .scale_by_depth = true,
    .gguf_fixed_scales = true,
    .latent_eps = 1e-6,
    .tied_by_default = true,
    LN_BINDINGS(minicpm3_bindings),
};

/* PLM: dense, no latents of queries, a feed-forward without gate. */
static const ln_binding plm_bindings[] = {
    KV_B(LN_ROLE_K_B),   KV_B(LN_ROLE_V_B),
    LN_LLAMA_BUT_FFN,    LN_PLAIN_FFN("model.layers.%d.mlp.", "up_proj", "down_proj"),
    LN_LATENT_ATTENTION,
};

const ln_family ln_family_plm = {
    .name = "plm",
    .gguf = "plm",
    .defaults = "kv_lora_rank=512|qk_nope_head_dim=128|qk_rope_head_dim=64|v_head_dim=128",
    LN_INTERLEAVED_ROPE,
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    .latent_eps = 1e-6,
    .tied_by_default = true,
    LN_BINDINGS(plm_bindings),
};

const ln_family ln_family_youtu = {
    .name = "youtu",
    .gguf_as = "deepseek2",
    .defaults = "kv_lora_rank=512|q_lora_rank=1536|qk_nope_head_dim=128|qk_rope_head_dim=64|"
                "v_head_dim=128",
    .hf_rope = LN_ROPE_INTERLEAVED,
    .latent_eps = 1e-6,
    .tied_by_default = true,
    LN_BINDINGS(v3_bindings),
};

#define PACKED(r, name, gguf_name, part)                                                           \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.mlp.experts." name, .gguf = "blk.%d." gguf_name,         \
        .hf_part = part, .hf_bare = true                                                           \
    }

static const ln_binding mistral4_bindings[] = {
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", "ffn_gate_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", "ffn_up_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", "ffn_down_exps", LN_PART_ALL),
    BINDINGS,
    {.role = LN_ROLE_EXPERT_GATE, .gguf = "blk.%d.ffn_gate_up_exps", .gguf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_EXPERT_UP, .gguf = "blk.%d.ffn_gate_up_exps", .gguf_part = LN_PART_GATE_UP},
};

const ln_family ln_family_mistral4 = {
    .name = "mistral4",
    .gguf = "mistral4",
    .defaults = "kv_lora_rank=256|q_lora_rank=1024|qk_nope_head_dim=64|qk_rope_head_dim=64|"
                "v_head_dim=128|n_shared_experts=1|n_routed_experts=128|num_experts_per_tok=4|"
                "moe_intermediate_size=2048",
    LN_INTERLEAVED_ROPE,
    .query_scale = LN_QUERY_SCALE_ALL,
    .group_by_two = true,
    .normalize_experts = true,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    LN_BINDINGS(mistral4_bindings),
};

/* The lightning indexer of sparse attention. */
#define INDEXED                                                                                    \
    BINDINGS, LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),                                  \
        {.role = LN_ROLE_INDEX_Q, .hf = "model.layers.%d.self_attn.indexer.wq_b"},                 \
        {.role = LN_ROLE_INDEX_K, .hf = "model.layers.%d.self_attn.indexer.wk"},                   \
        {.role = LN_ROLE_INDEX_K_NORM, .hf = "model.layers.%d.self_attn.indexer.k_norm"}, {        \
        .role = LN_ROLE_INDEX_WEIGHTS, .hf = "model.layers.%d.self_attn.indexer.weights_proj"      \
    }

static const ln_binding indexed_bindings[] = {INDEXED};

const ln_family ln_family_deepseek_v32 = {
    .name = "deepseek_v32",
    .gguf = "deepseek32",
    .defaults = "kv_lora_rank=512|q_lora_rank=1536|qk_nope_head_dim=128|qk_rope_head_dim=64|"
                "v_head_dim=128|n_shared_experts=1|n_routed_experts=256|num_experts_per_tok=8|"
                "moe_intermediate_size=2048|n_group=8|topk_group=4|routed_scaling_factor=2.5|"
                "first_k_dense_replace=3|index_topk=2048|index_head_dim=128|index_n_heads=64",
    LN_INTERLEAVED_ROPE,
    LN_SIGMOID_ROUTER,
    .indexer = true,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    LN_BINDINGS(indexed_bindings),
};

const ln_family ln_family_glm_moe_dsa = {
    .name = "glm_moe_dsa",
    .gguf = "glm-dsa",
    .defaults = "kv_lora_rank=512|q_lora_rank=2048|qk_nope_head_dim=192|qk_rope_head_dim=64|"
                "v_head_dim=256|rms_norm_eps=1e-5|n_shared_experts=1|n_routed_experts=256|"
                "num_experts_per_tok=8|moe_intermediate_size=2048|routed_scaling_factor=2.5|"
                "first_k_dense_replace=3|index_topk=2048|index_head_dim=128|index_n_heads=32",
    LN_INTERLEAVED_ROPE,
    LN_SIGMOID_ROUTER,
    .indexer = true,
    .index_rope = LN_ROPE_INTERLEAVED,
    .gguf_index_rope = LN_ROPE_INTERLEAVED,
    .latent_eps = 1e-6,
    .gguf_dense_first = true,
    LN_BINDINGS(indexed_bindings),
};

/* Hy 4: DeepSeek V3.2's attention with sinks and a gate, several residual streams, and experts
 * whose gates are limited before their activation. The heads of its indexer rotate their last
 * dimensions. Folders have names of two kinds; those of the text model rotate halves, and files
 * pairs side by side. */
#define HYPER(role_of, name)                                                                       \
    {.role = role_of, .hf = name "fn", .hf_bare = true},                                           \
        {.role = role_of##_BASE, .hf = name "base", .hf_bare = true}, {                            \
        .role = role_of##_SCALE, .hf = name "scale", .hf_bare = true                               \
    }

static const ln_binding hy_v4_bindings[] = {
    {.role = LN_ROLE_SINKS, .hf = "model.layers.%d.self_attn.sinks", .hf_bare = true},
    {.role = LN_ROLE_SINKS,
     .hf = "model.layers.%d.self_attn.learnable_sink_param",
     .hf_bare = true},
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.gate_proj",
     .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.linear_gate",
     .gguf = "blk.%d.attn_gate"},
    HYPER(LN_ROLE_ATTENTION_HYPER, "model.layers.%d.attn_hc."),
    HYPER(LN_ROLE_ATTENTION_HYPER, "model.layers.%d.hc_attn_layer.hc_"),
    HYPER(LN_ROLE_ATTENTION_HYPER, "model.layers.%d.hc_attn_layer.hc_pre.hc_"),
    HYPER(LN_ROLE_ATTENTION_HYPER, "model.layers.%d.hc_pre.hc_attn_layer.hc_"),
    HYPER(LN_ROLE_FFN_HYPER, "model.layers.%d.ffn_hc."),
    HYPER(LN_ROLE_FFN_HYPER, "model.layers.%d.hc_mlp_layer.hc_"),
    HYPER(LN_ROLE_FFN_HYPER, "model.layers.%d.hc_mlp_layer.hc_pre.hc_"),
    HYPER(LN_ROLE_FFN_HYPER, "model.layers.%d.hc_pre.hc_mlp_layer.hc_"),
    HYPER(LN_ROLE_OUTPUT_HYPER, "model.hc_head.hc_"),
    HYPER(LN_ROLE_OUTPUT_HYPER, "model.hc_head.hc_head_"),
    HYPER(LN_ROLE_OUTPUT_HYPER, "model.hc_pre.hc_head.hc_head_"),
    HYPER(LN_ROLE_OUTPUT_HYPER, "model.hc_head.hc_pre.hc_head_"),
    {.role = LN_ROLE_GATE, .hf = "model.layers.%d.mlp.linear_gate"},
    {.role = LN_ROLE_SHARED_GATE, .hf = "model.layers.%d.mlp.shared_experts.linear_gate"},
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", "ffn_gate_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", "ffn_up_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", "ffn_down_exps", LN_PART_ALL),
    INDEXED,
};

const ln_family ln_family_hy_v4 = {
    .name = "hy_v4",
    .gguf = "hy_v4",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_index_rope = LN_ROPE_INTERLEAVED,
    .gguf_dense_first = true,
    .limit_lists = true,
    .defaults = "first_k_dense_replace=1 unless mlp_layer_types|index_topk_freq=4",
    LN_SIGMOID_ROUTER,
    .sinks = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    .indexer = true,
    .index_turns_last = true,
    .hyper = true,
    .limits_before = true,
    .latent_eps = 1e-6,
    LN_BINDINGS(hy_v4_bindings),
};

/* The language model of one that sees: heads rotate pairs side by side, and norms of latents have
 * the epsilon of the others. */
const ln_family ln_family_hy_v4_vl = {
    .name = "hy_v4_vl",
    .gguf_as = "hy_v4",
    .hf_types = "hy_v4_vl|hy_v4_vl_text",
    .defaults = "first_k_dense_replace=1 unless mlp_layer_types|index_topk_freq=4",
    .hf_rope = LN_ROPE_INTERLEAVED,
    LN_SIGMOID_ROUTER,
    .sinks = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    .indexer = true,
    .index_rope = LN_ROPE_INTERLEAVED,
    .index_turns_last = true,
    .hyper = true,
    .limits_before = true,
    LN_BINDINGS(hy_v4_bindings),
};

/* Dots 3 Note: latents of another size in layers that see a window, an indexer in the others; the
 * latents are scaled, the key that rotates has a norm, and attention's output a gate for each head.
 * Files have the scales in weights of norms, and indexers whose heads rotate halves. */
static const ln_binding dots3_note_bindings[] = {
    {.role = LN_ROLE_K_ROPE,
     .hf = "model.layers.%d.self_attn.kv_a_proj_with_mqa",
     .gguf = "blk.%d.attn_kv_a_mqa",
     .hf_part = LN_PART_KV_ROPE,
     .gguf_part = LN_PART_KV_ROPE},
    {.role = LN_ROLE_K_ROPE_NORM,
     .hf = "model.layers.%d.self_attn.k_rope_only_layernorm",
     .gguf = "blk.%d.attn_k_norm"},
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.g_proj",
     .gguf = "blk.%d.attn_gate"},
    INDEXED,
};

const ln_family ln_family_dots3_note = {
    .name = "dots3_note",
    .gguf = "dots3note",
    .hf_types = "dots3_note|dots3_note_text",
    .defaults = "first_k_dense_replace=1 unless mlp_layer_types|"
                "sliding_window=512 unless sliding_window_size",
    .refused = "rope_scaling",
    LN_INTERLEAVED_ROPE,
    .local_rope = true,
    .local_theta = 50000.0,
    .window = LN_WINDOW_AFTER_TWO,
    .window_period = 4,
    .gguf_dense_first = true,
    .chunk_key = "sliding_window|sliding_window_size",
    LN_SIGMOID_ROUTER,
    .output_gate = LN_GATE_BY_HEAD,
    .indexer = true,
    .index_rope = LN_ROPE_INTERLEAVED,
    .by_layer = true,
    .latents_by_kind = true,
    .scales_latents = true,
    LN_BINDINGS(dots3_note_bindings),
};
