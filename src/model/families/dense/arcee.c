/* Arcee AFM: llama with a feed-forward without gate, squared relu. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_PLAIN_FFN("model.layers.%d.mlp.", "up_proj", "down_proj"),
};

const ln_family ln_family_arcee = {
    .name = "arcee",
    .gguf = "arcee",
    .defaults = "rms_norm_eps=1e-5",
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    .gguf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bindings),
};

/* The language model of Cosmos 3 Edge: the same by other names. */
#define EDGE(role_of, own, published)                                                              \
    {.role = role_of, .hf = "model.layers.%d." own}, {                                             \
        .role = role_of, .hf = "model.layers.%d." published                                        \
    }

static const ln_binding edge_bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    EDGE(LN_ROLE_Q, "self_attn.q_proj", "self_attn.to_q"),
    EDGE(LN_ROLE_K, "self_attn.k_proj", "self_attn.to_k"),
    EDGE(LN_ROLE_V, "self_attn.v_proj", "self_attn.to_v"),
    EDGE(LN_ROLE_O, "self_attn.o_proj", "self_attn.to_out"),
    EDGE(LN_ROLE_UP, "mlp.fc1", "mlp.up_proj"),
    EDGE(LN_ROLE_DOWN, "mlp.fc2", "mlp.down_proj"),
};

const ln_family ln_family_cosmos3_edge = {
    .name = "cosmos3_edge",
    .hf_types = "cosmos3_edge_text|cosmos3_edge",
    .hf_prefix = "model.",
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    LN_BINDINGS(edge_bindings),
};
