/* Llama 1 to 3 and everything of its shape (SmolLM, Yi, TinyLlama, DeepSeek LLM ...). GGUF files
 * hold q and k permuted for interleaved rotation. */
#include "model/families/bindings.h"

/* Mixtral's GGUF files call themselves llama, too. */
static const ln_binding bindings[] = {LN_LLAMA, LN_GGUF_EXPERTS, LN_CLASS_SCORE, LN_HEAD_BINDINGS};

const ln_family ln_family_llama = {
    .name = "llama",
    .hf_types = "llama|internlm3|iquestcoder|emu3_text_model|xverse",
    .gguf = "llama|xverse",
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

static const ln_binding plain_bindings[] = {LN_LLAMA};

/* MiniCPM 1 and 2: the same, with three factors for embedding, blocks and logits. */
const ln_family ln_family_minicpm = {
    .name = "minicpm",
    .gguf = "minicpm",
    .defaults = "scale_emb=1|dim_model_base=1|scale_depth=1",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .scale_by_depth = true,
    .divide_logits = true,
    .tied_by_default = true,
    LN_BINDINGS(plain_bindings),
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

/* Orion: norms have a mean and a bias. */
const ln_family ln_family_orion = {
    .name = "orion",
    .gguf = "orion",
    .norm = LN_NORM_LAYER,
    LN_BINDINGS(plain_bindings),
};

/* openPangu Embedded: q, k, v and the output have biases. */
const ln_family ln_family_pangu_embedded = {
    .name = "pangu_embedded",
    .hf_types = "PanguEmbedded|pangu_embedded",
    .gguf = "pangu-embedded",
    LN_BINDINGS(plain_bindings),
};

static const ln_binding maincoder_bindings[] = {LN_LLAMA, LN_LLAMA_QK_NORMS};

/* Maincoder: norms of queries and keys behind their rotation, of pairs side by side. */
const ln_family ln_family_maincoder = {
    .name = "maincoder",
    .gguf = "maincoder",
    .qk_norm = LN_QK_NORM_HEAD,
    .norm_after_rope = true,
    LN_INTERLEAVED_ROPE,
    LN_BINDINGS(maincoder_bindings),
};

static const ln_binding spark_bindings[] = {
    LN_LLAMA_ENDS,
    LN_LLAMA_NORMS,
    LN_QKV("model.layers.%d.self_attn.q_k_v_proj", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.self_attn.o_proj"},
    {.role = LN_ROLE_ATTENTION_GATE,
     .hf = "model.layers.%d.self_attn.g_proj",
     .gguf = "blk.%d.attn_gate"},
    LN_LLAMA_FFN,
};

/* Spark 2.5: windows, parts of heads that rotate by what a layer sees, gated heads. */
const ln_family ln_family_spark2_5 = {
    .name = "spark2_5",
    .gguf = "spark2_5",
    .refused = "!headwise_attn_output_gate",
    .output_gate = LN_GATE_BY_HEAD,
    .local_rope = true,
    .local_theta = 10000.0,
    .gguf_window = LN_WINDOW_BEHIND,
    .window_period = 4,
    .by_layer = true,
    .lists_alone = true,
    .activation = LN_ACT_GELU,
    LN_BINDINGS(spark_bindings),
};

/* DeciLM and Nemotron NAS (Llama Nemotron Super and Ultra): a search has left out attention or
 * feed-forward of some layers, and chosen KV heads and widths of the others. */
const ln_family ln_family_deci = {
    .name = "deci",
    .hf_types = "nemotron-nas|deci|deci_lm",
    .gguf = "deci",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .gguf_lists = true,
    .sized_by_tensors = true,
    LN_BINDINGS(plain_bindings),
};
