/* Llama 1 to 3 and everything of its shape (SmolLM, Yi, TinyLlama, DeepSeek LLM ...). GGUF files
 * hold q and k permuted for interleaved rotation. */
#include "model/family.h"

/* Mixtral's GGUF files call themselves llama, too. */
static const ln_binding bindings[] = {LN_LLAMA_ENDS,   LN_LLAMA_NORMS,  LN_LLAMA_ATTENTION,
                                      LN_LLAMA_FFN,    LN_GGUF_EXPERTS, LN_CLASS_SCORE,
                                      LN_HEAD_BINDINGS};

static const ln_config_default defaults[] = {LN_DEFAULT_OF("internlm3", "head_dim", 128),
                                             LN_DEFAULT_OF("internlm3", "num_key_value_heads", 2),
                                             LN_DEFAULT_OF("internlm3", "rms_norm_eps", 1e-5),
                                             LN_DEFAULT_OF("iquestcoder", "head_dim", 128),
                                             LN_DEFAULT_OF("iquestcoder", "num_key_value_heads", 8),
                                             LN_DEFAULT_OF("iquestcoder", "rms_norm_eps", 1e-5),
                                             {0}};

const ln_family ln_family_llama = {
    .name = "llama",
    .hf_types = "llama|internlm3|iquestcoder|emu3_text_model",
    .gguf = "llama",
    .hf_prefix = "model.",
    .defaults = defaults,
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_window = LN_WINDOW_ALL, /* Mistral, too, is a llama there */
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    LN_BINDINGS(bindings),
};

static const ln_binding minicpm_bindings[] = {LN_LLAMA_ENDS, LN_LLAMA_NORMS, LN_LLAMA_ATTENTION,
                                              LN_LLAMA_FFN};

static const ln_config_default minicpm_defaults[] = {
    LN_DEFAULT("scale_emb", 1), LN_DEFAULT("dim_model_base", 1), LN_DEFAULT("scale_depth", 1), {0}};

/* MiniCPM 1 and 2: the same, with three factors for embedding, blocks and logits. */
const ln_family ln_family_minicpm = {
    .name = "minicpm",
    .hf_types = "minicpm",
    .gguf = "minicpm",
    .defaults = minicpm_defaults,
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
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
    .hf_types = "diffllama",
    LN_LLAMA_BLOCK,
    .hf_rope = LN_ROPE_HALF,
    .differential = true,
    LN_BINDINGS(diffllama_bindings),
};
