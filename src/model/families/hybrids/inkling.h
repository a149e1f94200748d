/* What Inkling and Inkling 2 share: the names of published folders, and fields. Gate and up are
 * rows in turn. */
#ifndef LN_MODEL_FAMILIES_HYBRIDS_INKLING_H
#define LN_MODEL_FAMILIES_HYBRIDS_INKLING_H

#include "model/families/bindings.h"

#define LN_INKLING_LAYER(r, name)                                                                  \
    { .role = r, .hf = "model.llm.layers.%d." name }
/* The same without ".weight". */
#define LN_INKLING_BARE(r, name, ...)                                                              \
    { .role = r, .hf = "model.llm.layers.%d." name, .hf_bare = true, __VA_ARGS__ }
#define LN_INKLING_PADDED(r, name)                                                                 \
    { .role = r, .hf = name, .hf_part = LN_PART_BEFORE_PADDING }

#define LN_INKLING_ENDS                                                                            \
    LN_INKLING_PADDED(LN_ROLE_EMBEDDING, "model.llm.embed"),                                       \
        LN_INKLING_PADDED(LN_ROLE_OUTPUT, "model.llm.unembed"),                                    \
        {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.llm.embed_norm"}, {                          \
        .role = LN_ROLE_OUTPUT_NORM, .hf = "model.llm.norm"                                        \
    }
#define LN_INKLING_ATTENTION                                                                       \
    LN_BLOCK_NORMS("model.llm.layers.%d.", "attn_norm", "mlp_norm"),                               \
        LN_ATTENTION("model.llm.layers.%d.attn.", "wq_du", "wk_dv", "wv_dv", "wo_ud"),             \
        LN_INKLING_LAYER(LN_ROLE_RELATIVE_QUERIES, "attn.wr_du"),                                  \
        LN_INKLING_BARE(LN_ROLE_RELATIVE_EMBEDDINGS, "attn.rel_logits_proj.proj", ),               \
        LN_INKLING_LAYER(LN_ROLE_MIXER_CONV_K, "attn.k_sconv"),                                    \
        LN_INKLING_LAYER(LN_ROLE_MIXER_CONV_V, "attn.v_sconv"),                                    \
        LN_INKLING_LAYER(LN_ROLE_ATTENTION_CONV, "attn_sconv"),                                    \
        LN_INKLING_LAYER(LN_ROLE_FFN_CONV, "mlp_sconv")
/* What is called the router's bias counts for the choice alone. */
#define LN_INKLING_EXPERTS                                                                         \
    LN_INKLING_BARE(LN_ROLE_ROUTER, "mlp.gate.weight", ),                                          \
        LN_INKLING_BARE(LN_ROLE_ROUTER_BIAS, "mlp.gate.bias", ),                                   \
        LN_INKLING_BARE(LN_ROLE_EXPERT_GATE, "mlp.experts.w13_weight",                             \
                        .hf_part = LN_PART_GATE_UP_BY_ROW),                                        \
        LN_INKLING_BARE(LN_ROLE_EXPERT_UP, "mlp.experts.w13_weight",                               \
                        .hf_part = LN_PART_GATE_UP_BY_ROW),                                        \
        LN_INKLING_BARE(LN_ROLE_EXPERT_DOWN, "mlp.experts.w2_weight", )

#define LN_INKLING                                                                                 \
    .positions = LN_POSITIONS_NONE, .query_scale = LN_QUERY_SCALE_FLOOR,                           \
    .window = LN_WINDOW_PERIOD, .window_period = 6, .chunk_key = "sliding_window_size",            \
    .by_layer = true, .window_heads = true, .relative_logits = true,                               \
    .mixer = LN_MIXER_SHORT_CONVS, .mixers_beside = true, .unpadded_key = "unpadded_vocab_size",   \
    LN_SIGMOID_ROUTER

#endif
