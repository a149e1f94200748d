/* Tensors of latent attention (MLA), as DeepSeek names them; o is of LN_LLAMA_ATTENTION. */
#ifndef LN_MODEL_FAMILIES_LATENT_H
#define LN_MODEL_FAMILIES_LATENT_H

#include "model/families/bindings.h"

#define LN_LATENT_ATTENTION                                                                        \
    {.role = LN_ROLE_Q_A, .hf = "model.layers.%d.self_attn.q_a_proj"},                             \
        {.role = LN_ROLE_Q_A_NORM, .hf = "model.layers.%d.self_attn.q_a_layernorm"},               \
        {.role = LN_ROLE_Q_B, .hf = "model.layers.%d.self_attn.q_b_proj"},                         \
        {.role = LN_ROLE_KV_A, .hf = "model.layers.%d.self_attn.kv_a_proj_with_mqa"},              \
        {.role = LN_ROLE_KV_A_NORM, .hf = "model.layers.%d.self_attn.kv_a_layernorm"},             \
        {.role = LN_ROLE_K_B,                                                                      \
         .hf = "model.layers.%d.self_attn.kv_b_proj",                                              \
         .hf_part = LN_PART_KV_BY_HEAD},                                                           \
        {.role = LN_ROLE_K_B, .gguf = "blk.%d.attn_kv_b", .gguf_part = LN_PART_KV_BY_HEAD},        \
        {.role = LN_ROLE_V_B,                                                                      \
         .hf = "model.layers.%d.self_attn.kv_b_proj",                                              \
         .hf_part = LN_PART_KV_BY_HEAD},                                                           \
    {                                                                                              \
        .role = LN_ROLE_V_B, .gguf = "blk.%d.attn_kv_b", .gguf_part = LN_PART_KV_BY_HEAD           \
    }

#endif
