/* Mellum 2: Qwen 3's mixture of experts with windowed layers, which rotate by a table of their own.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA, LN_LLAMA_QK_NORMS, LN_LLAMA_EXPERTS};

const ln_family ln_family_mellum = {
    .name = "mellum",
    .gguf = "mellum",
    .defaults = "num_key_value_heads=4|head_dim=128|rope_theta=500000|sliding_window=1024|"
                "num_experts=64|num_experts_per_tok=8|moe_intermediate_size=896",
    .qk_norm = LN_QK_NORM_HEAD,
    .local_rope = true,
    .local_theta = 10000.0,
    .gguf_lists = true,
    .normalize_experts = true,
    LN_BINDINGS(bindings),
};
