/* What Gemma 4 and its assistants share: layers by what they see, and what configs leave out. */
#ifndef LN_MODEL_FAMILIES_GEMMA_GEMMA4_H
#define LN_MODEL_FAMILIES_GEMMA_GEMMA4_H

#include "model/families/bindings.h"

#define LN_GEMMA4_LAYER_SCALE                                                                      \
    {                                                                                              \
        .role = LN_ROLE_LAYER_SCALE, .hf = "model.layers.%d.layer_scalar", .hf_bare = true,        \
        .optional = true                                                                           \
    }

#define LN_GEMMA4_SHAPE                                                                            \
    .defaults =                                                                                    \
        "hidden_size=2304|intermediate_size=9216|num_hidden_layers=30|"                            \
        "num_attention_heads=8|num_key_value_heads=4|head_dim=256|global_head_dim=512|"            \
        "gemma4_unified_text:max_position_embeddings=262144|"                                      \
        "gemma4_unified_text:sliding_window=1024|"                                                 \
        "gemma4_unified_text:hidden_size_per_layer_input=0|max_position_embeddings=131072|"        \
        "sliding_window=512|hidden_size_per_layer_input=256|enable_moe_block=false|"               \
        "rope_parameters.full_attention.rope_type=proportional unless rope_parameters|"            \
        "rope_parameters.full_attention.partial_rotary_factor=0.25 unless rope_parameters|"        \
        "rope_parameters.full_attention.rope_theta=1e6 unless rope_parameters",                    \
    LN_GEMMA3_ATTENTION, .window_period = 6, .unit_scale = true, .by_layer = true,                 \
    .layer_scales = true, .ends_in_full = true, .gguf_turning = true

#endif
