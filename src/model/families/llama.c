/* Llama 1 to 3 and everything of its shape (SmolLM, Yi, TinyLlama, DeepSeek LLM ...). GGUF files
 * hold q and k permuted for interleaved rotation. */
#include "model/family.h"

const ln_binding ln_llama_bindings[LN_N_LLAMA_BINDINGS] = {
    {LN_ROLE_EMBEDDING, "model.embed_tokens", "token_embd"},
    {LN_ROLE_OUTPUT_NORM, "model.norm", "output_norm"},
    {LN_ROLE_OUTPUT, "lm_head", "output"},
    {LN_ROLE_ATTENTION_NORM, "model.layers.%d.input_layernorm", "blk.%d.attn_norm"},
    {LN_ROLE_Q, "model.layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    {LN_ROLE_K, "model.layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    {LN_ROLE_V, "model.layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    {LN_ROLE_Q_NORM, "model.layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm"},
    {LN_ROLE_K_NORM, "model.layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm"},
    {LN_ROLE_O, "model.layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    {LN_ROLE_FFN_NORM, "model.layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    {LN_ROLE_GATE, "model.layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    {LN_ROLE_UP, "model.layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    {LN_ROLE_DOWN, "model.layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
};

const ln_family ln_family_llama = {
    .name = "llama",
    .hf_types = "llama",
    .gguf = "llama",
    .norm = LN_NORM_RMS,
    .placement = LN_PLACE_PRE,
    .qk_norm = LN_QK_NORM_NONE,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .window = LN_WINDOW_NEVER,
    .bindings = ln_llama_bindings,
    .n_bindings = LN_N_LLAMA_BINDINGS,
};
