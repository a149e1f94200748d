/* HRM Text: two stacks of layers that run in cycles, with gates of attention's output and norms
 * without weights. */
#include "model/families/bindings.h"

#define LAYER "model.layers.%d"
/* Matrices are fused, and their biases are not. */
static const ln_binding bindings[] = {
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = LAYER ".attn.gqkv_proj",
     .gguf = "blk.%d.attn_gate",
     .hf_part = LN_PART_GQKV},
    LN_QKV(LAYER ".attn.gqkv_proj", .hf_part = LN_PART_GQKV),
    {.role = LN_ROLE_O, .hf = LAYER ".attn.o_proj"},
    LN_GATE_UP(LAYER ".mlp.gate_up_proj", .hf_part = LN_PART_GATE_UP),
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_CYCLE_BEGIN,
     .hf = "model.z_L_init",
     .gguf = "hrm.z_l_init",
     .hf_bare = true,
     .gguf_bare = true},
    {.role = LN_ROLE_OUTPUT_NORM, .bare = true},
    {.role = LN_ROLE_ATTENTION_NORM, .bare = true},
    {.role = LN_ROLE_FFN_NORM, .bare = true},
    LN_LLAMA_ATTENTION,
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = LAYER ".self_attn.gate_proj",
     .gguf = "blk.%d.attn_gate"},
    LN_LLAMA_FFN,
};

const ln_family ln_family_hrm_text = {
    .name = "hrm_text",
    .gguf = "hrm_text",
    .defaults = "head_dim=128",
    .output_gate = LN_GATE_BY_ELEMENT,
    .cycles = true,
    LN_BINDINGS(bindings),
};
