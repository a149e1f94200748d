/* What a step works on beside the weights: activations, and the shapes of the KV caches. */
#ifndef LN_MODEL_ACTIVATIONS_H
#define LN_MODEL_ACTIVATIONS_H

#include "backend/backend.h"
#include "model/spec.h"

/* Activations, in the backend's memory; rows up to the step's limits. */
typedef struct ln_activations {
    float *x;                   /* [max_tokens][dim] the residual stream */
    float *normed, *ffn_normed; /* [max_tokens][dim] */
    float *q;                   /* [max_tokens][max n_heads * k_dim] */
    float *k, *v;               /* [max_tokens][max n_kv_heads * k_dim], ... v_dim */
    float *attended;            /* [max_tokens][max n_heads * v_dim] */
    float *output_gate;         /* [max_tokens][gates of attended] */
    /* latent attention: queries and results of heads [max_tokens][n_heads * max dim], and what q
     * goes through [max_tokens][q_latent] */
    float *latent_heads, *latent_q;
    float *latent_pair;          /* [max_tokens][2 q_latent] */
    float *norm_low, *norm_gate; /* [max_tokens][norm_gate_rank], [max_tokens][dim] */
    /* indexers: [max_tokens][n_heads * head_dim], [max_tokens][head_dim], [max_tokens][n_heads],
     * and what the last one chose [max_tokens][top_k] */
    float *index_q, *index_k, *index_weights;
    float *query_scales;               /* [max_tokens][LN_QUERY_SCALE_WIDTH] */
    float *key_biases, *key_bias_rows; /* [max_tokens][n_kv_heads], and ends of heads [max_tokens *
                                          n_heads][LN_KEY_BIAS_DIMS] */
    float *head_scales;                /* [max_tokens][n_heads], where each head has its own */
    float *index_turned; /* [max_tokens][n_heads * head_dim], where the last dimensions rotate */
    int32_t *indices;
    /* mixture of experts; a row is a token and one of its choices */
    float *router; /* [max_tokens][n_experts], or both keys' scores of pairs */
    /* of a router that is a feed-forward, [max_tokens][router_hidden]: what the next layer's reads,
     * too, and what it goes through */
    float *router_state, *router_normed, *router_hidden;
    int32_t *experts;                      /* [max_tokens][n_used] */
    float *expert_weights;                 /* [max_tokens][n_used] */
    int32_t *expert_order, *expert_starts; /* [max_tokens * n_used], [n_experts + 1] */
    float *expert_hidden;                  /* [max_tokens * n_used][n_hidden] */
    float *expert_out;                     /* [max_tokens * n_used][dim or n_latent] */
    float *expert_latent;                  /* [max_tokens][n_latent] what latent experts read */
    float *shortcut; /* [max_tokens][dim] experts that are added behind the next layer */
    float *shared_out, *shared_gate; /* [max_tokens][dim], [max_tokens] */
    float *hidden;                   /* [max_tokens][max n_hidden] */
    float *gated;                    /* [max_tokens * n_used][n_hidden], of limited ones */
    /* recurrent layers: inputs of the convolution and what it gives [max_tokens][conv_dim], gates
     * and results [max_tokens][n_heads * v_dim], decays [max_tokens][n_decays], betas
     * [max_tokens][n_heads], and what decays and gates go through [max_tokens][low_rank]; Mamba 1
     * has its queries and keys in q and k */
    float *conv_in, *conv_out, *mixer_gate, *mixer_out, *decay, *beta, *low_rank;
    /* embeddings of layers: rows of the table, what goes into layers [max_tokens][n_layers *
     * lookup_dim], and a layer's gate [max_tokens][lookup_dim] */
    float *lookup_rows, *lookup, *lookup_gate;
    /* streams beside x [max_tokens][n_streams][dim], and what becomes of them at the end; their
     * router [max_tokens][n_streams + 1] and coefficients [max_tokens][(n_streams + 1)^2]; x as it
     * was predicted, and the path of low rank */
    float *streams, *stream_rows, *stream_router, *stream_coefs;
    float *predicted, *laurel_low, *laurel; /* [max_tokens][dim], [laurel_rank], [dim] */
    /* several residual streams, and what is made of them [max_tokens][n * dim]; what makes their
     * weights [max_tokens][2 n], or (2 + n) n, and these [max_tokens][n], and a matrix of n squared
     */
    float *hyper, *hyper_rows, *hyper_mix, *hyper_pre, *hyper_post, *hyper_matrix;
    float *hyper_low, *hyper_gate; /* gated: [max_tokens][low_rank], [max_tokens][n * dim] */
    /* n-grams: tokens and those before them, [max_tokens][n_tokens - 1], and rows of the table */
    float *ngram_tokens, *ngram_before, *ngram_rows;
    float *entry_rows;             /* [max_tokens][what a compressor's row holds] */
    float *cycle_high, *cycle_low; /* [max_tokens][dim] what the stacks of cycles gave last */
    float *embedded, *block;       /* [max_tokens][dim] of a model whose layers share blocks */
    float *block_low;              /* [max_tokens][shared_rank] */
    float *sparse_gate;            /* [max_tokens][max n_hidden] of sparse layers, of shared
                                      experts whose gates are limited first, and of experts that
                                      are rows, [max_tokens][n_experts] */
    float *gathered;               /* [max_tokens][widest weight], if spec.has_order */
    float *relative_queries;       /* [max_tokens][n_heads * relative_dim] of relative logits */
    float *shared_weights;         /* [max_tokens][n_shared] that the router gives */
    float *token_sinks;            /* [max_tokens][n_heads] */
    float *conv_taps;              /* [max_tokens][n_kv_heads * n_taps] of dynamic ones */
    /* messages of the run before: what it gave in its blocks, and in this run, [max_tokens][blocks
     * but the first][dim]; a message, its norm beside that of what takes it, and gates */
    float *message_streams[2], *message, *message_pairs, *message_low, *message_forget,
        *message_gain;
    float *block_streams; /* [max_tokens][n_blocks][dim] of block attention residuals, and */
    float *key_input, *value_input; /* [max_tokens][dim] where they are not what queries read */
    float *pairs;                   /* [max_tokens][2 dim] what a head reads */
    float *aux_hidden; /* [max_tokens][n_aux_layers * dim] hidden states for an EAGLE-3 head, or
                          what it reads */
    /* of adapters: what their A makes of x for LN_MAX_LORA_WEIGHTS weights at once, [max_tokens *
     * most heads of a linear by head, or choices of experts][low_stride] each; NULL, 0 without
     * adapters */
    float *low[LN_MAX_LORA_WEIGHTS];
    size_t low_stride;
    float *logits; /* [max_logits][n_vocab]; of several ranks on rank 0 */
    /* of one rank of several: what it has of a sum [max_tokens][dim], and of logits
     * [max_logits][its rows of the vocabulary]; scratch of collectives */
    float *partial, *logits_part, *rank_scratch;
    /* the engine's: those that divide attention, all else of a layer, and those of all layers;
     * NULL: there is one rank */
    ln_collectives *tensor_ranks, *stage_ranks, *all_ranks;
    int32_t *chosen; /* [max_logits] the best of each row of logits, then their logits as floats,
                        then reports */
} ln_activations;

