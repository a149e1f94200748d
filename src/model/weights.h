/* The weights of a model as a backend prepared them, by role. */
#ifndef LN_MODEL_WEIGHTS_H
#define LN_MODEL_WEIGHTS_H

#include "backend/backend.h"
#include "model/spec.h"

/* Of a recurrent layer (ln_op_conv, ln_op_scan, ln_op_gated_norm). */
typedef struct ln_mixer_weights {
    ln_weight in;      /* [conv_dim][dim]: what the convolution reads, or the scan without one */
    ln_weight in_gate; /* [dim][dim] multiplies that, between two gates */
    ln_weight gate;    /* [n_heads * v_dim][dim], or [..][gate_rank] behind gate_low */
    ln_weight a;       /* [n_decays][dim], or [..][low_rank] behind a_low */
    ln_weight b;       /* [n_heads][dim], with a delta rule */
    ln_weight *a_blocks, *in_gate_blocks; /* RG-LRU: [n_gate_blocks] squares of a diagonal */
    ln_weight a_low, gate_low; /* [low_rank][dim], a_low [..][v_dim] of Mamba 1, [gate_rank][dim] */
    ln_weight q, k;            /* Mamba 1: [k_dim][v_dim], behind the convolution */
    /* and by head: [n_k_heads] of these, of v_dim / n_k_heads columns, and [..][low_rank] */
    ln_weight *a_low_heads, *q_heads, *k_heads, *a_heads;
    ln_norm a_norm, q_norm, k_norm;           /* and behind these; dim 0: none */
    ln_weight out;                            /* [dim][n_heads * v_dim] */
    const float *conv, *conv_bias;            /* [n_taps][conv_dim], [conv_dim] or NULL */
    const float *short_convs[LN_SHORT_CONVS]; /* [n_taps][channels] each */
    ln_weight taps[2]; /* of keys and values, with dynamic ones: [n_kv_heads * n_taps][dim] */
    const float *rate, *a_bias, *skip;
    ln_norm norm;
    ln_norm in_norm; /* where attention beside it reads a norm of another scale; else dim 0 */
} ln_mixer_weights;

/* What is added to a matrix: high low x, [rank][n_in] and [n_out][rank]; no rows: nothing. */
typedef struct ln_low_weights {
    ln_weight low, high;
} ln_low_weights;

/* Of a block that layers share (ln_layer_spec.shared), what a layer has of its own but the norm. */
typedef struct ln_block_weights {
    ln_norm norm;                 /* [2 dim] of the residual stream and the embedding */
    ln_low_weights q, k, v;       /* of attention */
    ln_weight low;                /* of the feed-forward, before both of: */
    ln_weight gate_high, up_high; /* [n_hidden][rank] */
    ln_weight out;                /* [dim][dim] */
} ln_block_weights;

/* What weights of residual streams are made of: of n or 2 n weights, or (2 + n) n. Of gated
 * streams: of n weights of what they take, or none. */
typedef struct ln_hyper_weights {
    ln_weight mix;             /* [n or 2 n][n * dim] */
    const float *scale, *base; /* [n or 2 n] */
    const float *norm;         /* gated: [n * dim], and [low_rank][n * dim] and back */
    ln_weight low, gate;
} ln_hyper_weights;

/* Embeddings of n-grams, and what becomes of them. */
typedef struct ln_ngram_weights {
    ln_ngrams table;
    ln_weight key, value;                            /* [n * dim][width], [dim][width] */
    const float *key_norm, *stream_norm, *conv_norm; /* [n * dim] */
    const float *taps;                               /* [taps, with zeros between][n * dim] */
} ln_ngram_weights;

/* What compressed entries are made of: rows [values | gates] of x, of `dim` each, or 2 dim. */
typedef struct ln_compressor_weights {
    ln_weight rows;    /* [2 dim or 4 dim][model's dim] */
    const float *bias; /* [n_tokens][dim or 2 dim] */
    ln_norm norm;      /* of dim */
} ln_compressor_weights;

/* A matrix of an expert that stays in the file until somebody reads it. */
typedef struct ln_stored_matrix {
    ln_weight_source source;
    size_t n_cols;
    ln_weight_use use;
} ln_stored_matrix;

/* A layer's experts in the file, and slots for some of them. */
enum { LN_EXPERT_MATRICES = 3 }; /* gate, up, down */
typedef struct ln_expert_store {
    size_t n_slots;                                 /* 0: all experts are in memory */
    char *slots;                                    /* [n_slots][slot_bytes] */
    size_t slot_bytes;                              /* of the matrices, one behind the other */
    size_t matrix_bytes[LN_EXPERT_MATRICES];        /* the greatest of all experts; 0: no gate */
    size_t file_bytes;                              /* that an expert takes there, at most */
    ln_stored_matrix *matrices[LN_EXPERT_MATRICES]; /* [n_experts] each */
} ln_expert_store;

