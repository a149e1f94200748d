/* Assistants of Gemma 4 (multi-token prediction in a folder of its own): layers of Gemma 4 without
 * keys and values, which attend to the model's, between a projection of what they read of it and
 * one of what they give. The order of tokens by centroids, which makes a part of the logits in
 * less time, is not used. */
#include "model/families/gemma/gemma4.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_OUTPUT, .hf = "model.embed_tokens", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.norm"},
    LN_GEMMA_NORMS,
    {.role = LN_ROLE_Q, .hf = "model.layers.%d.self_attn.q_proj"},
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.o_proj"},
    {.role = LN_ROLE_Q_NORM, .hf = "model.layers.%d.self_attn.q_norm"},
    LN_LLAMA_FFN,
    LN_GEMMA4_LAYER_SCALE,
    {.role = LN_ROLE_HEAD_INPUT, .hf = "pre_projection", .gguf = "nextn.pre_projection"},
    {.role = LN_ROLE_HEAD_STATE, .hf = "post_projection"},
};

const ln_family ln_family_gemma4_assistant = {
    .name = "gemma4_assistant",
    .hf_types = "gemma4_assistant|gemma4_unified_assistant",
    .gguf = "gemma4-assistant",
    .ignored = "masked_embedding.centroids.weight|masked_embedding.token_ordering|"
               "masked_embd_centroids.weight|masked_embd_ordering",
    LN_GEMMA4_SHAPE,
    .drafts = true,
    .assists = true,
    LN_BINDINGS(bindings),
};
