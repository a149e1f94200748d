/* GPT-J: one LayerNorm feeds attention and feed-forward in parallel, interleaved rotation of the
 * first rotary_dim dimensions. CodeGen: the same, with q, v and k of each fourth of the heads in
 * one tensor. */
#include "model/families/bindings.h"

/* ...: the bindings of q, k and v. */
#define BINDINGS(...)                                                                              \
    {.role = LN_ROLE_EMBEDDING, .hf = "transformer.wte"},                                          \
        {.role = LN_ROLE_OUTPUT_NORM, .hf = "transformer.ln_f"},                                   \
        {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},                                                 \
        {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.h.%d.ln_1"}, __VA_ARGS__,              \
        {.role = LN_ROLE_O, .hf = "transformer.h.%d.attn.out_proj"},                               \
        {.role = LN_ROLE_UP, .hf = "transformer.h.%d.mlp.fc_in"}, {                                \
        .role = LN_ROLE_DOWN, .hf = "transformer.h.%d.mlp.fc_out"                                  \
    }

#define QVK(r)                                                                                     \
    { .role = r, .hf = "transformer.h.%d.attn.qkv_proj", .hf_part = LN_PART_QVK_BY_FOURTH }

static const ln_binding gptj_bindings[] = {
    BINDINGS({.role = LN_ROLE_Q, .hf = "transformer.h.%d.attn.q_proj"},
             {.role = LN_ROLE_K, .hf = "transformer.h.%d.attn.k_proj"},
             {.role = LN_ROLE_V, .hf = "transformer.h.%d.attn.v_proj"}),
};

static const ln_binding codegen_bindings[] = {
    BINDINGS(QVK(LN_ROLE_Q), QVK(LN_ROLE_K), QVK(LN_ROLE_V)),
};

/* Rows stay as they are. */
#define IN_GGUF .gguf = "gptj", .gguf_rope = LN_ROPE_INTERLEAVED

#define FAMILY(type, bindings, ...)                                                                \
    {                                                                                              \
        .name = type, .hf_types = type, .hf_prefix = "transformer.", .defaults = "rotary_dim=64",  \
        .refused = "", .norm = LN_NORM_LAYER, .placement = LN_PLACE_PARALLEL,                      \
        .activation = LN_ACT_GELU_TANH, .plain_ffn = true, .hf_rope = LN_ROPE_INTERLEAVED,         \
        LN_BINDINGS(bindings), __VA_ARGS__                                                         \
    }

const ln_family ln_family_gptj = FAMILY("gptj", gptj_bindings, IN_GGUF);
const ln_family ln_family_codegen = FAMILY("codegen", codegen_bindings, );
