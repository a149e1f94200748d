/* Lara Mini: gated delta nets whose inputs are one tensor, and attention that sees a window and
 * rotates, or sees all and does not; mixtures of experts with a shared one. */
#include "model/families/bindings.h"

#define MIXER "model.layers.%d.linear_attn"
#define FUSED(r)                                                                                   \
    { .role = r, .hf = MIXER ".in_proj", .hf_part = LN_PART_MIXER_QKVZBA }
/* As others of its kind have them. */
#define APART(r, name)                                                                             \
    { .role = r, .hf = MIXER name }
#define QKV(r)                                                                                     \
    { .role = r, .hf = MIXER ".in_proj_qkv", .hf_part = LN_PART_MIXER_QKV }
/* All experts in one tensor. */
#define PACKED(r, name, part)                                                                      \
    { .role = r, .hf = "model.layers.%d.mlp.experts." name, .hf_part = part, .hf_bare = true }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    FUSED(LN_ROLE_MIXER_Q),
    FUSED(LN_ROLE_MIXER_K),
    FUSED(LN_ROLE_MIXER_V),
    FUSED(LN_ROLE_MIXER_GATE),
    FUSED(LN_ROLE_MIXER_B),
    FUSED(LN_ROLE_MIXER_A),
    QKV(LN_ROLE_MIXER_Q),
    QKV(LN_ROLE_MIXER_K),
    QKV(LN_ROLE_MIXER_V),
    APART(LN_ROLE_MIXER_GATE, ".in_proj_z"),
    APART(LN_ROLE_MIXER_B, ".in_proj_b"),
    APART(LN_ROLE_MIXER_A, ".in_proj_a"),
    APART(LN_ROLE_MIXER_CONV, ".conv1d"),
    {.role = LN_ROLE_MIXER_RATE, .hf = MIXER ".A_log", .hf_bare = true},
    {.role = LN_ROLE_MIXER_A_BIAS, .hf = MIXER ".dt_bias", .hf_bare = true},
    APART(LN_ROLE_MIXER_NORM, ".out_norm"),
    APART(LN_ROLE_MIXER_NORM, ".norm"),
    APART(LN_ROLE_MIXER_OUT, ".out_proj"),
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", LN_PART_ALL),
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_expert"),
};

const ln_family ln_family_lara_mini = {
    .name = "lara_mini",
    .defaults = "layer_types=linear_attention,sliding_attention,linear_attention,full_attention,"
                "sliding_attention",
    .qk_norm = LN_QK_NORM_HEAD,
    .rope_rule = LN_ROPE_WINDOWED_LAYERS,
    .normalize_experts = true,
    .mixer = LN_MIXER_DELTA,
    .mixer_word = "linear_attention",
    LN_BINDINGS(bindings),
};
