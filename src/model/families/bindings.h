/* What many families share: groups of bindings, by llama's names or by those that a family gives,
 * and fields that go together. */
#ifndef LN_MODEL_FAMILIES_BINDINGS_H
#define LN_MODEL_FAMILIES_BINDINGS_H

#include "model/family.h"

#define LN_BINDINGS(table) .bindings = table, .n_bindings = sizeof(table) / sizeof *(table)

/* A feed-forward without gate. */
#define LN_NO_GATE(usual) .activation = usual, .plain_ffn = true

#define LN_INTERLEAVED_ROPE .hf_rope = LN_ROPE_INTERLEAVED, .gguf_rope = LN_ROPE_INTERLEAVED

/* As DeepSeek V3: experts by the sigmoid of their logits, whose weights then sum to one. */
#define LN_SIGMOID_ROUTER .router = LN_ROUTER_SIGMOID, .normalize_experts = true

/* What a model begins and ends with. */
#define LN_ENDS(embedding, norm, output)                                                           \
    {.role = LN_ROLE_EMBEDDING, .hf = embedding}, {.role = LN_ROLE_OUTPUT_NORM, .hf = norm}, {     \
        .role = LN_ROLE_OUTPUT, .hf = output                                                       \
    }
/* Parts of a layer; all names of one begin with `base`. */
#define LN_BLOCK_NORMS(base, attention, ffn)                                                       \
    {.role = LN_ROLE_ATTENTION_NORM, .hf = base attention}, {                                      \
        .role = LN_ROLE_FFN_NORM, .hf = base ffn                                                   \
    }
#define LN_POST_NORMS(base, attention, ffn)                                                        \
    {.role = LN_ROLE_ATTENTION_POST_NORM, .hf = base attention}, {                                 \
        .role = LN_ROLE_FFN_POST_NORM, .hf = base ffn                                              \
    }
#define LN_ATTENTION(base, q, k, v, o)                                                             \
    {.role = LN_ROLE_Q, .hf = base q}, {.role = LN_ROLE_K, .hf = base k},                          \
        {.role = LN_ROLE_V, .hf = base v}, {                                                       \
        .role = LN_ROLE_O, .hf = base o                                                            \
    }
#define LN_QK_NORMS(base, q, k)                                                                    \
    {.role = LN_ROLE_Q_NORM, .hf = base q}, {                                                      \
        .role = LN_ROLE_K_NORM, .hf = base k                                                       \
    }
#define LN_PLAIN_FFN(base, up, down)                                                               \
    {.role = LN_ROLE_UP, .hf = base up}, {                                                         \
        .role = LN_ROLE_DOWN, .hf = base down                                                      \
    }
#define LN_GATED_FFN(base, gate, up, down)                                                         \
    {.role = LN_ROLE_GATE, .hf = base gate}, LN_PLAIN_FFN(base, up, down)
#define LN_EXPERTS(base, gate, up, down)                                                           \
    {.role = LN_ROLE_EXPERT_GATE, .hf = base gate}, {.role = LN_ROLE_EXPERT_UP, .hf = base up}, {  \
        .role = LN_ROLE_EXPERT_DOWN, .hf = base down                                               \
    }
#define LN_SHARED(base, gate, up, down)                                                            \
    {.role = LN_ROLE_SHARED_GATE, .hf = base gate}, {.role = LN_ROLE_SHARED_UP, .hf = base up}, {  \
        .role = LN_ROLE_SHARED_DOWN, .hf = base down                                               \
    }
/* A fused tensor of q, k and v, or of gate and up, and which part of it each is. */
#define LN_QKV(name, ...)                                                                          \
    {.role = LN_ROLE_Q, .hf = name, __VA_ARGS__}, {.role = LN_ROLE_K, .hf = name, __VA_ARGS__}, {  \
        .role = LN_ROLE_V, .hf = name, __VA_ARGS__                                                 \
    }
#define LN_GATE_UP(name, ...)                                                                      \
    {.role = LN_ROLE_GATE, .hf = name, __VA_ARGS__}, {                                             \
        .role = LN_ROLE_UP, .hf = name, __VA_ARGS__                                                \
    }