/* How a message of the run before joins what a block reads. */
typedef struct ln_message_gate {
    ln_weight down;         /* [rank][2 dim] */
    ln_weight forget, gain; /* [dim][rank] */
} ln_message_gate;

enum { LN_MESSAGE_GATES = 4 };

typedef struct ln_layer_weights {
    ln_norm attention_norm, attention_post_norm;
    ln_norm ffn_norm, ffn_post_norm;
    /* [dim], where the residual stream is weighted, or NULL: what stays of it, and what norms
     * behind the feed-forward [dim] and experts [n_latent] multiply first */
    const float *attention_residual_scale, *ffn_residual_scale, *ffn_post_scale, *expert_post_scale;
    /* [dim], of a scaled residual stream, or NULL: what it has added besides, and what attention's
     * output is multiplied with */
    const float *attention_residual_shift, *ffn_residual_shift, *attention_post_scale;
    ln_norm head_norm;                       /* of heads of attention's output; dim 0: none */
    ln_norm expert_in_norm, expert_out_norm; /* of latent experts; dim 0: none */
    ln_norm attention_kept, ffn_kept; /* of LN_PLACE_NORMED: these norms times what stays of them */
    ln_norm q_norm, k_norm, v_norm;
    ln_norm attention_out_norm, ffn_out_norm; /* before the last matrices */
    const float *scale;                       /* [1] of what the layer gives, or NULL */
    ln_weight q, k, v, o;
    ln_weight attention_gate; /* [n_heads or n_heads * v_dim][dim], of gated outputs */
    ln_xielu xielu;           /* with that activation */
    ln_norm cross_norm;
    ln_weight cross_q, cross_k, cross_v, cross_o; /* with an encoder */
    ln_weight gate, up, down;                     /* gate: only in gated layers */
    ln_weight attention_router;                   /* mixture of attention: [n_experts][dim], and */
    ln_weight *q_experts, *o_experts; /* [n_experts] each, [n_kv_heads * k_dim][dim] and back */
    ln_weight *v_pairs;         /* differential attention: [n_kv_heads], each [2 k_dim][dim] */
    const float *half_weights;  /* [2] of its halves of heads, which are summed; */
    ln_norm difference_norm;    /* and of what becomes of a pair, [2 k_dim] */
    const float *sinks;         /* [n_heads] or NULL */
    ln_weight relative_queries; /* of relative logits: [n_heads * relative_dim][dim], and */
    const float *relative_embeddings; /* [n_distances][relative_dim] */
    /* with limits of lengths: [n_heads * k_dim], [n_heads * relative_dim] */
    const float *q_scales, *relative_scales;
    /* nGPT: [n_heads * k_dim] of queries that are rotated, [n_heads * v_dim] of the output's gate,
     * [n_hidden] of what gate and up give; or NULL */
    const float *q_out_scales, *output_gate_scales, *gate_scales, *up_scales;
    ln_weight token_sinks;                      /* [n_heads][dim] */
    const float *attention_queries, *ffn_query; /* of blocks: [3 or 1][dim] or NULL, [dim] */
    ln_norm key_input_norm, value_input_norm;
    /* of messages for queries, keys, values and feed-forward; or absent */
    ln_message_gate message_gates[LN_MESSAGE_GATES];
    ln_weight key_bias;          /* where values make biases: [n_kv_heads][values of all], */
    const float *key_bias_rates; /* [n_kv_heads], */
    ln_norm key_bias_copy;       /* and of ends of heads as they are */
    ln_weight v_delayed;         /* convolved attention: [half of n_kv_heads * v_dim][dim] */
    ln_norm conv_copies[3];      /* of q, k and half of v as they are, */
    ln_weight *head_convs;       /* and a matrix for each unit of the convolutions */
    ln_weight retrieved_down;    /* experts of one row: [n_experts][dim], */
    ln_weight retrieved_up;      /* and [dim][n_experts]; their router is [2 n_keys][dim] */
    ln_weight router;            /* mixture of experts: [n_experts][dim or router_hidden] */
    ln_weight router_in, router_first, router_second; /* of a router that is a feed-forward */
    const float *router_carry; /* [router_hidden] or NULL: it is the first one */
    const float *router_bias;  /* [n_experts] or NULL */
    const float *experts_bias; /* [dim] of what experts give together, or NULL */
    ln_weight *experts_gate, *experts_up, *experts_down; /* [n_experts] each */
    bool experts_apart; /* they are another backend's, which computes beside this one */
    ln_expert_store store;
    ln_weight latent_in, latent_out; /* with latent experts: [n_latent][dim], [dim][n_latent] */
    ln_norm latent_norm;             /* of what they give together; dim 0: none */
    ln_weight shared_gate, shared_up, shared_down, shared_router;
    /* [n_shared] each, of shared experts whose weights the router gives */
    ln_weight *shared_gates, *shared_ups, *shared_downs;
    /* experts beside gate, up and down */
    ln_norm dense_post_norm, experts_norm, experts_post_norm, router_norm;
    const float *expert_scale; /* [n_experts] */
    /* the layer's own embedding: [lookup_dim][dim], [dim][lookup_dim] */
    ln_weight lookup_gate, lookup_out;
    ln_norm lookup_post_norm;
    /* with streams: [n_streams + 1][dim], [(n_streams + 1)^2][n_streams + 1], [n_streams +
     * 1][n_streams + 1], [dim]; [laurel_rank][dim], [dim][laurel_rank] */
    ln_weight altup_router, altup_predict, altup_correct;
    ln_norm altup_norm, laurel_norm;
    const float *altup_scale;
    ln_weight laurel_left, laurel_right;
    ln_weight q_a, q_b, kv_a; /* latent attention */
    ln_norm q_a_norm, kv_a_norm;
    ln_weight k_rope; /* [n_rope][dim] with a norm behind it: the last rows of kv_a */
    ln_norm k_rope_norm;
    ln_weight attention_norm_low,
        attention_norm_gate; /* of gated norms: [rank][dim], [dim][rank] */
    ln_weight ffn_norm_low, ffn_norm_gate;
    ln_norm latent_copy; /* with pairs of latents: of one as it is */
    ln_weight *k_b;      /* [n_heads], each [n_latent][n_plain] */
    ln_weight *v_b;      /* [n_heads], each [v_dim][n_latent] */
    ln_weight *o_groups; /* compressed attention: [n_groups], in front of o */
    ln_compressor_weights compressor, index_compressor;
    const int32_t *hash_experts;               /* [n_vocab][n_used] or NULL */
    ln_weight index_q, index_k, index_weights; /* of an indexer, */
    ln_weight index_gate;                      /* and of one that chooses runs of tokens */
    ln_norm index_k_norm;
    ln_norm index_q_norm; /* of x, where queries are made of it; dim 0: of the latent */
    const float *index_log_scale, *index_log_bias, *q_log_scale, *q_log_bias; /* [n_heads] */
    ln_mixer_weights mixer;
    ln_block_weights block;
    ln_hyper_weights attention_hyper, ffn_hyper;
    ln_ngram_weights ngram;
    const float *index_ones, *index_zeros; /* [n_heads], [run_tokens][head_dim], where keys of runs
                                              are means */
    ln_norm index_zero_norm;               /* of head_dim: zeros */
} ln_layer_weights;

