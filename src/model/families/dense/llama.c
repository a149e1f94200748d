/* Llama 1 to 3 and everything of its shape (SmolLM, Yi, TinyLlama, DeepSeek LLM ...). GGUF files
 * hold q and k permuted for interleaved rotation. */
#include "model/families/bindings.h"

/* Mixtral's GGUF files call themselves llama, too. */
static const ln_binding bindings[] = {LN_LLAMA, LN_GGUF_EXPERTS, LN_CLASS_SCORE, LN_HEAD_BINDINGS};

const ln_family ln_family_llama = {
    .name = "llama",
    .hf_types = "llama|internlm3|iquestcoder|emu3_text_model",
    .gguf = "llama",
    .hf_prefix = "model.",
    .defaults = "internlm3:head_dim=128|internlm3:num_key_value_heads=2|"
                "internlm3:rms_norm_eps=1e-5|iquestcoder:head_dim=128|"
                "iquestcoder:num_key_value_heads=8|iquestcoder:rms_norm_eps=1e-5",
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_window = LN_WINDOW_ALL, /* Mistral, too, is a llama there */
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};

static const ln_binding minicpm_bindings[] = {LN_LLAMA};

/* MiniCPM 1 and 2: the same, with three factors for embedding, blocks and logits. */
const ln_family ln_family_minicpm = {
    .name = "minicpm",
    .gguf = "minicpm",
    .defaults = "scale_emb=1|dim_model_base=1|scale_depth=1",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .scale_by_depth = true,
    .divide_logits = true,
    .tied_by_default = true,
    LN_BINDINGS(minicpm_bindings),
};

#define DIFF "model.layers.%d.self_attn."
#define LAMBDA(r, name)                                                                            \
    { .role = r, .hf = DIFF name, .hf_bare = true }

static const ln_binding diffllama_bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    {.role = LN_ROLE_Q, .hf = DIFF "q_proj"},
    {.role = LN_ROLE_K, .hf = DIFF "k_proj"},
    {.role = LN_ROLE_V, .hf = DIFF "v_proj", .hf_part = LN_PART_VALUE_PAIRS},
    {.role = LN_ROLE_O, .hf = DIFF "o_proj"},
    LAMBDA(LN_ROLE_LAMBDA_Q1, "lambda_q1"),
    LAMBDA(LN_ROLE_LAMBDA_K1, "lambda_k1"),
    LAMBDA(LN_ROLE_LAMBDA_Q2, "lambda_q2"),
    LAMBDA(LN_ROLE_LAMBDA_K2, "lambda_k2"),
    LN_LLAMA_FFN,
};

/* DiffLlama: the same with differential attention. */
const ln_family ln_family_diffllama = {
    .name = "diffllama",
    .differential = true,
    LN_BINDINGS(diffllama_bindings),
};
