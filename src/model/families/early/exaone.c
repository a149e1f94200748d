/* EXAONE 3 and 3.5: llama under GPT-2's names. */
#include "model/family.h"

#define LAYER "transformer.h.%d"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.wte", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = LAYER ".ln_1", .gguf = "blk.%d.attn_norm"},
    {.role = LN_ROLE_Q, .hf = LAYER ".attn.attention.q_proj", .gguf = "blk.%d.attn_q"},
    {.role = LN_ROLE_K, .hf = LAYER ".attn.attention.k_proj", .gguf = "blk.%d.attn_k"},
    {.role = LN_ROLE_V, .hf = LAYER ".attn.attention.v_proj", .gguf = "blk.%d.attn_v"},
    {.role = LN_ROLE_O, .hf = LAYER ".attn.attention.out_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM, .hf = LAYER ".ln_2", .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_GATE, .hf = LAYER ".mlp.c_fc_0", .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_UP, .hf = LAYER ".mlp.c_fc_1", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = LAYER ".mlp.c_proj", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_exaone = {
    .name = "exaone",
    .gguf = "exaone",
    LN_BINDINGS(bindings),
};