typedef struct ln_weights {
    /* mixture of attention: where columns of heads, sorted by head of keys, are in rows of
     * choices, and the other way around, [n_heads * k_dim] */
    const int32_t *head_columns, *choice_columns;
    /* convolved attention: columns of a row of q, k and v in the order in which convolutions read
     * them, [conv_dim], and of q sorted by a head's place in its group, [n_heads * k_dim] */
    const int32_t *conv_columns, *group_columns;
    /* where keys have biases: ends of queries, and of keys whose bias is 1, [LN_KEY_BIAS_DIMS] */
    const float *query_bias_row, *key_bias_row;
    /* [dim], of a scaled residual stream: what the embedding is multiplied with, and what is added
     */
    const float *embedding_scales, *embedding_shifts;
    ln_weight embedding;                /* [n_vocab][dim] */
    ln_weight learned_positions;        /* [n_learned][dim] or absent */
    ln_weight token_types;              /* [n_types][dim] or absent */
    ln_norm embedding_norm;             /* right after the embedding; dim 0: none */
    ln_weight lookup_embedding;         /* [n_lookup][n_layers * lookup_dim] or absent */
    ln_weight lookup_projection;        /* [n_layers * lookup_dim][dim] */
    ln_norm lookup_norm;                /* of lookup_dim */
    ln_weight *altup_begin, *altup_end; /* [n_streams], each [dim][dim] */
    ln_norm copy;                       /* of dim: x as it is */
    const float *cycle_begin; /* [dim], of a model of cycles, and the norm behind a stack */
    ln_norm cycle_norm;
    ln_norm output_norm;
    const float *output_scales; /* [n_vocab] of logits, or NULL */
    ln_weight output_dense;     /* [dim][dim] or absent, with an activation and a norm behind it */
    ln_norm output_dense_norm;
    ln_weight embedding_in, output_in; /* [dim][embedded_dim], [embedded_dim][dim] or absent */
    ln_weight output;                  /* [n_vocab][embedded_dim or dim]; the embedding when tied */
    size_t first_layer;          /* those before it are left out, and the embedding with them */
    size_t end_layer;            /* those from it on are left out, and the output with them */
    ln_layer_weights *layers;    /* [n_layers] */
    ln_rope ropes[LN_MAX_ROPES]; /* [n_ropes] */
    ln_rope back_ropes[LN_MAX_ROPES]; /* with compressed attention: the same by negative angles */
    ln_rope still_rope;               /* of no dimensions */
    ln_rope index_rope;               /* of indexers */
    const int32_t
        *index_columns; /* [n_heads * head_dim] of their heads, what rotates first, or NULL */
    const float *zeros; /* [n_hidden] of experts whose gates are limited first, [n_values] of
                           convolved attention, or NULL */
    ln_weight query_scales,
        no_tokens; /* [ctx_tokens][LN_QUERY_SCALE_WIDTH] by position, and zeros for any token, of
                      that width, or of dim with embedding_in */
    ln_norm hyper_norm;                  /* with several residual streams: of all of them, */
    const float *hyper_most, *hyper_eps; /* [2 n], [n]: what sigmoids are multiplied with, and what
                                            is added */
    ln_hyper_weights output_hyper;
    const float *output_query; /* [dim], with block attention residuals */
    /* of messages, [2 * loop_layers][dim] each: of queries and feed-forward, of keys and values */
    const float *message_queries, *kv_message_queries;
    ln_norm stream_norm;        /* of a stream of dim, before its weights; with gated streams */
    ln_weight token_ids;        /* [n_vocab][ngrams' n_tokens - 1] a token's number plus one */
    const float *token_taps;    /* [n_tokens][n_tokens - 1] those of the tokens before */
    const float *alibi_slopes;  /* [n_heads] or NULL */
    const float *relative_bias; /* [n_relative_buckets][n_heads] or NULL */
    struct {
        ln_weight embedding; /* [n_encoder_vocab][dim] where it has its own */
        ln_weight learned_positions;
        ln_norm embedding_norm, output_norm;
        ln_layer_weights *layers; /* [n_encoder_layers] */
        const float *relative_bias;
    } encoder;
    /* of a head that drafts, whose layers are in `layers`: norms of what it reads, [dim][2 dim]
     * behind them, and what makes of its last norm what an assistant's next draft reads */
    struct {
        ln_norm token_norm, hidden_norm;
        ln_norm aux_norm; /* of rows of hidden states: as they are */
        ln_weight input, state;
    } head;
    void *memory; /* prepared copies, the backend's */
    size_t memory_bytes;
    size_t table_bytes; /* of `layers` and the like, host memory */
    void *table;
    size_t adapter_bytes;           /* that an adapter of the greatest rank takes of its slot */
    size_t n_matrices, n_quantized; /* asked to be quantised on load, and those that were */
} ln_weights;