/* A recurrent layer's queries, keys and values, and their convolutions. */
#define LN_MIXER_QKV(base, q, k, v)                                                                \
    {.role = LN_ROLE_MIXER_Q, .hf = base q}, {.role = LN_ROLE_MIXER_K, .hf = base k}, {            \
        .role = LN_ROLE_MIXER_V, .hf = base v                                                      \
    }
#define LN_MIXER_CONVS(base, q, k, v)                                                              \
    {.role = LN_ROLE_MIXER_CONV_Q, .hf = base q}, {.role = LN_ROLE_MIXER_CONV_K, .hf = base k}, {  \
        .role = LN_ROLE_MIXER_CONV_V, .hf = base v                                                 \
    }
/* The same in one tensor, as transformers has them in memory. */
#define LN_MIXER_FUSED_CONV(r, name)                                                               \
    { .role = r, .hf = name, .gguf = "", .hf_part = LN_PART_MIXER_QKV }
#define LN_MIXER_FUSED_CONVS(name)                                                                 \
    LN_MIXER_FUSED_CONV(LN_ROLE_MIXER_CONV_Q, name),                                               \
        LN_MIXER_FUSED_CONV(LN_ROLE_MIXER_CONV_K, name),                                           \
        LN_MIXER_FUSED_CONV(LN_ROLE_MIXER_CONV_V, name)
/* Fused in GGUF, too. */
#define LN_GGUF_QKV     .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV
#define LN_GGUF_GATE_UP .gguf = "blk.%d.ffn_up", .gguf_part = LN_PART_GATE_UP

/* The names that most families of llama's shape use; a family's table begins with its own. */
#define LN_LLAMA_ENDS LN_ENDS("model.embed_tokens", "model.norm", "lm_head")
#define LN_LLAMA_ATTENTION                                                                         \
    LN_ATTENTION("model.layers.%d.self_attn.", "q_proj", "k_proj", "v_proj", "o_proj")
#define LN_LLAMA_QK_NORMS LN_QK_NORMS("model.layers.%d.self_attn.", "q_norm", "k_norm")
#define LN_LLAMA_NORMS                                                                             \
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "post_attention_layernorm")
#define LN_LLAMA_FFN     LN_GATED_FFN("model.layers.%d.mlp.", "gate_proj", "up_proj", "down_proj")
#define LN_LLAMA_BUT_FFN LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION
#define LN_LLAMA         LN_LLAMA_BUT_FFN, LN_LLAMA_FFN
#define LN_GGUF_EXPERTS                                                                            \
    {.role = LN_ROLE_ROUTER}, {.role = LN_ROLE_EXPERT_GATE}, {.role = LN_ROLE_EXPERT_UP}, {        \
        .role = LN_ROLE_EXPERT_DOWN                                                                \
    }
/* All experts of a layer in one tensor, as transformers has them in memory, and in folders that are
 * saved so. */
#define LN_STACKED_EXPERT(r, name, ...)                                                            \
    { .role = r, .hf = name, .hf_bare = true, .gguf = "", __VA_ARGS__ }
#define LN_STACKED_EXPERTS(base)                                                                   \
    LN_STACKED_EXPERT(LN_ROLE_EXPERT_GATE, base "gate_up_proj", .hf_part = LN_PART_GATE_UP),       \
        LN_STACKED_EXPERT(LN_ROLE_EXPERT_UP, base "gate_up_proj", .hf_part = LN_PART_GATE_UP),     \
        LN_STACKED_EXPERT(LN_ROLE_EXPERT_DOWN, base "down_proj", )
/* The same of experts without a gate. */
#define LN_STACKED_PLAIN_EXPERTS(base)                                                             \
    LN_STACKED_EXPERT(LN_ROLE_EXPERT_UP, base "up_proj", ),                                        \
        LN_STACKED_EXPERT(LN_ROLE_EXPERT_DOWN, base "down_proj", )
