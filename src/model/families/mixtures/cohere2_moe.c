/* Command A+: Command R7B's attention beside a mixture of experts, whose sum and a shared expert's
 * result count half each; dense layers before mixtures rotate whatever they see. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,      {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},
    LN_LLAMA_ATTENTION, LN_LLAMA_FFN,
    LN_LLAMA_EXPERTS,   LN_SHARED_EXPERTS("mlp.shared_experts"),
    LN_HEAD_BINDINGS,
};

const ln_family ln_family_cohere2_moe = {
    .name = "cohere2_moe",
    .gguf = "cohere2moe",
    .defaults = "logit_scale=0.0625|sliding_window=4096|head_dim=128|num_experts=8|"
                "num_experts_per_tok=2|expert_selection_fn=softmax",
    .norm = LN_NORM_LAYER,
    .rms_where_said = true,
    .placement = LN_PLACE_PARALLEL,
    LN_INTERLEAVED_ROPE,
    .rope_rule = LN_ROPE_WINDOWED_OR_DENSE,
    .window = LN_WINDOW_PERIOD,
    .window_period = 4,
    .gguf_window_list = true,
    .normalize_experts = true,
    .shared_share = 0.5,
    .expert_hidden_key = "intermediate_size",
    .first_hidden_key = "prefix_dense_intermediate_size",
    .gguf_dense_first = true,
    LN_BINDINGS(bindings),
};
