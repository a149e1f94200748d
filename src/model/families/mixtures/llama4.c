/* Llama 4: three layers that rotate and see their chunk alone to one that sees all, without
 * positions and with queries that grow; an expert's weight multiplies what it reads. */
#include "model/families/bindings.h"

#define PACKED(r, name, gguf_name, part)                                                           \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.feed_forward.experts." name,                             \
        .gguf = "blk.%d." gguf_name, .hf_part = part, .hf_bare = true, .hf_transposed = true       \
    }

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_GATED_FFN("model.layers.%d.feed_forward.", "gate_proj", "up_proj", "down_proj"),
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.feed_forward.router"},
    PACKED(LN_ROLE_EXPERT_GATE, "gate_up_proj", "ffn_gate_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_UP, "gate_up_proj", "ffn_up_exps", LN_PART_GATE_UP),
    PACKED(LN_ROLE_EXPERT_DOWN, "down_proj", "ffn_down_exps", LN_PART_ALL),
    LN_SHARED_EXPERTS("feed_forward.shared_expert"),
};

const ln_family ln_family_llama4 = {
    .name = "llama4",
    .hf_types = "llama4_text|llama4",
    .gguf = "llama4",
    .defaults = "num_key_value_heads=8|head_dim=128|rope_theta=500000|rms_norm_eps=1e-5|"
                "intermediate_size=8192|intermediate_size_mlp=16384|num_local_experts=16|"
                "num_experts_per_tok=1|attention_chunk_size=8192|floor_scale=8192|attn_scale=0.1",
    LN_INTERLEAVED_ROPE,
    .qk_norm = LN_QK_NORM_HEAD,
    .qk_norm_key = "use_qk_norm",
    .bare_qk_norm = true,
    .bare_after_rope = true,
    .gguf_unnormed_experts = 128,
    .rope_rule = LN_ROPE_LISTED_LAYERS,
    .window = LN_WINDOW_ROTATED,
    .chunked = true,
    .chunk_key = "attention_chunk_size",
    .query_scale = LN_QUERY_SCALE_UNROTATED,
    .router = LN_ROUTER_SIGMOID_CHOSEN,
    .scale_expert_inputs = true,
    .expert_hidden_key = "intermediate_size",
    .n_shared_experts = 1,
    .gguf_dense_between = true,
    LN_BINDINGS(bindings),
};
