/* Inkling: windowed layers with heads of their own and others, without rotations, but
 * with relative logits. Short convolutions stand behind
 * keys and values, attention and feed-forwards. The router weighs shared experts along with those
 * that it chooses. Published folders have names of their own, and rows of gate and up in turn. */
#include "model/families/hybrids/inkling.h"

/* A name of transformers' folders. */
#define LAYER(r, name)                                                                             \
    { .role = r, .hf = "model.layers.%d." name }
/* The same without ".weight". */
#define BARE(r, name)                                                                              \
    { .role = r, .hf = "model.layers.%d." name, .hf_bare = true }
#define BOTH_BARE(r, a, b) BARE(r, a), LN_INKLING_BARE(r, b, )
#define PACKED(r, name, part)                                                                      \
    { .role = r, .hf = name, .hf_part = part, .hf_bare = true }

static const ln_binding bindings[] = {
    LN_INKLING_PADDED(LN_ROLE_EMBEDDING, "model.embed_tokens"),
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embed_tokens.embed_norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    LN_INKLING_PADDED(LN_ROLE_OUTPUT, "lm_head"),
    LN_INKLING_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LAYER(LN_ROLE_RELATIVE_QUERIES, "self_attn.r_proj"),
    BARE(LN_ROLE_RELATIVE_EMBEDDINGS, "self_attn.rel_logits_proj.proj"),
    LAYER(LN_ROLE_MIXER_CONV_K, "self_attn.k_sconv.conv1d"),
    LAYER(LN_ROLE_MIXER_CONV_V, "self_attn.v_sconv.conv1d"),
    LAYER(LN_ROLE_ATTENTION_CONV, "attn_sconv.conv1d"),
    LAYER(LN_ROLE_FFN_CONV, "mlp_sconv.conv1d"),
    LN_INKLING_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_QK_NORMS("model.llm.layers.%d.attn.", "q_norm", "k_norm"),
    BOTH_BARE(LN_ROLE_FFN_SCALE, "mlp.global_scale", "mlp.global_scale"),
    BOTH_BARE(LN_ROLE_FFN_SCALE, "mlp.gate.global_scale", "mlp.gate.global_scale"),
    LN_LLAMA_FFN,
    LN_GATE_UP("model.llm.layers.%d.mlp.w13_dn", .hf_part = LN_PART_GATE_UP_BY_ROW),
    LN_INKLING_LAYER(LN_ROLE_DOWN, "mlp.w2_md"),
    LAYER(LN_ROLE_ROUTER, "mlp.gate"),
    BARE(LN_ROLE_ROUTER_BIAS, "mlp.gate.e_score_correction_bias"),
    PACKED(LN_ROLE_EXPERT_GATE, "model.layers.%d.mlp.experts.gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "model.layers.%d.mlp.experts.gate_up_proj", LN_PART_GATE_UP),
    BARE(LN_ROLE_EXPERT_DOWN, "mlp.experts.down_proj"),
    LN_INKLING_EXPERTS,
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
    LN_INKLING,
    .qk_norm = LN_QK_NORM_HEAD,
    .divides_by_dim = true,
    .weighs_shared = true,
    .n_shared_experts = 2,
    .first_hidden_key = "dense_intermediate_size",
    .divide_logits = true,
    LN_BINDINGS(bindings),
};
