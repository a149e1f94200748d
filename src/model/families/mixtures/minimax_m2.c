/* MiniMax M2: q and k normalised over all heads at once, part of each head rotates, a mixture of
 * experts chosen by sigmoid and bias. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_LLAMA_QK_NORMS,
    LN_MIXTRAL_EXPERTS,
    LN_EXPERT_BIAS("block_sparse_moe.e_score_correction_bias"),
    {.role = LN_ROLE_ROUTER_BIAS,
     .hf = "model.layers.%d.mlp.e_score_correction_bias",
     .gguf = "",
     .hf_bare = true},
};

const ln_family ln_family_minimax_m2 = {
    .name = "minimax_m2",
    .gguf = "minimax-m2",
    .defaults = "num_key_value_heads=8|head_dim=128|rope_theta=5000000|num_local_experts=256|"
                "num_experts_per_tok=8",
    .qk_norm = LN_QK_NORM_FULL,
    LN_SIGMOID_ROUTER,
    LN_BINDINGS(bindings),
};