/* What experts that stay in the file take, of all layers together. */
typedef struct ln_expert_sizes {
    size_t n_experts, n_slots; /* of all layers */
    size_t most_experts;       /* of a layer */
    size_t slot_bytes;         /* of one slot in each layer */
    size_t token_bytes;        /* that a token reads when no expert of its own is there */
} ln_expert_sizes;

/* Who is told how many of the weights' bytes, prepared and mapped, are ready; fn NULL: nobody. */
typedef struct ln_load_progress {
    void (*fn)(void *user, size_t ready_bytes, size_t total_bytes);
    void *user;
    size_t before_bytes, after_bytes; /* of other loads that count as one with this */
} ln_load_progress;

typedef struct ln_weights_options {
    size_t ctx_tokens; /* the longest sequence */
    /* Layers that run here, where a model without an encoder is split over backends; end_layer 0:
     * to the last one. The embedding goes with the first layer, the output with the last. */
    size_t first_layer, end_layer;
    bool head; /* instead of the model the head of its spec's `mtp` */
    /* Of the first so many layers experts are loaded apart, for another backend: they are left out,
     * or with only_experts all else is. */
    size_t experts_apart;
    bool only_experts;
    /* With only_experts: they stay in the file, and a layer has slots for so many of them; 0: all
     * are loaded. */
    size_t expert_slots;
    /* The model's, which stand where the head has none of its own: embedding, output and its norm,
     * ropes; NULL while planning. They outlive the head's. */
    const struct ln_weights *model;
    const ln_dtype
        *quantize; /* what plain matrices of layers and output become; NULL: as they are */
    ln_load_progress progress;
    size_t n_adapters, adapter_rank; /* that can be loaded, and their greatest rank */
    bool adapts_experts;             /* they change experts, too: without ranks */
} ln_weights_options;

#endif