/* One tensor an expert, or stacked. */
#define LN_LLAMA_EXPERTS                                                                           \
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate"},                                    \
        LN_EXPERTS("model.layers.%d.mlp.experts.%e.", "gate_proj", "up_proj", "down_proj"),        \
        LN_STACKED_EXPERTS("model.layers.%d.mlp.experts.")
/* The same by the names of Mixtral's folders. */
#define LN_MIXTRAL_EXPERTS                                                                         \
    {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.block_sparse_moe.gate"},                       \
        {.role = LN_ROLE_ROUTER, .hf = "model.layers.%d.mlp.gate", .gguf = ""},                    \
        LN_EXPERTS("model.layers.%d.block_sparse_moe.experts.%e.", "w1", "w3", "w2"),              \
        LN_STACKED_EXPERTS("model.layers.%d.mlp.experts.")
#define LN_SHARED_EXPERTS(base)                                                                    \
    LN_SHARED("model.layers.%d." base ".", "gate_proj", "up_proj", "down_proj")
/* What counts for the choice of experts alone. */
#define LN_EXPERT_BIAS(name)                                                                       \
    { .role = LN_ROLE_ROUTER_BIAS, .hf = "model.layers.%d." name, .hf_bare = true }
/* The same by a name that only folders have whose tensors are as in memory. */
#define LN_MEMORY_EXPERT_BIAS(name)                                                                \
    { .role = LN_ROLE_ROUTER_BIAS, .hf = "model.layers.%d." name, .gguf = "", .hf_bare = true }
#define LN_LLAMA_POST_NORMS                                                                        \
    LN_POST_NORMS("model.layers.%d.", "post_attention_layernorm", "post_feedforward_layernorm")
/* What a Gemma from the third on is besides its norms and activations. */
#define LN_GEMMA3_ATTENTION                                                                        \
    .placement = LN_PLACE_SANDWICH, .qk_norm = LN_QK_NORM_HEAD, .activation = LN_ACT_GELU_TANH,    \
    .local_rope = true, .local_theta = 10000.0, .window = LN_WINDOW_PERIOD,                        \
    .scale_embedding = true
#define LN_GEMMA_NORMS                                                                             \
    LN_BLOCK_NORMS("model.layers.%d.", "input_layernorm", "pre_feedforward_layernorm"),            \
        LN_LLAMA_POST_NORMS
/* A decoder's head that classifies, or scores. */
#define LN_CLASS_SCORE                                                                             \
    { .role = LN_ROLE_CLASS_OUT, .hf = "score" }
/* Embeddings of layers. */
#define LN_LOOKUP_EMBEDDINGS                                                                       \
    {.role = LN_ROLE_LOOKUP_EMBEDDING, .hf = "model.embed_tokens_per_layer"},                      \
        {.role = LN_ROLE_LOOKUP_PROJECTION, .hf = "model.per_layer_model_projection"},             \
        {.role = LN_ROLE_LOOKUP_NORM, .hf = "model.per_layer_projection_norm"},                    \
        {.role = LN_ROLE_LOOKUP_GATE, .hf = "model.layers.%d.per_layer_input_gate"},               \
        {.role = LN_ROLE_LOOKUP_OUT, .hf = "model.layers.%d.per_layer_projection"}, {              \
        .role = LN_ROLE_LOOKUP_POST_NORM, .hf = "model.layers.%d.post_per_layer_input_norm"        \
    }
/* A head that drafts (multi-token prediction) behind the last layer. */
#define LN_HEAD_BINDINGS                                                                           \
    {.role = LN_ROLE_HEAD_INPUT, .hf = "model.layers.%d.eh_proj"},                                 \
        {.role = LN_ROLE_HEAD_TOKEN_NORM, .hf = "model.layers.%d.enorm"},                          \
        {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = "model.layers.%d.hnorm"},                         \
        {.role = LN_ROLE_HEAD_NORM, .hf = "model.layers.%d.shared_head.norm", .optional = true},   \
        {.role = LN_ROLE_HEAD_OUTPUT, .hf = "model.layers.%d.shared_head.head"}, {                 \
        .role = LN_ROLE_HEAD_EMBEDDING, .hf = "model.layers.%d.embed_tokens"                       \
    }

#endif
