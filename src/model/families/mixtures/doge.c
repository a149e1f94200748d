/* Doge: keys have a bias of their scores that values make, and what stays of the residual stream is
 * scaled by element. Contexts are no longer than the tokens that a query may see; behind these it
 * would see those whose bias is greatest. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d."
#define VECTOR(role_of, name)                                                                      \
    { .role = role_of, .hf = LAYER name, .hf_bare = true }

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_KEY_BIAS, .hf = LAYER "self_attn.dt_proj"},
    VECTOR(LN_ROLE_KEY_BIAS_RATE, "self_attn.A"),
    VECTOR(LN_ROLE_ATTENTION_RESIDUAL_SCALE, "input_residual"),
    VECTOR(LN_ROLE_FFN_RESIDUAL_SCALE, "post_attention_residual"),
};

const ln_family ln_family_doge = {
    .name = "doge",
    .refused = "is_moe",
    .experts_flag = "is_moe",
    .qk_norm = LN_QK_NORM_HEAD,
    .window = LN_WINDOW_ALL,
    .key_bias = true,
    .scales_residual = true,
    LN_BINDINGS(bindings),
};
