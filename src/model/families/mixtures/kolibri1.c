/* Kolibri 1: norms before and after each block, windowed layers that rotate and every fifth that
 * sees all and does not; experts chosen by logits and a bias, weighted by sigmoid. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_POST_NORMS("model.layers.%d.", "post_attn_norm", "post_ffn_norm"),
    LN_POST_NORMS("model.layers.%d.", "post_self_attn_layernorm", "post_mlp_layernorm"),
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_EXPERTS,
    LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_EXPERT_BIAS("moe.router.expert_bias"),
    LN_EXPERT_BIAS("mlp.gate.e_score_correction_bias"),
};

const ln_family ln_family_kolibri1 = {
    .name = "kolibri1",
    .defaults = "head_dim=128|sliding_window=513|num_key_value_heads=4|num_experts=384|"
                "num_experts_per_tok=6|moe_intermediate_size=512|"
                "shared_expert_intermediate_size=512",
    .placement = LN_PLACE_SANDWICH,
    .qk_norm = LN_QK_NORM_HEAD,
    .rope_rule = LN_ROPE_WINDOWED_OR_ALL,
    .window = LN_WINDOW_PERIOD,
    .window_period = 5,
    .router = LN_ROUTER_SIGMOID_CHOSEN,
    LN_BINDINGS(bindings),
};
