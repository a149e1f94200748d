/* Inkling: windowed layers with heads of their own and others, without rotations: what hidden
 * states make of learned profiles is added to scores by distance. Short convolutions stand behind
 * keys and values, attention and feed-forwards. The router weighs shared experts along with those
 * that it chooses. Published folders have names of their own, and rows of gate and up in turn. */
#include "model/families/bindings.h"

#define BOTH(r, a, b)                                                                              \
    {.role = r, .hf = "model.layers.%d." a}, {                                                     \
        .role = r, .hf = "model.llm.layers.%d." b                                                  \
    }
/* The same without ".weight". */
#define BOTH_BARE(r, a, b)                                                                         \
    {.role = r, .hf = "model.layers.%d." a, .hf_bare = true}, {                                    \
        .role = r, .hf = "model.llm.layers.%d." b, .hf_bare = true                                 \
    }
#define PACKED(r, name, part)                                                                      \
    { .role = r, .hf = name, .hf_part = part, .hf_bare = true }
#define PADDED(r, name)                                                                            \
    { .role = r, .hf = name, .hf_part = LN_PART_BEFORE_PADDING }

static const ln_binding bindings[] = {
    PADDED(LN_ROLE_EMBEDDING, "model.embed_tokens"),
    PADDED(LN_ROLE_EMBEDDING, "model.llm.embed"),
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embed_tokens.embed_norm"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.llm.embed_norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.llm.norm"},
    PADDED(LN_ROLE_OUTPUT, "lm_head"),
    PADDED(LN_ROLE_OUTPUT, "model.llm.unembed"),
    BOTH(LN_ROLE_ATTENTION_NORM, "input_layernorm", "attn_norm"),
    BOTH(LN_ROLE_FFN_NORM, "post_attention_layernorm", "mlp_norm"),
    BOTH(LN_ROLE_Q, "self_attn.q_proj", "attn.wq_du"),
    BOTH(LN_ROLE_K, "self_attn.k_proj", "attn.wk_dv"),
    BOTH(LN_ROLE_V, "self_attn.v_proj", "attn.wv_dv"),
    BOTH(LN_ROLE_O, "self_attn.o_proj", "attn.wo_ud"),
    BOTH(LN_ROLE_Q_NORM, "self_attn.q_norm", "attn.q_norm"),
    BOTH(LN_ROLE_K_NORM, "self_attn.k_norm", "attn.k_norm"),
    BOTH(LN_ROLE_DISTANCE_STATES, "self_attn.r_proj", "attn.wr_du"),
    BOTH_BARE(LN_ROLE_DISTANCE_PROFILES, "self_attn.rel_logits_proj.proj",
              "attn.rel_logits_proj.proj"),
    BOTH(LN_ROLE_MIXER_CONV_K, "self_attn.k_sconv.conv1d", "attn.k_sconv"),
    BOTH(LN_ROLE_MIXER_CONV_V, "self_attn.v_sconv.conv1d", "attn.v_sconv"),
    BOTH(LN_ROLE_ATTENTION_CONV, "attn_sconv.conv1d", "attn_sconv"),
    BOTH(LN_ROLE_FFN_CONV, "mlp_sconv.conv1d", "mlp_sconv"),
    BOTH_BARE(LN_ROLE_FFN_SCALE, "mlp.global_scale", "mlp.global_scale"),
    BOTH_BARE(LN_ROLE_FFN_SCALE, "mlp.gate.global_scale", "mlp.gate.global_scale"),
    LN_LLAMA_FFN,
    LN_GATE_UP("model.llm.layers.%d.mlp.w13_dn", .hf_part = LN_PART_GATE_UP_BY_ROW),
    {.role = LN_ROLE_DOWN, .hf = "model.llm.layers.%d.mlp.w2_md"},
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate"},
    /* what is called its bias counts for the choice alone */
    {.role = LN_ROLE_ROUTER, .hf = "model.llm.layers.%d.mlp.gate.weight", .hf_bare = true},
    BOTH_BARE(LN_ROLE_ROUTER_BIAS, "mlp.gate.e_score_correction_bias", "mlp.gate.bias"),
    PACKED(LN_ROLE_EXPERT_GATE, "model.layers.%d.mlp.experts.gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_GATE, "model.llm.layers.%d.mlp.experts.w13_weight",
           LN_PART_GATE_UP_BY_ROW),
    PACKED(LN_ROLE_EXPERT_UP, "model.layers.%d.mlp.experts.gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "model.llm.layers.%d.mlp.experts.w13_weight", LN_PART_GATE_UP_BY_ROW),
    BOTH_BARE(LN_ROLE_EXPERT_DOWN, "mlp.experts.down_proj", "mlp.experts.w2_weight"),
    PACKED(LN_ROLE_SHARED_GATE, "model.layers.%d.mlp.shared_experts.gate_proj", LN_PART_ALL),
    PACKED(LN_ROLE_SHARED_GATE, "model.llm.layers.%d.mlp.shared_experts.shared_w13_weight",
           LN_PART_GATE_UP_BY_ROW),
    PACKED(LN_ROLE_SHARED_UP, "model.layers.%d.mlp.shared_experts.up_proj", LN_PART_ALL),
    PACKED(LN_ROLE_SHARED_UP, "model.llm.layers.%d.mlp.shared_experts.shared_w13_weight",
           LN_PART_GATE_UP_BY_ROW),
    BOTH_BARE(LN_ROLE_SHARED_DOWN, "mlp.shared_experts.down_proj",
              "mlp.shared_experts.shared_w2_weight"),
};

const ln_family ln_family_inkling = {
    .name = "inkling",
    .hf_types = "inkling_text|inkling_mm_model",
    /* a published folder's intermediate_size is that of experts */
    .defaults = "moe_intermediate_size=3072 unless dense_intermediate_size",
    .refused = "!shared_expert_sink",
    .positions = LN_POSITIONS_NONE,
    .qk_norm = LN_QK_NORM_HEAD,
    .query_scale = LN_QUERY_SCALE_FLOOR,
    .window = LN_WINDOW_PERIOD,
    .window_period = 6,
    .chunk_key = "sliding_window_size",
    .by_layer = true,
    .window_heads = true,
    .distance_bias = true,
    .divides_by_dim = true,
    .mixer = LN_MIXER_SHORT_CONVS,
    .mixers_beside = true,
    LN_SIGMOID_ROUTER,
    .weighs_shared = true,
    .n_shared_experts = 2,
    .first_hidden_key = "dense_intermediate_size",
    .divide_logits = true,
    LN_BINDINGS(bindings),
};
