/* Inkling 2: as Inkling, and its residual stream attends to blocks of layers before; heads have
 * limits of their lengths in place of norms, tokens have sinks of their own and gates of
 * attention's output, and layers that see all read other sums for keys and values, whose
 * convolutions have taps that hidden states add to. All layers are mixtures without shared experts,
 * whose SwiGLU is capped.
 */
#include "model/families/bindings.h"

#define LAYER(r, name)                                                                             \
    { .role = r, .hf = "model.llm.layers.%d." name }
#define BARE(r, name, ...)                                                                         \
    { .role = r, .hf = "model.llm." name, .hf_bare = true, __VA_ARGS__ }
#define PADDED(r, name)                                                                            \
    { .role = r, .hf = name, .hf_part = LN_PART_BEFORE_PADDING }

static const ln_binding bindings[] = {
    PADDED(LN_ROLE_EMBEDDING, "model.llm.embed"),
    PADDED(LN_ROLE_OUTPUT, "model.llm.unembed"),
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.llm.embed_norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.llm.norm"},
    BARE(LN_ROLE_OUTPUT_QUERY, "attn_res.output_query", ),
    BARE(LN_ROLE_ATTENTION_QUERIES, "attn_res.attn_queries.%d", ),
    BARE(LN_ROLE_FFN_QUERY, "attn_res.mlp_queries.%d", ),
    LAYER(LN_ROLE_ATTENTION_NORM, "attn_norm"),
    LAYER(LN_ROLE_ATTENTION_NORM, "q_input_norm"),
    LAYER(LN_ROLE_KEY_INPUT_NORM, "k_input_norm"),
    LAYER(LN_ROLE_VALUE_INPUT_NORM, "v_input_norm"),
    LAYER(LN_ROLE_FFN_NORM, "mlp_norm"),
    LN_ATTENTION("model.llm.layers.%d.attn.", "wq_du", "wk_dv", "wv_dv", "wo_ud"),
    LAYER(LN_ROLE_ATTENTION_GATE, "attn.gate_attn"),
    LAYER(LN_ROLE_TOKEN_SINKS, "attn.attn_sink_proj"),
    LAYER(LN_ROLE_DISTANCE_STATES, "attn.wr_du"),
    BARE(LN_ROLE_DISTANCE_PROFILES, "layers.%d.attn.rel_logits_proj.proj", ),
    BARE(LN_ROLE_Q_SCALES, "layers.%d.attn.q_l2_clip.scale", ),
    BARE(LN_ROLE_STATE_SCALES, "layers.%d.attn.rel_l2_clip.scale", ),
    LAYER(LN_ROLE_MIXER_CONV_K, "attn.k_sconv"),
    LAYER(LN_ROLE_MIXER_CONV_V, "attn.v_sconv"),
    BARE(LN_ROLE_K_STATIC_TAPS, "layers.%d.attn.k_sconv.static_w", ),
    BARE(LN_ROLE_V_STATIC_TAPS, "layers.%d.attn.v_sconv.static_w", ),
    BARE(LN_ROLE_K_TAPS, "layers.%d.attn.k_sconv.weight_proj", ),
    BARE(LN_ROLE_V_TAPS, "layers.%d.attn.v_sconv.weight_proj", ),
    LAYER(LN_ROLE_ATTENTION_CONV, "attn_sconv"),
    LAYER(LN_ROLE_FFN_CONV, "mlp_sconv"),
    /* what is called its bias counts for the choice alone */
    BARE(LN_ROLE_ROUTER, "layers.%d.mlp.gate.weight", ),
    BARE(LN_ROLE_ROUTER_BIAS, "layers.%d.mlp.gate.bias", ),
    BARE(LN_ROLE_EXPERT_GATE, "layers.%d.mlp.experts.w13_weight",
         .hf_part = LN_PART_GATE_UP_BY_ROW),
    BARE(LN_ROLE_EXPERT_UP, "layers.%d.mlp.experts.w13_weight", .hf_part = LN_PART_GATE_UP_BY_ROW),
    BARE(LN_ROLE_EXPERT_DOWN, "layers.%d.mlp.experts.w2_weight", ),
};

const ln_family ln_family_inkling2 = {
    .name = "inkling2",
    .hf_types = "inkling2_text|inkling2",
    .defaults = "moe_intermediate_size=2304 unless intermediate_size",
    .positions = LN_POSITIONS_NONE,
    .query_scale = LN_QUERY_SCALE_FLOOR,
    .window = LN_WINDOW_PERIOD,
    .window_period = 6,
    .chunk_key = "sliding_window_size",
    .by_layer = true,
    .window_heads = true,
    .distance_bias = true,
    .limits_lengths = true,
    .v_norm = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    .mixer = LN_MIXER_SHORT_CONVS,
    .mixers_beside = true,
    .even_convs = true,
    .block_residual = true,
    .caps_swiglu = true,
    LN_SIGMOID_ROUTER,
    LN_BINDINGS(bindings),
};
