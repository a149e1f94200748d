/* Grok 1 and 2, in GGUF alone: norms before blocks and behind them, capped scores, and experts with
 * gates of GELU. Grok 2 has a feed-forward of its own size beside them. Weights of the experts that
 * are chosen add up to one, and their logits are not capped, as llama.cpp computes them. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING},
    {.role = LN_ROLE_OUTPUT_NORM},
    {.role = LN_ROLE_OUTPUT},
    {.role = LN_ROLE_ATTENTION_NORM},
    {.role = LN_ROLE_Q},
    {.role = LN_ROLE_K},
    {.role = LN_ROLE_V},
    {.role = LN_ROLE_O},
    {.role = LN_ROLE_ATTENTION_POST_NORM, .gguf = "blk.%d.attn_output_norm"},
    {.role = LN_ROLE_FFN_NORM},
    {.role = LN_ROLE_FFN_POST_NORM, .gguf = "blk.%d.layer_output_norm"},
    {.role = LN_ROLE_FFN_POST_NORM},
    LN_GGUF_EXPERTS,
    {.role = LN_ROLE_SHARED_GATE, .gguf = "blk.%d.ffn_gate"},
    {.role = LN_ROLE_SHARED_UP, .gguf = "blk.%d.ffn_up"},
    {.role = LN_ROLE_SHARED_DOWN, .gguf = "blk.%d.ffn_down"},
};

const ln_family ln_family_grok = {
    .name = "grok",
    .hf_types = "",
    .gguf = "grok",
    .gguf_defaults = "embedding_scale=78.38367176906169|logit_scale=0.5773502691896257|"
                     "attention.output_scale=0.08838834764831845|attn_logit_softcapping=30|"
                     "rope.scaling.yarn_beta_fast=8",
    .placement = LN_PLACE_SANDWICH,
    .activation = LN_ACT_GELU_TANH,
    .caps_scores = true,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    .gguf_shared_dense = true,
    .shared_share = 0.70710678118654752,
    LN_BINDINGS(bindings),
};
