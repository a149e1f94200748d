/* EuroBERT, and NVIDIA's embedders and rerankers: a Llama whose tokens all see each other. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA};

const ln_family ln_family_eurobert = {
    .name = "eurobert",
    .gguf = "eurobert",
    .hf_prefix = "model.",
    .defaults = "rms_norm_eps=1e-5",
    .bidirectional = true,
    .pooling = LINNET_POOLING_MEAN,
    LN_BINDINGS(bindings),
};

static const ln_binding bidirec_bindings[] = {LN_LLAMA, LN_CLASS_SCORE};

const ln_family ln_family_llama_bidirec = {
    .name = "llama_bidirec",
    .gguf = "llama-embed",
    .hf_prefix = "model.",
    .bidirectional = true,
    .pooling = LINNET_POOLING_MEAN,
    .class_pooling = LINNET_POOLING_MEAN,
    .gguf_rope = LN_ROPE_INTERLEAVED,
    LN_BINDINGS(bidirec_bindings),
};
