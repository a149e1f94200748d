/* Dory: nGPT, whose residual stream is a point of the unit sphere, and whose middle layers run
 * several times. A layer is attention, whose output is gated, or a feed-forward; transformers saves
 * two as one. */
#include "model/families/bindings.h"

#define LAYER "backbone.layers.%d"
#define MIXER LAYER ".mixer."
#define PAIR  "backbone.layers.%h"
#define NAMED "model.layers.%h" /* as adapters have it */
#define SCALES(r, published, saved)                                                                \
    {.role = r, .hf = published, .hf_bare = true}, {                                               \
        .role = r, .hf = saved, .hf_bare = true                                                    \
    }
#define BARE(r)                                                                                    \
    { .role = r, .bare = true }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "backbone.embeddings"},
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_OUTPUT_SCALES, .hf = "lm_head.logit_scale", .hf_bare = true},
    LN_ATTENTION(MIXER, "q_proj", "k_proj", "v_proj", "o_proj"),
    LN_ATTENTION(PAIR ".self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),
    {.role = LN_ROLE_ATTENTION_GATE, .hf = MIXER "g_proj"},
    {.role = LN_ROLE_ATTENTION_GATE, .hf = PAIR ".self_attn.g_proj"},
    LN_GATED_FFN(MIXER, "gate_proj", "up_proj", "down_proj"),
    LN_GATED_FFN(PAIR ".mlp.", "gate_proj", "up_proj", "down_proj"),
    LN_ATTENTION(NAMED ".self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),
    {.role = LN_ROLE_ATTENTION_GATE, .hf = NAMED ".self_attn.gate_proj"},
    LN_GATED_FFN(NAMED ".mlp.", "gate_proj", "up_proj", "down_proj"),
    SCALES(LN_ROLE_Q_SCALES, MIXER "sqk", PAIR ".self_attn.sqk"),
    SCALES(LN_ROLE_ATTENTION_GATE_SCALES, MIXER "s_gate", PAIR ".self_attn.s_gate"),
    SCALES(LN_ROLE_GATE_SCALES, MIXER "suv_gate", PAIR ".mlp.suv_gate"),
    SCALES(LN_ROLE_UP_SCALES, MIXER "suv_up", PAIR ".mlp.suv_up"),
    SCALES(LN_ROLE_ATTENTION_BLEND, LAYER ".attn_alpha", PAIR ".lambda_1"),
    SCALES(LN_ROLE_FFN_BLEND, LAYER ".mlp_alpha", PAIR ".lambda_2"),
    BARE(LN_ROLE_OUTPUT_NORM),
    BARE(LN_ROLE_Q_NORM),
    BARE(LN_ROLE_K_NORM),
    BARE(LN_ROLE_ATTENTION_OUT_NORM),
    BARE(LN_ROLE_FFN_OUT_NORM),
};

const ln_family ln_family_dory = {
    .name = "dory",
    .defaults = "rope_theta=10000000",
    .placement = LN_PLACE_NORMED,
    .qk_norm = LN_QK_NORM_HEAD,
    .local_rope = true,
    .local_theta = 10000.0,
    .output_gate = LN_GATE_BY_ELEMENT,
    .unit_sphere = true,
    .sub_norms = true,
    .mixer_word = "",
    .one_block = true,
    .loops = true,
    LN_BINDINGS(bindings),
};
