/* Doge: keys have a bias of their scores that values make, and what stays of the residual stream is
 * scaled by element. Contexts are no longer than the tokens that a query may see; behind these it
 * would see those whose bias is greatest. Mixtures have experts of one row in and out, which a
 * token chooses by its own scores: the reference mixes those of all tokens of a forward pass, and
 * has a token's own where it reads one alone. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d."
#define VECTOR(role_of, name)                                                                      \
    { .role = role_of, .hf = LAYER name, .hf_bare = true }

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_KEY_BIAS, .hf = LAYER "self_attn.dt_proj"},
    VECTOR(LN_ROLE_KEY_BIAS_RATE, "self_attn.A"),
    {.role = LN_ROLE_ROUTER, .hf = LAYER "mlp.router_gate"},
    {.role = LN_ROLE_RETRIEVED_DOWN, .hf = LAYER "mlp.down_embed"},
    {.role = LN_ROLE_RETRIEVED_UP, .hf = LAYER "mlp.up_embed", .hf_transposed = true},
    VECTOR(LN_ROLE_ATTENTION_RESIDUAL_SCALE, "input_residual"),
    VECTOR(LN_ROLE_FFN_RESIDUAL_SCALE, "post_attention_residual"),
};

const ln_family ln_family_doge = {
    .name = "doge",
    .experts_flag = "is_moe",
    .retrieves = true,
    .qk_norm = LN_QK_NORM_HEAD,
    .window = LN_WINDOW_ALL,
    .key_bias = true,
    .scales_residual = true,
    LN_BINDINGS(bindings),
};
