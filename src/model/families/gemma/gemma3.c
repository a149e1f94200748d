/* Gemma 3 (text): five windowed layers to one that sees all, each kind with its own RoPE base;
 * q and k normalised by head. EmbeddingGemma is one whose tokens all see each other. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,     LN_GEMMA_NORMS, LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS, LN_LLAMA_FFN,   LN_CLASS_SCORE,
};

const ln_family ln_family_gemma3 = {
    .name = "gemma3",
    .hf_types = "gemma3_text",
    .gguf = "gemma3|gemma-embedding",
    .hf_prefix = "model.",
    .defaults = "hidden_size=2304|intermediate_size=9216|num_hidden_layers=26|"
                "num_attention_heads=8|max_position_embeddings=131072|head_dim=256|"
                "num_key_value_heads=4|query_pre_attn_scalar=256|rope_theta=1e6|"
                "sliding_window=4096",
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_MEAN,
    .class_pooling = LINNET_POOLING_LAST,
    .norm = LN_NORM_RMS_PLUS_ONE,
    .activation_key = "hidden_activation",
    LN_GEMMA3_ATTENTION,
    .window_period = 6,
    .gguf_scale_layers = 62, /* the 27B; its files do not say it */
    LN_BINDINGS(bindings),
};
