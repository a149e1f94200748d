/* Tensors that Qwen3-Next and its successors share. */
#ifndef LN_MODEL_FAMILIES_HYBRIDS_QWEN3_NEXT_H
#define LN_MODEL_FAMILIES_HYBRIDS_QWEN3_NEXT_H

#include "model/families/bindings.h"

/* The head that predicts a token more; folders keep its layer as mtp.layers.0. */
#define LN_QWEN3_NEXT_HEAD                                                                         \
    {.role = LN_ROLE_HEAD_INPUT, .hf = "mtp.fc"},                                                  \
        {.role = LN_ROLE_HEAD_TOKEN_NORM, .hf = "mtp.pre_fc_norm_embedding"},                      \
        {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = "mtp.pre_fc_norm_hidden"},                        \
        {.role = LN_ROLE_HEAD_NORM, .hf = "mtp.norm", .optional = true},                           \
        {.role = LN_ROLE_HEAD_OUTPUT}, {                                                           \
        .role = LN_ROLE_HEAD_EMBEDDING                                                             \
    }

/* All but the delta nets' inputs and the feed-forward. */
#define LN_QWEN3_NEXT_COMMON                                                                       \
    LN_LLAMA_ENDS, LN_QWEN3_NEXT_HEAD,                                                             \
        {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.input_layernorm"},                 \
        {.role = LN_ROLE_FFN_NORM,                                                                 \
         .hf = "model.layers.%d.post_attention_layernorm",                                         \
         .gguf = "blk.%d.post_attention_norm"},                                                    \
        LN_QWEN3_NEXT_LAYER

/* Of these, what a layer has but for the norms before its blocks. */
#define LN_QWEN3_NEXT_LAYER                                                                        \
    LN_LLAMA_QK_NORMS,                                                                             \
        {.role = LN_ROLE_Q,                                                                        \
         .hf = "model.layers.%d.self_attn.q_proj",                                                 \
         .hf_part = LN_PART_Q_GATE_BY_HEAD,                                                        \
         .gguf_part = LN_PART_Q_GATE_BY_HEAD},                                                     \
        {.role = LN_ROLE_ATTENTION_GATE,                                                           \
         .hf = "model.layers.%d.self_attn.q_proj",                                                 \
         .hf_part = LN_PART_Q_GATE_BY_HEAD,                                                        \
         .gguf_part = LN_PART_Q_GATE_BY_HEAD},                                                     \
        {.role = LN_ROLE_K, .hf = "model.layers.%d.self_attn.k_proj"},                             \
        {.role = LN_ROLE_V, .hf = "model.layers.%d.self_attn.v_proj"},                             \
        {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.o_proj"},                             \
        {.role = LN_ROLE_MIXER_CONV, .hf = "model.layers.%d.linear_attn.conv1d"},                  \
        {.role = LN_ROLE_MIXER_RATE, .hf = "model.layers.%d.linear_attn.A_log", .hf_bare = true},  \
        {.role = LN_ROLE_MIXER_A_BIAS,                                                             \
         .hf = "model.layers.%d.linear_attn.dt_bias",                                              \
         .hf_bare = true},                                                                         \
        {.role = LN_ROLE_MIXER_NORM, .hf = "model.layers.%d.linear_attn.norm"}, {                  \
        .role = LN_ROLE_MIXER_OUT, .hf = "model.layers.%d.linear_attn.out_proj"                    \
    }

/* A delta net's inputs, each in a tensor of its own. */
#define LN_QWEN3_5_DELTA                                                                           \
    {.role = LN_ROLE_MIXER_IN,                                                                     \
     .hf = "model.layers.%d.linear_attn.in_proj_qkv",                                              \
     .gguf = "blk.%d.attn_qkv"},                                                                   \
        {.role = LN_ROLE_MIXER_GATE,                                                               \
         .hf = "model.layers.%d.linear_attn.in_proj_z",                                            \
         .gguf = "blk.%d.attn_gate"},                                                              \
        {.role = LN_ROLE_MIXER_A,                                                                  \
         .hf = "model.layers.%d.linear_attn.in_proj_a",                                            \
         .gguf = "blk.%d.ssm_alpha"},                                                              \
    {                                                                                              \
        .role = LN_ROLE_MIXER_B, .hf = "model.layers.%d.linear_attn.in_proj_b"                     \
    }

/* A shared expert behind a gate. */
#define LN_QWEN_SHARED_EXPERT                                                                      \
    LN_SHARED_EXPERTS("mlp.shared_expert"), {                                                      \
        .role = LN_ROLE_SHARED_ROUTER, .hf = "model.layers.%d.mlp.shared_expert_gate"              \
    }

/* What config.json may lack. */
#define LN_QWEN3_NEXT_DEFAULTS                                                                     \
    "linear_conv_kernel_dim=4|linear_key_head_dim=128|linear_value_head_dim=128|"                  \
    "linear_num_key_heads=16|linear_num_value_heads=32|head_dim=256|num_attention_heads=16|"       \
    "max_position_embeddings=32768"

/* What all of them compute alike. */
#define LN_QWEN3_NEXT_TRAITS                                                                       \
    .norm = LN_NORM_RMS_PLUS_ONE, .qk_norm = LN_QK_NORM_HEAD, .rope_fraction = 0.25,               \
    .output_gate = LN_GATE_BY_ELEMENT, .mixer = LN_MIXER_DELTA, .mixer_word = "linear_attention",  \
    .head_stem = "mtp.layers.0"

#endif
