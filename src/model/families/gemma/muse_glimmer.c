/* Muse Glimmer: Gemma 2's blocks with norms of two epsilons, an embedding that is normalised, q and
 * k normalised without weights, attention's output gated by element, and every fourth layer,
 * counted from the last, without positions and windows. */
#include "model/family.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    {.role = LN_ROLE_EMBEDDING_NORM, .bare = true},
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_ATTENTION_GATE, .hf = "model.layers.%d.self_attn.gate_proj"},
    LN_LLAMA_FFN,
};

const ln_family ln_family_muse_glimmer = {
    .name = "muse_glimmer",
    .hf_types = "muse_glimmer_text|muse_glimmer",
    .norm = LN_NORM_RMS_PLUS_ONE,
    .output_norm_is_rms = true,
    .placement = LN_PLACE_SANDWICH,
    .activation = LN_ACT_SILU,
    .activation_key = "hidden_activation",
    .qk_norm = LN_QK_NORM_HEAD,
    .bare_qk_norm = true,
    .bare_everywhere = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    .hf_rope = LN_ROPE_HALF,
    .rope_rule = LN_ROPE_LISTED,
    .window = LN_WINDOW_FROM_LAST,
    .window_period = 4,
    LN_BINDINGS(bindings),
};
