/* Phi 3, 3.5 and 4: llama with q, k and v in one tensor, gate and up in another, longrope. Phi 4
 * Multimodal: its text, with which the adapters for pictures and sounds do not count. */
#include "model/family.h"

#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.self_attn.qkv_proj", .gguf = "blk.%d.attn_qkv",          \
        .hf_part = LN_PART_QKV, .gguf_part = LN_PART_QKV                                           \
    }
#define GATE_UP(r)                                                                                 \
    {                                                                                              \
        .role = r, .hf = "model.layers.%d.mlp.gate_up_proj", .gguf = "blk.%d.ffn_up",              \
        .hf_part = LN_PART_GATE_UP, .gguf_part = LN_PART_GATE_UP                                   \
    }

/* As published of Phi 4 Multimodal, with adapters beside it. */
#define BASE(r, hf_name, p)                                                                        \
    { .role = r, .hf = "model.layers.%d." hf_name ".base_layer", .hf_part = p }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.o_proj", .gguf = "blk.%d.attn_output"},
    GATE_UP(LN_ROLE_GATE),
    GATE_UP(LN_ROLE_UP),
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.down_proj", .gguf = "blk.%d.ffn_down"},
    BASE(LN_ROLE_Q, "self_attn.qkv_proj", LN_PART_QKV),
    BASE(LN_ROLE_K, "self_attn.qkv_proj", LN_PART_QKV),
    BASE(LN_ROLE_V, "self_attn.qkv_proj", LN_PART_QKV),
    BASE(LN_ROLE_O, "self_attn.o_proj", LN_PART_ALL),
    BASE(LN_ROLE_GATE, "mlp.gate_up_proj", LN_PART_GATE_UP),
    BASE(LN_ROLE_UP, "mlp.gate_up_proj", LN_PART_GATE_UP),
    BASE(LN_ROLE_DOWN, "mlp.down_proj", LN_PART_ALL),
};

const ln_family ln_family_phi3 = {
    .name = "phi3",
    .hf_types = "phi3|phi4_multimodal|phi4mm",
    .gguf = "phi3",
    .defaults = "rms_norm_eps=1e-5|original_max_position_embeddings=4096",
    .window = LN_WINDOW_ALL,
    LN_BINDINGS(bindings),
};
