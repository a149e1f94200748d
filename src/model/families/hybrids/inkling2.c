/* Inkling 2: as Inkling, and its residual stream attends to blocks of layers before; heads have
 * limits of their lengths in place of norms, tokens have sinks of their own and gates of
 * attention's output, and layers that see all read other sums for keys and values, whose
 * convolutions have taps that hidden states add to. All layers are mixtures without shared experts,
 * whose SwiGLU is capped. In Inkling 2 Mini (inkling2_loop) the layers in the middle run several
 * times, with messages of the run before.
 */
#include "model/families/hybrids/inkling.h"

#define QUERY(r, name)                                                                             \
    { .role = r, .hf = "model.llm.attn_res." name, .hf_bare = true }

#define MESSAGES(of, name)                                                                         \
    LN_INKLING_BARE(LN_ROLE_##of##_MESSAGE_DOWN, "controllers." name ".down_weight", ),            \
        LN_INKLING_BARE(LN_ROLE_##of##_MESSAGE_FORGET, "controllers." name ".forget_weight", ),    \
        LN_INKLING_BARE(LN_ROLE_##of##_MESSAGE_GAIN, "controllers." name ".gain_weight", )

/* Names as transformers has them in memory. */
#define LAYER(r, name)                                                                             \
    { .role = r, .hf = "model.layers.%d." name }
#define BARE(r, name)                                                                              \
    { .role = r, .hf = "model.layers.%d." name, .hf_bare = true }
#define MESSAGE_GATES(of, name)                                                                    \
    LAYER(LN_ROLE_##of##_MESSAGE_DOWN, name "_message_gate.down_proj"),                            \
        LAYER(LN_ROLE_##of##_MESSAGE_FORGET, name "_message_gate.forget_gate_proj"),               \
        LAYER(LN_ROLE_##of##_MESSAGE_GAIN, name "_message_gate.message_gate_proj")
#define MODULE "self_attn."

static const ln_binding bindings[] = {
    LN_INKLING_ENDS,
    QUERY(LN_ROLE_OUTPUT_QUERY, "output_query"),
    QUERY(LN_ROLE_ATTENTION_QUERIES, "attn_queries.%d"),
    QUERY(LN_ROLE_FFN_QUERY, "mlp_queries.%d"),
    LN_INKLING_ATTENTION,
    LN_INKLING_LAYER(LN_ROLE_ATTENTION_NORM, "q_input_norm"),
    LN_INKLING_LAYER(LN_ROLE_KEY_INPUT_NORM, "k_input_norm"),
    LN_INKLING_LAYER(LN_ROLE_VALUE_INPUT_NORM, "v_input_norm"),
    LN_INKLING_LAYER(LN_ROLE_ATTENTION_GATE, "attn.gate_attn"),
    LN_INKLING_LAYER(LN_ROLE_TOKEN_SINKS, "attn.attn_sink_proj"),
    LN_INKLING_BARE(LN_ROLE_Q_SCALES, "attn.q_l2_clip.scale", ),
    LN_INKLING_BARE(LN_ROLE_RELATIVE_SCALES, "attn.rel_l2_clip.scale", ),
    LN_INKLING_BARE(LN_ROLE_K_STATIC_TAPS, "attn.k_sconv.static_w", ),
    LN_INKLING_BARE(LN_ROLE_V_STATIC_TAPS, "attn.v_sconv.static_w", ),
    LN_INKLING_BARE(LN_ROLE_K_TAPS, "attn.k_sconv.weight_proj", ),
    LN_INKLING_BARE(LN_ROLE_V_TAPS, "attn.v_sconv.weight_proj", ),
    LN_INKLING_EXPERTS,
    {.role = LN_ROLE_MESSAGE_QUERIES,
     .hf = "model.llm.middle_cycle_cross_pass_queries",
     .hf_bare = true},
    {.role = LN_ROLE_KV_MESSAGE_QUERIES,
     .hf = "model.llm.middle_cycle_cross_pass_kv_queries",
     .hf_bare = true},
    MESSAGES(Q, "attn"),
    MESSAGES(K, "k"),
    MESSAGES(V, "v"),
    MESSAGES(FFN, "mlp"),
    /* as transformers has them in memory */
    LN_INKLING_PADDED(LN_ROLE_EMBEDDING, "model.embed_tokens"),
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embed_tokens.embed_norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_OUTPUT_QUERY, .hf = "model.final_input.query", .hf_bare = true},
    {.role = LN_ROLE_ATTENTION_QUERIES,
     .hf = "model.layers.%n.attention_input.query",
     .hf_bare = true},
    BARE(LN_ROLE_FFN_QUERY, "mlp_input.query"),
    LN_LLAMA_NORMS,
    LAYER(LN_ROLE_ATTENTION_NORM, "q_input_layernorm"),
    LAYER(LN_ROLE_KEY_INPUT_NORM, "k_input_layernorm"),
    LAYER(LN_ROLE_VALUE_INPUT_NORM, "v_input_layernorm"),
    LN_ATTENTION("model.layers.%d." MODULE, "q_proj.linear", "k_proj.linear", "v_proj.linear",
                 "o_proj.linear"),
    LAYER(LN_ROLE_ATTENTION_GATE, MODULE "o_proj.gate_proj"),
    LAYER(LN_ROLE_TOKEN_SINKS, MODULE "sink_proj"),
    BARE(LN_ROLE_Q_SCALES, MODULE "q_proj.norm.scale"),
    LAYER(LN_ROLE_RELATIVE_QUERIES, MODULE "relative_position_bias.linear"),
    BARE(LN_ROLE_RELATIVE_SCALES, MODULE "relative_position_bias.norm.scale"),
    BARE(LN_ROLE_RELATIVE_EMBEDDINGS, MODULE "relative_position_bias.proj"),
    LAYER(LN_ROLE_MIXER_CONV_K, MODULE "k_proj.sconv.conv1d"),
    LAYER(LN_ROLE_MIXER_CONV_V, MODULE "v_proj.sconv.conv1d"),
    BARE(LN_ROLE_K_STATIC_TAPS, MODULE "k_proj.sconv.static_weight"),
    BARE(LN_ROLE_V_STATIC_TAPS, MODULE "v_proj.sconv.static_weight"),
    LAYER(LN_ROLE_K_TAPS, MODULE "k_proj.sconv.weight_proj"),
    LAYER(LN_ROLE_V_TAPS, MODULE "v_proj.sconv.weight_proj"),
    LAYER(LN_ROLE_ATTENTION_CONV, "post_attention_convolution.conv1d"),
    LAYER(LN_ROLE_FFN_CONV, "post_mlp_convolution.conv1d"),
    LAYER(LN_ROLE_ROUTER, "mlp.gate"),
    BARE(LN_ROLE_ROUTER_BIAS, "mlp.gate.e_score_correction_bias"),
    LN_STACKED_EXPERTS("model.layers.%d.mlp.experts."),
    {.role = LN_ROLE_MESSAGE_QUERIES, .hf = "model.message_input.query", .hf_bare = true},
    MESSAGE_GATES(Q, "q"),
    MESSAGE_GATES(K, "k"),
    MESSAGE_GATES(V, "v"),
    MESSAGE_GATES(FFN, "mlp"),
};

const ln_family ln_family_inkling2 = {
    .name = "inkling2",
    .hf_types = "inkling2_text|inkling2|inkling2_loop_text|inkling2_loop",
    .defaults = "inkling2_loop_text:moe_intermediate_size=1152 unless intermediate_size|"
                "inkling2_loop:moe_intermediate_size=1152 unless intermediate_size|"
                "moe_intermediate_size=2304 unless intermediate_size",
    LN_INKLING,
    .limits_lengths = true,
    .v_norm = true,
    .output_gate = LN_GATE_BY_ELEMENT,
    .even_convs = true,
    .block_residual = true,
    .caps_swiglu = true,
    .passes = true,
    LN_BINDINGS(bindings),
};