enum { LN_CHOSEN_BYTES = 2 * sizeof(int32_t) + sizeof(ln_draw_report) };

/* Bytes for steps of max_tokens tokens and max_logits rows of logits, then the pointers into
 * `memory` of that size. */
typedef struct ln_activations_shape {
    size_t max_tokens, max_logits;
    size_t adapter_rank; /* the greatest that adapters may have; 0: there are none */
    bool adapts_experts;
} ln_activations_shape;
ln_status ln_activations_plan(const ln_spec *spec, const ln_activations_shape *shape, size_t *bytes,
                              ln_error *err);
void ln_activations_bind(const ln_spec *spec, const ln_activations_shape *shape, void *memory,
                         ln_activations *activations);

/* What one backend's or rank's layers hand to the next one's: rows of activations. */
enum { LN_MAX_BORDERS = 6 };
typedef struct ln_border {
    float *at;
    size_t width; /* floats of a token */
} ln_border;
size_t ln_activations_borders(const ln_spec *spec, const ln_activations *activations,
                              ln_border borders[LN_MAX_BORDERS]);

/* KV caches: one per layer; with an encoder then one per layer for cross-attention, and one that
 * all of the encoder's layers use in turn; with indexers one for the keys of each; with compressors
 * one for the rows of each and one for its entries, and as many for its indexer; with embeddings of
 * n-grams four for each layer that has them. In a model with recurrent layers a layer has three,
 * one behind the other: keys and values, states, tails. The cache of a head that drafts is the
 * last. */
size_t ln_kv_layer_count(const ln_spec *spec);
/* The first cache of a decoder's layer. */
static inline size_t ln_kv_layer_index(const ln_spec *spec, size_t layer) {
    return spec->has_mixers ? 3 * layer : layer;
}
/* Bytes of an array of all of them, with an ln_state_cache for each of ln_kv_state_count behind. */
size_t ln_kv_layers_bytes(const ln_spec *spec);
/* One for each layer of a model with recurrent ones, and two for each that has n-grams. */
size_t ln_kv_state_count(const ln_spec *spec);
/* State cache number `index`: its shape, and the cache of its states, behind which its tails are;
 * false: there is none. */
bool ln_kv_state_shape(const ln_spec *spec, size_t index, size_t draft_tokens,
                       ln_state_shape *shape, size_t *states);

/* The shape of cache number `index`; memory stays for the caller, as do block size and type of keys
 * and values (block_tokens 0). V needs no memory of its own when *v_in_k is set: v is k. The
 * cache of a layer that reads another's, or that another rank has, has no heads, and so no memory.
 */
void ln_kv_layer_shape(const ln_spec *spec, size_t index, size_t draft_tokens, ln_kv_layer *kv,
                       bool *v_in_k);
/* Whether it keeps float32, whatever keys and values are: an indexer's, whose rounded keys would
 * choose others, or a compressor's rows. */
bool ln_kv_layer_is_exact(const ln_spec *spec, size_t index);

/* The first layer whose cache a later one reads, or n_layers: from there on all layers run on one
 * backend. */
size_t ln_kv_first_shared(const ln_spec *spec);

/* Sizes for ln_backend's scratch. */
ln_step_limits ln_step_limits_of(const ln_spec *spec, size_t max_tokens, size_t max_seqs,
                                 size_t max_ctx);

#endif
