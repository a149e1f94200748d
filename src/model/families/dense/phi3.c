/* Phi 3, 3.5 and 4: llama with q, k and v in one tensor, gate and up in another, longrope. Phi 4
 * Multimodal: its text, with which the adapters for pictures and sounds do not count. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d."

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_QKV(LAYER "self_attn.qkv_proj", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = LAYER "self_attn.o_proj"},
    LN_GATE_UP(LAYER "mlp.gate_up_proj", .hf_part = LN_PART_GATE_UP, LN_GGUF_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = LAYER "mlp.down_proj"},
    /* As published of Phi 4 Multimodal, with adapters beside it. */
    LN_QKV(LAYER "self_attn.qkv_proj.base_layer", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = LAYER "self_attn.o_proj.base_layer"},
    LN_GATE_UP(LAYER "mlp.gate_up_proj.base_layer", .hf_part = LN_PART_GATE_UP, LN_GGUF_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = LAYER "mlp.down_proj.base_layer"},
};

const ln_family ln_family_phi3 = {
    .name = "phi3",
    .hf_types = "phi3|phi4_multimodal|phi4mm",
    .gguf = "phi3",
    .defaults = "rms_norm_eps=1e-5|original_max_position_embeddings=4096",
    .window = LN_WINDOW_ALL,
    LN_BINDINGS(bindings),
};
