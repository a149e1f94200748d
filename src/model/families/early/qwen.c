/* Qwen 1: one matrix with biases for q, k and v; config.json and GGUF say twice the width of the
 * feed-forward, whose gate is the second matrix. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "transformer.h.%d.attn.c_attn", .gguf = "blk.%d.attn_qkv",                \
        .hf_part = LN_PART_QKV, .gguf_part = LN_PART_QKV                                           \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.wte", .gguf = "token_embd"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f", .gguf = "output_norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head", .gguf = "output"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.h.%d.ln_1", .gguf = "blk.%d.attn_norm"},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM, .hf = "transformer.h.%d.ln_2", .gguf = "blk.%d.ffn_norm"},
    {.role = LN_ROLE_GATE, .hf = "transformer.h.%d.mlp.w2", .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.w1", .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.c_proj", .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_qwen = {
    .name = "qwen",
    .gguf = "qwen",
    .halves_hidden = true,
    .trained_ctx = true,
    LN_BINDINGS(bindings),
};
