/* GLM-4-0414: GLM with norms before and after each block. GLM-4.1V and GLM-OCR (text) are the same.
 */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_POST_NORMS("model.layers.%d.", "post_self_attn_layernorm", "post_mlp_layernorm"),
    {.role = LN_ROLE_Q, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_K, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    {.role = LN_ROLE_V, .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_QKV},
    LN_GATE_UP("model.layers.%d.mlp.gate_up_proj", .hf_part = LN_PART_GATE_UP, LN_GGUF_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.down_proj"},
};

const ln_family ln_family_glm4 = {
    .name = "glm4",
    .hf_types = "glm4|glm4v_text|glm_ocr_text",
    .gguf = "glm4",
    .defaults = "glm4:head_dim=128|num_key_value_heads=2|glm4:rms_norm_eps=1.5625e-7|"
                "rms_norm_eps=1e-5|glm4v_text:partial_rotary_factor=1|"
                "glm_ocr_text:partial_rotary_factor=1",
    .placement = LN_PLACE_SANDWICH,
    .rope_fraction = 0.5,
    LN_INTERLEAVED_ROPE,
    .gguf_half_sections = true,
    LN_BINDINGS(bindings),
};
