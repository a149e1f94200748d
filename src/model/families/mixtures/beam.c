/* Beam: Qwen 3's mixture chosen by sigmoid among groups, norms before and behind blocks,
 * attention's output gated by element with a bias for each head, and layers that rotate within a
 * window, or see all, whose queries grow with their position. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_ATTENTION_GATE, .hf = "model.layers.%d.self_attn.gate_proj"},
    {.role = LN_ROLE_ATTENTION_GATE_BIAS,
     .hf = "model.layers.%d.self_attn.gate_bias",
     .hf_bare = true},
    LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_beam = {
    .name = "beam",
    .defaults = "first_k_dense_replace=3 unless mlp_layer_types",
    .placement = LN_PLACE_SANDWICH,
    .qk_norm = LN_QK_NORM_HEAD,
    LN_SIGMOID_ROUTER,
    .averages_blocks = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    .gate_bias_by_head = true,
    .local_rope = true,
    .rope_rule = LN_ROPE_KINDS_OR_WINDOWED,
    .query_scale = LN_QUERY_SCALE_TABLE,
    .window = LN_WINDOW_BUT_LAST,
    .window_period = 6,
    LN_BINDINGS(bindings),
};
