/* GPT-2: learned positions, LayerNorm, matrices stored [in][out] in Hugging Face folders. The first
 * GPT: the same with norms behind the blocks, and none at the end. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "transformer.wpe"},
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_QKV("transformer.h.%d.attn.c_attn", .hf_part = LN_PART_QKV, .hf_transposed = true,
           LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj", .hf_transposed = true},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.c_fc", .hf_transposed = true},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.c_proj", .hf_transposed = true},
};

const ln_family ln_family_gpt2 = {
    .name = "gpt2",
    .gguf = "gpt2",
    .hf_prefix = "transformer.",
    .refused = "add_cross_attention|scale_attn_by_inverse_layer_idx|!scale_attn_weights",
    .norm = LN_NORM_LAYER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .positions = LN_POSITIONS_LEARNED,
    LN_BINDINGS(bindings),
};

static const ln_binding first_bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.tokens_embed"},
    {.role = LN_ROLE_LEARNED_POSITIONS, .hf = "transformer.positions_embed"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_QKV("transformer.h.%d.attn.c_attn", .hf_part = LN_PART_QKV, .hf_transposed = true),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj", .hf_transposed = true},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.c_fc", .hf_transposed = true},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.c_proj", .hf_transposed = true},
};

const ln_family ln_family_openai_gpt = {
    .name = "openai-gpt",
    .hf_prefix = "transformer.",
    .norm = LN_NORM_LAYER,
    .placement = LN_PLACE_AFTER,
    LN_NO_GATE(LN_ACT_GELU_TANH),
    .gelu_is_tanh = true,
    .positions = LN_POSITIONS_LEARNED,
    .tied_by_default = true,
    LN_BINDINGS(first_bindings),
};

static const ln_binding jais_bindings[] = {
    LN_ENDS("transformer.wte", "transformer.ln_f", "lm_head"),
    LN_BLOCK_NORMS("transformer.h.%d.", "ln_1", "ln_2"),
    LN_QKV("transformer.h.%d.attn.c_attn", .hf_part = LN_PART_QKV, .hf_transposed = true,
           LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.c_proj", .hf_transposed = true},
    {.role = LN_ROLE_GATE, .hf = "transformer.h.%d.mlp.c_fc2", .hf_transposed = true},
    {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.c_fc", .hf_transposed = true},
    {.role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.c_proj", .hf_transposed = true},
};

/* Jais: the same with ALiBi, gates, multipliers, and scores that are divided by the heads' width.
 */
const ln_family ln_family_jais = {
    .name = "jais",
    .gguf = "jais",
    .hf_prefix = "transformer.",
    .defaults = "mup_scale_qk_dot_by_d=false unless scale_qk_dot_by_d",
    .refused = "add_cross_attention|scale_attn_by_inverse_layer_idx|!scale_attn_weights",
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_SILU,
    .positions = LN_POSITIONS_ALIBI,
    .divides_by_dim = true,
    .gguf_clips = true,
    .gguf_folds_scales = true,
    .tied_by_default = true,
    LN_BINDINGS(jais_bindings),
};
