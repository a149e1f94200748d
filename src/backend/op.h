/* The operations of a step. The forward pass records them into an array, one per line; a backend
 * executes the array in order. An operation reads what earlier ones wrote.
 *
 * Activations are float32 rows in the backend's memory: `x [n_rows][width]`, rows contiguous. What
 * an operation reads and writes has ids beside the pointers (ln_value), since memory is used again.
 * Every operation gives the same bits for a row whatever other rows are in the batch, unless the
 * backend was created with lets_rows_vary. */
#ifndef LN_BACKEND_OP_H
#define LN_BACKEND_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/batch.h"
#include "backend/kv_layer.h"
#include "backend/ngrams.h"
#include "backend/rank_ops.h"
#include "backend/recurrent.h"
#include "base/block_copy.h"
#include "format/dtype.h"

enum { LN_ADAPTER_ROWS = 16 }; /* of A and B that lie together */

/* What one adapter makes of a linear: y = multiply * (x W^T + b + B A x) + add, times
 * multiply_after behind the activation. Scales are in B. Of an embedding, whose rows are tokens,
 * the row of token i gets B a[i] added. */
typedef struct ln_adapter_target {
    size_t rank;    /* 0: no A and B */
    const float *a; /* [rank, whole LN_ADAPTER_ROWS][n_in], zero behind rank; of an embedding
                       [n_vocab][rank] */
    const float *b; /* [n_out / LN_ADAPTER_ROWS, rounded up][rank][LN_ADAPTER_ROWS] */
    /* A and B of a linear as adapter_tiles.h has them, where ln_backend.has_adapter_tiles: then a
     * and b are NULL */
    const uint16_t *a_tiles, *b_tiles;
    const float *multiply, *multiply_after; /* [n_out], whole LN_ADAPTER_ROWS, or NULL */
    const float *add;                       /* the same, only with `multiply` */
} ln_adapter_target;

/* A matrix as a backend prepared it: y = x W^T, W [n_rows][n_cols]. */
typedef struct ln_weight {
    ln_dtype dtype;
    size_t n_rows, n_cols;
    size_t row_bytes;
    uint32_t layout;      /* 0: rows as in the checkpoint; others are the backend's own */
    const void *data;     /* [n_rows][row_bytes]; mapped, or in the weights arena; NULL: absent */
    struct ln_lazy *lazy; /* where it is until it lies at `data`; the backend's own, or NULL */
    const float *bias;    /* [n_rows] or NULL */
    /* [n_cols]: column i meets element columns[i] of x, which a gather before the linear puts in
     * its place; NULL: column i meets element i */
    const int32_t *columns;
    ln_adapter_target *adapters; /* [slots] by adapter, or NULL: none can change it; the host's */
    ln_adapter_target *device_adapters; /* the same in the memory of a device, or NULL */
} ln_weight;

typedef enum ln_norm_kind {
    LN_NORM_RMS,          /* x / rms(x) * w */
    LN_NORM_RMS_PLUS_ONE, /* x / rms(x) * (1 + w) */
    LN_NORM_LAYER,        /* (x - mean) / std * w + b */
    LN_NORM_NONE          /* x */
} ln_norm_kind;

/* Weights of a norm; `weight` NULL: all ones. */
typedef struct ln_norm {
    ln_norm_kind kind;
    float eps;
    size_t dim;
    const float *weight; /* [dim] */
    const float *bias;   /* [dim] or NULL */
} ln_norm;

typedef enum ln_activation {
    LN_ACT_NONE,
    LN_ACT_SILU,
    LN_ACT_GELU,      /* exact, with erf */
    LN_ACT_GELU_TANH, /* the tanh approximation */
    LN_ACT_RELU,
    LN_ACT_RELU_SQUARED,
    LN_ACT_SWIGLU_CLAMPED /* gated only: min(g, 7) sigmoid(1.702 g) (clamp(u, -7, 7) + 1) */
} ln_activation;

typedef enum ln_rope_style {
    LN_ROPE_HALF,       /* rotates (i, i + n_dims / 2) */
    LN_ROPE_INTERLEAVED /* rotates (2 i, 2 i + 1) */
} ln_rope_style;

/* Rotary positions with their scaling folded in: angle = position * inv_freq[i], cos and sin
 * multiplied by `magnitude`. */
typedef struct ln_rope {
    ln_rope_style style;
    size_t n_dims;         /* leading dimensions of a head that rotate, even */
    const float *inv_freq; /* [n_dims / 2] */
    float magnitude;
    int32_t first; /* the position of the first token */
    bool last;     /* the last dimensions of a head rotate, not the leading ones */
} ln_rope;

typedef enum ln_op_kind {
    LN_OP_EMBED,
    LN_OP_NORM,
    LN_OP_LINEAR,
    LN_OP_LORA_SHRINK,
    LN_OP_QKV,
    LN_OP_LATENT,
    LN_OP_COMPRESS,
    LN_OP_INDEX,
    LN_OP_ATTENTION,
    LN_OP_ROUTE,
    LN_OP_GROUP,
    LN_OP_COMBINE,
    LN_OP_POINTWISE,
    LN_OP_ROWWISE,
    LN_OP_CONV,
    LN_OP_SCAN,
    LN_OP_GATED_NORM,
    LN_OP_GATHER,
    LN_OP_COPY,
    LN_OP_SAMPLE,
    LN_OP_ALL_REDUCE,
    LN_OP_RANK_GATHER,
    LN_OP_RANK_PASS,
    LN_OP_COUNT
} ln_op_kind;

/* What an operation is called where people read it: "gated norm". */
const char *ln_op_name(ln_op_kind kind);

/* out[token] = table[tokens[token]] * scale (+ types[type]) (+ learned[position + offset]);
 * a token past the table has its first row. Tokens of the batch with an adapter have its row
 * of the table. Of a table that is a part of another, from row `part_begin` on, tokens outside have
 * zeros. With `ngrams`, whose table it is: the rows of a token's heads, side by side. */
typedef struct ln_op_embed {
    const ln_weight *table;   /* [n_vocab][dim] */
    const ln_weight *learned; /* [max positions][dim] or NULL */
    const ln_weight *types;   /* [n_types][dim] of ln_batch.types, or NULL */
    size_t learned_offset;    /* added to the position */
    float scale;
    bool is_part;
    size_t part_begin;
    const ln_ngrams *ngrams; /* or NULL; nothing above counts with it */
    const float *before;     /* with ngrams: [n_tokens][ngrams' n_tokens - 1] */
    float *out;              /* [n_tokens][dim] */
} ln_op_embed;

/* out[i] = residual[i] + scale * norm(x[rows[i]]); without rows: row i; without residual: just
 * the norm. `out` may be `x` or `residual`. `rows` are the batch's logit_rows or hidden_rows. */
typedef struct ln_op_norm {
    const ln_norm *norm;
    size_t n_rows;
    const int32_t *rows; /* [n_rows] or NULL */
    const float *x, *residual;
    float scale;
    float *out;
    /* floats from row to row, 0: dense, and the column where results begin */
    size_t out_stride, out_begin;
} ln_op_norm;

/* Which of several weights a row meets: experts, or one matrix per head. With n_groups 0 there is
 * one weight for all rows. */
typedef struct ln_row_groups {
    size_t n_groups;
    const int32_t *order;  /* [n_rows] rows sorted by group; NULL: row r is of group r % n_groups */
    const int32_t *starts; /* [n_groups + 1] where each group begins in `order` */
} ln_row_groups;

/* y = act(x G^T + g) * (x W^T + b), without gate act(x W^T + b); then y = residual + scale * y.
 * `out` may be `residual`, never `x`. */
typedef struct ln_op_linear {
    const ln_weight *weight; /* W [n_out][n_in]; one per group */
    const ln_weight *gate;   /* G [n_out][n_in], one per group, or NULL */
    ln_row_groups groups;
    ln_activation activation;
    size_t n_rows;
    size_t rows_per_x;           /* output row i reads x row i / rows_per_x; 0: 1 */
    size_t x_stride, out_stride; /* floats from row to row; 0: dense */
    const float *x;              /* [n_rows][n_in] */
    const float *residual;       /* [n_rows][n_out] or NULL */
    float scale;
    float softcap; /* > 0: y = softcap * tanh(y / softcap), last */
    bool precise;  /* what follows magnifies errors: kernels that round x to bf16 keep more of it */
    float *out;    /* [n_rows][n_out] */
    /* Rows with an adapter, or NULL; row r is of token r / rows_per_token (0: of token r /
     * n_groups, or r without groups). What LN_OP_LORA_SHRINK has made of x for weight and gate,
     * [n_rows][low_stride], or NULL. */
    const ln_adapter_rows *adapters;
    const float *low, *gate_low;
    size_t low_stride, rows_per_token;
    bool multiplies; /* one of them multiplies results, too */
} ln_op_linear;

/* The shrink half of adapters' low-rank linears (LoRA): low[i][row] = A x[row] with the A that the
 * row's adapter has for weights[i]; rows without one stay as they are. With a matrix for each head
 * rows are (token, head), weights[i] being the first head's; with sorted groups (experts) they are
 * those of a linear with the same groups. Linears expand: they add B low. */
enum { LN_MAX_LORA_WEIGHTS = 4 };
typedef struct ln_op_lora_shrink {
    const ln_adapter_rows *rows;
    size_t n_weights, n_heads; /* n_heads 0: rows are tokens */
    const ln_weight *weights[LN_MAX_LORA_WEIGHTS];
    float *low[LN_MAX_LORA_WEIGHTS]; /* [n_rows][low_stride] */
    size_t low_stride;               /* floats: the greatest rank, whole LN_ADAPTER_ROWS */
    size_t x_stride;                 /* floats from row to row; 0: dense */
    size_t n_rows;                   /* of x, heads included */
    const float *x;
    ln_row_groups groups;              /* n_groups 0: there are none */
    size_t rows_per_x, rows_per_token; /* with groups, as in the linear */
} ln_op_lora_shrink;

/* Whose adapter changes a row of a linear. */
static inline size_t ln_linear_token(const ln_op_linear *p, size_t row) {
    size_t n = p->rows_per_token > 0 ? p->rows_per_token : p->groups.n_groups;
    return n > 0 ? row / n : row;
}

/* The adapter's part of a weight for a row, or NULL. */
static inline const ln_adapter_target *ln_adapter_of(const ln_adapter_rows *rows,
                                                     const ln_weight *weight, size_t row) {
    int32_t slot = rows != NULL && weight->adapters != NULL ? rows->slots[row] : -1;
    return slot >= 0 ? &weight->adapters[slot] : NULL;
}

typedef enum ln_qk_norm {
    LN_QK_NORM_NONE,
    LN_QK_NORM_HEAD, /* each head by itself; weights [head dim] */
    LN_QK_NORM_FULL, /* all heads of q, or of k, as one row */
    LN_QK_NORM_OWN   /* each head by itself; weights [n_heads][head dim] */
} ln_qk_norm;

/* Queries grow with their position p: by 1 + beta log(1 + floor((p + offset) / period)). */
typedef struct ln_query_scale {
    float beta; /* 0: they do not */
    float period, offset;
} ln_query_scale;

/* In place: q and k norm, then RoPE (or RoPE first), then the scale of queries; then K and V go to
 * their slots. q is NULL for the keys and values of cross-attention, v for the keys of an indexer,
 * which has none, k and v for the queries of a layer that reads the cache of another; what k is
 * afterwards is the backend's own, and so is what q is once the attention right behind has read it.
 */
typedef struct ln_op_qkv {
    float *q, *k;   /* [n_tokens][n_heads * k_dim], [n_tokens][n_kv_heads * k_dim] */
    const float *v; /* [n_tokens][n_kv_heads * v_dim] or NULL */
    size_t n_heads;
    ln_qk_norm qk_norm;
    const ln_norm *q_norm, *k_norm; /* with qk_norm */
    bool norm_after_rope;
    const ln_rope *rope; /* NULL: no rotation */
    ln_query_scale q_scale;
    const ln_kv_layer *kv;
} ln_op_qkv;

/* A token's rows of q, k and v; NULL where the operation has none. */
typedef struct ln_qkv_rows {
    float *q, *k;
    const float *v;
} ln_qkv_rows;

static inline ln_qkv_rows ln_qkv_rows_of(const ln_op_qkv *p, size_t token) {
    size_t n_q = p->n_heads * p->kv->k_dim, n_k = p->kv->n_heads * p->kv->k_dim;
    size_t n_v = p->kv->n_heads * p->kv->v_dim;
    ln_qkv_rows rows = {p->q != NULL ? p->q + token * n_q : NULL,
                        p->k != NULL ? p->k + token * n_k : NULL,
                        p->v != NULL ? p->v + token * n_v : NULL};
    return rows;
}

/* Whether heads take more than a norm and then a rotation, or keys and values less. */
static inline bool ln_qkv_takes_more(const ln_op_qkv *p) {
    return (p->qk_norm != LN_QK_NORM_NONE && p->norm_after_rope) || p->q_scale.beta != 0.0f ||
           p->k == NULL;
}

/* Latent attention (DeepSeek's MLA): a token's cache row is norm(latent) and one rotated key that
 * all heads share. q [n_tokens][n_heads][n_plain + rope dims]: its last dims are rotated into
 * the tail of out [n_tokens][n_heads][n_latent + rope dims]; what comes before that tail is the
 * work of a linear per head. */
typedef struct ln_op_latent {
    const float *q;
    const float *latent; /* [n_tokens][n_latent + rope dims] */
    const ln_norm *norm; /* of n_latent */
    const ln_rope *rope;
    size_t n_heads, n_plain;
    const ln_kv_layer *kv; /* one head of k_dim = n_latent + rope dims */
    float *out;
} ln_op_latent;

/* Compressed entries (DeepSeek V4), which later tokens attend to in place of the tokens that they
 * sum up: a token that ends a run of so many writes, per channel, the sum over the run's rows of
 * value * softmax(gate + bias), then norm and RoPE at the run's first position. Rows of tokens are
 * in the cache, float32, of one head: [values | gates], of `dim` each. With overlaps they are of 2
 * dim: an entry takes the first halves of the rows of the run before, too, if there is one, and the
 * second halves of its own. */
typedef struct ln_op_compress {
    const ln_kv_layer *rows, *entries; /* entries: one head of keys, and no values */
    bool overlaps;
    const float *bias;   /* [entries' entry_tokens][dim or 2 dim] */
    const ln_norm *norm; /* of dim, an entry's k_dim */
    const ln_rope *rope;
} ln_op_compress;

/* Which positions sparse attention reads (DeepSeek V3.2's lightning indexer): of those that a token
 * sees the top_k with the greatest sum over heads of weight * max(q k, 0), ties to the earlier one,
 * in ascending order; all of them where they are no more. With keys of entries, which entries; in
 * tokens (GLM 5 Next): the tokens that these sum up, and those behind the last entry. */
typedef struct ln_op_index {
    const float *q;        /* [n_tokens][n_heads * k_dim] */
    const float *weights;  /* [n_tokens][n_heads] */
    const ln_kv_layer *kv; /* one head of keys, and no values */
    size_t n_heads, top_k;
    bool in_tokens;     /* of entries */
    int32_t *positions; /* [n_tokens][ln_index_width] */
} ln_op_index;

/* Positions, or entries, of a token at most. */
static inline size_t ln_index_width(size_t top_k, size_t run_tokens) {
    return run_tokens > 0 ? (top_k + 1) * run_tokens - 1 : top_k;
}

/* T5's relative positions: a bias per head and bucket of distances. Half of the buckets hold one
 * distance each, the others grow logarithmically up to max_distance. */
typedef struct ln_relative_bias {
    const float *table; /* [n_buckets][n_heads] or NULL: none */
    size_t n_buckets, max_distance;
    bool both_ways; /* half of the buckets are for keys ahead of the query */
} ln_relative_bias;

/* Relative logits, added to scores: each head of a query has a relative query, times the relative
 * embedding of the key's distance. Nothing from n_distances on, nor for keys ahead. */
typedef struct ln_relative_logits {
    const float *queries; /* [n_tokens][n_heads * dim] or NULL: none */
    const float *table;   /* [n_distances][dim] */
    size_t dim, n_distances;
} ln_relative_logits;

/* Paged attention, over the block tables (MHA, GQA and MQA). Scores are scale * q.k, soft-capped,
 * plus the biases; a token at position p sees positions max(0, p - window + 1) .. p, those from the
 * last multiple of chunk on, or all that are cached; with sees_all a window reaches as far ahead.
 *
 * One recurrence for prefill and decode: KV positions are cut into KV splits at absolute multiples
 * of LN_KV_SPLIT; each split starts from nothing, and splits merge in order. K and V are read back
 * from the cache. */
enum { LN_KV_SPLIT = 256 };
typedef struct ln_op_attention {
    const float *q; /* [n_tokens][n_heads * k_dim] */
    const ln_kv_layer *kv;
    size_t n_heads;
    float scale;
    float softcap;             /* 0: none */
    size_t window;             /* tokens; 0: all */
    size_t chunk;              /* tokens; 0: all */
    const float *alibi_slopes; /* [n_heads] or NULL: bias -slope * |key - query position| */
    const float *sinks;        /* [n_heads] or NULL: a score without a value; */
    bool own_sinks;            /* [n_tokens][n_heads], each token has its own */
    ln_relative_bias relative;
    ln_relative_logits relative_logits;
    bool sees_all; /* encoders and cross-attention: not causal */
    bool precise;  /* what follows magnifies errors: kernels do not round values and weights */
    /* of latents: what LN_OP_INDEX has chosen, [n_tokens][top_k], counts as all that a token sees;
     * splits are of these. NULL: it sees all. With entries it is of these. Chosen in runs of so
     * many tokens, they are those behind the last run, too */
    const int32_t *indices;
    size_t top_k, run_tokens;
    /* compressed entries, keys and values in one, that a token sees beside its positions: all that
     * are complete, in splits of their own behind those of positions; NULL: it sees its positions
     * alone */
    const ln_kv_layer *entries;
    float *out; /* [n_tokens][n_heads * v_dim] */
} ln_op_attention;

/* Whether scores are more than a scale of products, soft-capped or not. */
static inline bool ln_attention_has_bias(const ln_op_attention *p) {
    return p->alibi_slopes != NULL || p->relative.table != NULL ||
           p->relative_logits.queries != NULL;
}

/* How many positions count where some are chosen of so many. */
static inline size_t ln_attention_n_chosen(const ln_op_attention *p, size_t n) {
    if (n <= p->top_k)
        return n;
    return p->run_tokens > 0 ? p->top_k + 1 - p->run_tokens + n % p->run_tokens : p->top_k;
}

/* The first position that a query sees, and the one behind the last, of so many that are cached. */
static inline size_t ln_attention_begin(const ln_op_attention *p, size_t position) {
    if (p->chunk > 0)
        return position - position % p->chunk;
    return p->window > 0 && position + 1 > p->window ? position + 1 - p->window : 0;
}

static inline size_t ln_attention_end(const ln_op_attention *p, size_t position, size_t n_cached) {
    if (!p->sees_all)
        return position + 1;
    return p->window > 0 && position + p->window < n_cached ? position + p->window : n_cached;
}

typedef enum ln_router {
    LN_ROUTER_SOFTMAX,        /* softmax over all experts, then the best */
    LN_ROUTER_SOFTMAX_CHOSEN, /* the best, then softmax over these */
    LN_ROUTER_SIGMOID,
    LN_ROUTER_SIGMOID_CHOSEN, /* the best, then the sigmoid of each */
    LN_ROUTER_ROOT_SOFTPLUS,  /* sqrt(softplus(x)) */
    /* The best two, each after a softmax over those that come near it: those behind it by no more
     * than 2 jitter of the larger magnitude; the second of what the first leaves (SparseMixer) */
    LN_ROUTER_SPARSEMIXER
} ln_router;

/* Chooses n_used experts for each token: scores from the router's logits; with groups, only
 * experts of the n_groups_used best groups compete. `bias` counts for the choice alone. With
 * `by_token` a token's experts are its row there, whatever the scores. */
typedef struct ln_op_route {
    const float *logits;       /* [n_tokens][n_experts + n_shared] */
    const float *bias;         /* [n_experts] or NULL */
    const float *expert_scale; /* [n_experts] or NULL: multiplies the weights, last */
    const int32_t *by_token;   /* [n_vocab][n_used] or NULL */
    ln_router router;
    size_t n_experts, n_used;
    size_t n_shared; /* experts of every token, whose scores are behind the others' (sigmoids): what
                        normalises sums them up, too */
    size_t n_groups, n_groups_used; /* n_groups 0: none */
    bool group_by_two;              /* a group's score is the sum of its best two, else its best */
    bool zero_other_groups;         /* experts of other groups compete with 0 */
    bool normalize;                 /* the chosen weights sum to one */
    float scale;
    float jitter;          /* of the sparse mixer */
    int32_t *experts;      /* [n_tokens][n_used], best first, ties to the lower number */
    float *weights;        /* [n_tokens][n_used] */
    float *shared_weights; /* [n_tokens][n_shared], with n_shared */
} ln_op_route;

/* Permutes the rows (token, choice) by expert: those of experts [first_expert, first_expert +
 * n_experts); others are left out. */
typedef struct ln_op_group {
    const int32_t *experts; /* [n_rows] */
    size_t n_rows, first_expert, n_experts;
    int32_t *order;  /* [n_rows] ascending within an expert */
    int32_t *starts; /* [n_experts + 1] */
} ln_op_group;

/* out[t] = residual[t] + scale * (sum over choices of weights[t][i] * x[t][i] + shared[t]), shared
 * times sigmoid(shared_gate[t]) where there is one. With `experts`, choices of experts other than
 * [first_expert, first_expert + n_experts) are left out. */
typedef struct ln_op_combine {
    const float *x;         /* [n_tokens][n_used][dim] */
    const float *weights;   /* [n_tokens][n_used]; NULL: all ones */
    const int32_t *experts; /* [n_tokens][n_used] or NULL */
    size_t first_expert, n_experts;
    size_t n_used, dim;
    const float *shared;      /* [n_tokens][dim] or NULL */
    const float *shared_gate; /* [n_tokens] or NULL */
    const float *residual;    /* [n_tokens][dim] or NULL */
    float scale;
    float *out; /* [n_tokens][dim]; may be `residual` or `shared` */
} ln_op_combine;

/* Whether choice `choice` of a token counts. */
static inline bool ln_combine_takes(const ln_op_combine *p, size_t token, size_t choice) {
    if (p->experts == NULL)
        return true;
    size_t expert = (size_t)p->experts[token * p->n_used + choice];
    return expert >= p->first_expert && expert < p->first_expert + p->n_experts;
}

typedef enum ln_pointwise {
    LN_POINTWISE_GATE,           /* x sigmoid(gate) */
    LN_POINTWISE_ACTIVATED_GATE, /* x activation(gate) */
    LN_POINTWISE_SOFTPLUS_GATE,  /* x softplus(gate) */
    LN_POINTWISE_EXP_SOFTPLUS,   /* exp(gate softplus(x)) */
    LN_POINTWISE_SCALE,          /* x gate */
    LN_POINTWISE_ADD,            /* scale (x + gate) */
    LN_POINTWISE_XIELU,          /* xIELU(x) */
    LN_POINTWISE_LIMITED_SILU,   /* min(silu(gate), limit) clamp(x, -limit, limit) */
    LN_POINTWISE_CLAMP,          /* clamp(x, -limit, limit) */
    LN_POINTWISE_CLAMPED_SWIGLU, /* (clamp(x, -limit, limit) + 1) g sigmoid(scale g), g being
                                    min(gate, limit) */
    LN_POINTWISE_QUERY_SCALE,    /* x times the query scale of the token; rows are tokens */
    LN_POINTWISE_CAPPED_SWIGLU   /* cap(x, scale) cap(gate, limit) sigmoid(gate), where cap(x, c) is
                                    c tanh(x / c) */
} ln_pointwise;

/* xIELU (Huang and Schlag, 2024): for x > 0 alpha_p x^2 + beta x, else
 * alpha_n (expm1(min(x, eps)) - x) + beta x. */
typedef struct ln_xielu {
    float alpha_p, alpha_n, beta, eps;
} ln_xielu;

/* out[row][i] = a function of x[row / rows_per_x][i] and gate[row][i / (dim / n_gates)], or of
 * gate[0] where all rows have the same. */
typedef struct ln_op_pointwise {
    ln_pointwise function;
    size_t n_rows, dim;
    size_t rows_per_x;              /* 0: 1 */
    size_t n_gates;                 /* a divisor of dim */
    const float *x;                 /* [n_rows / rows_per_x][dim] */
    const float *gate;              /* [n_rows][n_gates] */
    size_t gate_begin, gate_stride; /* a row's gates are gate_begin floats into a row of
                                       gate_stride; stride 0: they are the row */
    bool one_gate;                  /* gate is a weight, [n_gates], of all rows */
    ln_activation activation;       /* LN_POINTWISE_ACTIVATED_GATE */
    float scale;                    /* LN_POINTWISE_ADD, and both of SwiGLU */
    ln_xielu xielu;
    ln_query_scale q_scale;
    float limit;
    float *out; /* [n_rows][dim]; may be x or gate where each row reads its own */
} ln_op_pointwise;

typedef enum ln_rowwise {
    /* act(max(x - c, 0)) * y with c = the mean of x's row plus so many standard deviations */
    LN_ROWWISE_SPARSE_GATE,
    /* x at the size of y: x rms(y) / sqrt(max(the mean of x's squares, 1e-5)); n_streams rows of x
     * meet one of y */
    LN_ROWWISE_MATCH,
    /* AltUp (Baykal et al., 2023). With s_0 = x and s_k = streams[k - 1], of which the first goes
     * to out and the others stay where they are: s_i + sum over k of coefs[i][k] s_k */
    LN_ROWWISE_PREDICT,
    /* y + (coefs[0] + 1) (x - y) to out, and streams[k] + (coefs[k + 1] + 1) (x - y) in place */
    LN_ROWWISE_CORRECT,
    /* n_streams squared coefficients to out, of the last so many of x's row: a softmax of each row
     * plus eps, then n_rounds times rows, but for the first time, and columns are divided by their
     * sums plus eps (Sinkhorn and Knopp, 1967) */
    LN_ROWWISE_SINKHORN,
    /* Of n_streams streams, with their coefficients [from][to]: streams[to] = y[to] x + sum over
     * `from` of coefs[from][to] streams[from], in place */
    LN_ROWWISE_MIX,
    /* x with an L2 norm of at most `limit`: x min(1, limit / (sqrt(the sum of its squares) + eps))
     */
    LN_ROWWISE_CLIP_NORM,
    /* Attention over the first n_used of n_streams streams, and x behind them, each as its own key
     * and value, normalised: n = s / sqrt(the mean of its squares + eps); the sum of n by a softmax
     * of query . n / sqrt(dim) (block attention residuals). With raw_values the sum of s by a
     * softmax of query . n (Kimi K3's) */
    LN_ROWWISE_STREAM_ATTENTION,
    /* One number to out: the root of |x . y| / sqrt(dim), at least 1e-3, with the sign of x . y */
    LN_ROWWISE_SIGNED_ROOT,
    /* Weights by product keys (Lample et al., 2019) of y, which has an element for each pair (i, j)
     * of n_keys: the n_used pairs of the greatest sums x[i] + x[n_keys + j] have a softmax of these
     * as weights, all others 0: out[i n_keys + j] = weight y[i n_keys + j]. Elements behind the
     * pairs are 0. Of equal sums that of the greater x[i] counts first, then x[n_keys + j]; of
     * equal numbers the first. */
    LN_ROWWISE_PRODUCT_KEYS
} ln_rowwise;

#define LN_ROWWISE_LEAST_SQUARE 1e-5f
#define LN_ROWWISE_LEAST_DOT    1e-6f
enum { LN_MAX_STREAMS = 7 /* beside the first */, LN_MAX_MIXED = 16 };
enum { LN_MAX_PRODUCT_KEYS = 512, LN_MAX_PRODUCT_USED = 512 };

/* Functions of whole rows. */
typedef struct ln_op_rowwise {
    ln_rowwise function;
    size_t n_rows, dim;
    size_t n_streams;         /* beside the first; at most LN_MAX_STREAMS, or LN_MAX_MIXED */
    ln_activation activation; /* with deviations: LN_ROWWISE_SPARSE_GATE */
    float deviations;
    float eps; /* with n_rounds: LN_ROWWISE_SINKHORN, whose x has dim floats in a row */
    size_t n_rounds;
    float limit; /* LN_ROWWISE_CLIP_NORM */
    /* LN_ROWWISE_STREAM_ATTENTION, less than LN_MAX_MIXED; or LN_ROWWISE_PRODUCT_KEYS, at most
     * n_keys squared and LN_MAX_PRODUCT_USED */
    size_t n_used;
    size_t n_keys;      /* with product keys, at most LN_MAX_PRODUCT_KEYS; squared at most dim */
    const float *query; /* [dim], a weight: LN_ROWWISE_STREAM_ATTENTION */
    bool raw_values;    /* likewise */
    const float *x;     /* [n_rows][dim], or [n_rows][2 n_keys] */
    const float *y;     /* [n_rows][dim], [n_rows / n_streams][dim], [n_rows][n_streams] or NULL */
    const float *coefs; /* [n_rows][n_streams + 1 squared, or not; or n_streams squared] or NULL */
    float *streams;     /* [n_rows][n_streams][dim] or NULL */
    float *out;         /* [n_rows][dim]; may be x or y where each row reads its own; or [n_rows] */
} ln_op_rowwise;

/* One recurrent layer's blocks (recurrent.h). Both caches are float32 with one head and one token
 * in a block, whose k_dim is the block's floats. In their groups' block tables entry j is of the
 * state at position j * LN_STATE_CHUNK (-1: nobody keeps it; entry 0 is not used: that state is
 * zero), and entry 0 is of the tail. The state behind the last whole chunk of a step is always
 * kept. */
typedef struct ln_state_cache {
    ln_state_shape shape;
    const ln_kv_layer *states, *tails;
} ln_state_cache;

/* Causal convolution of each channel over positions: out[t][i] = act(bias[i] + sum over taps j of
 * weight[j][i] * x[t - (n_taps - 1) + j][i]), taps summed in order. x before position 0 is zero,
 * and before the step it is in the cache, where the step's own goes. Several convolutions of a
 * layer share its cache: each has some of the channels there. */
typedef struct ln_op_conv {
    const float *x;      /* [n_tokens][channels] */
    const float *weight; /* [n_taps][channels] */
    const float *bias;   /* [channels] or NULL */
    bool silu;           /* act; else none */
    size_t begin, n;     /* channels [begin, begin + n) of the cache; n 0: all conv_dim of them */
    /* What is added to a token's taps, and each of n_groups equal ranges of channels shares: the
     * tap of the token itself first, [n_tokens][n_groups][n_taps]; or NULL */
    const float *dynamic;
    size_t n_groups;
    const ln_state_cache *cache;
    float *out; /* [n_tokens][channels], not x */
} ln_op_conv;

static inline size_t ln_conv_channels(const ln_op_conv *p) {
    return p->n > 0 ? p->n : p->cache->shape.conv_dim;
}

/* How a token's decay g (a logarithm, at most 0) and step size dt follow from its row of `a`, with
 * dt = clamp(softplus(a + a_bias), dt_min, dt_max). */
typedef enum ln_decay {
    LN_DECAY_HEAD,    /* g = -rate[head] dt; n_decays is n_heads */
    LN_DECAY_CHANNEL, /* g = -rate[head] dt for each of a head's k_dim; n_decays n_heads * k_dim */
    LN_DECAY_FIXED,   /* g = -rate[head], whatever the token; no a */
    LN_DECAY_BOUNDED, /* g = -bound sigmoid(rate[head] (a + a_bias)), for channels, too */
    LN_DECAY_SELECTIVE, /* of Mamba 1, see below */
    LN_DECAY_LRU        /* of RG-LRU, likewise */
} ln_decay;

/* Linear attention with a decaying state. Per head, from the state S0 where the chunk begins, with
 * c the sum of g over the chunk's tokens so far and s < t the chunk's earlier tokens (c is a
 * double, of which only differences are exponentiated; per channel it is a vector inside the
 * products):
 *
 *   u_t = beta_t (v_t - e^{c_t} S0 k_t - sum_s e^{c_t - c_s} (k_s . k_t) u_s)   with b (delta rule)
 *   u_t = dt_t v_t                                                              scales_v
 *   u_t = v_t                                                                   else
 *   o_t = q_scale (e^{c_t} S0 q_t + sum_{s <= t} e^{c_t - c_s} (k_s . q_t) u_s) + skip v_t
 *   the state behind the chunk: e^{c_C} S0 + sum_s e^{c_C - c_s} k_s u_s^T
 *
 * with beta = sigmoid(b). Head h has the q and k of k head h / (n_heads / n_k_heads), or, tiled,
 * h % n_k_heads.
 *
 * A selective scan has one head. Every element of its state decays by itself, by the step size of
 * its column; n_decays is v_dim. Each of n_k_heads equal parts of the columns has keys and queries
 * of its own:
 *
 *   S_t[i][j] = e^{-rate[i][j] dt_t[j]} S_{t-1}[i][j] + k_t[i] dt_t[j] v_t[j]
 *   o_t[j] = sum_i q_t[i] S_t[i][j] + skip[j] v_t[j]
 *
 * which is computed token by token, from the state or a running state of the tail on.
 *
 * The real-gated linear recurrent unit (Griffin) is such a scan with k_dim 1, keys and queries of 1
 * that nobody stores (k and q are NULL), and other steps and updates:
 *
 *   dt_t[j] = sigmoid(a_t[j] + a_bias[j])
 *   S_t[j] = e^{-rate[j] dt_t[j]} S_{t-1}[j] + sqrt(1 - e^{-2 rate[j] dt_t[j]}) v_t[j]
 *
 * where the first token of a sequence counts whole: S_0[j] = v_0[j]. */
typedef struct ln_op_scan {
    const float *q, *k;                  /* rows of n_k_heads * k_dim floats, */
    const float *v;                      /* and of n_heads * v_dim; all parts of the same rows, if
                                            it is not selective */
    size_t q_stride, k_stride, v_stride; /* floats from row to row */
    const float *a;                      /* [n_tokens][n_decays], or NULL with LN_DECAY_FIXED */
    const float *b;                      /* [n_tokens][n_heads] or NULL: no delta rule */
    bool doubles_b;                      /* updates count twice sigmoid(b) */
    ln_decay decay;
    const float *rate;   /* [n_heads], or [k_dim][v_dim] */
    const float *a_bias; /* [n_decays] or NULL */
    const float *skip;   /* [n_heads], or [v_dim], or NULL */
    float dt_min, dt_max;
    float bound; /* of bounded decays */
    float q_scale;
    bool unit_qk; /* q and k are divided by sqrt(sum of squares + 1e-6) of the head first */
    bool scales_v;
    bool tiled;
    const ln_state_cache *cache;
    float *out; /* [n_tokens][n_heads * v_dim], none of the inputs */
} ln_op_scan;

/* out[row] = norm(x[row]) * act(gate[row]), or norm(x[row] * act(gate[row])), over each of the
 * row's groups of dim / n_groups elements by itself. The norm's weights are [dim], or [dim /
 * n_groups] for every group alike; LN_NORM_NONE: the product alone. */
typedef struct ln_op_gated_norm {
    const ln_norm *norm;
    size_t n_rows, dim, n_groups;
    bool gate_first;       /* the second form */
    bool sigmoid;          /* act; else SiLU */
    const float *x, *gate; /* [n_rows][dim] */
    float *out;            /* [n_rows][dim]; may be x */
} ln_op_gated_norm;

/* out[row][i] = x[row][columns[i]] */
typedef struct ln_op_gather {
    const int32_t *columns; /* [dim] */
    size_t n_rows, dim;
    const float *x; /* [n_rows][dim] */
    float *out;     /* [n_rows][dim], not `x` */
} ln_op_gather;

/* Copies KV blocks, as if one after another. The layers of the swap space are like those of the
 * cache and lie in the host's memory; V that is the beginning of K goes with it. */
typedef struct ln_op_copy {
    const ln_kv_layer *layers; /* [n_layers] of the cache */
    const ln_kv_layer *swap;   /* [n_layers] of the swap space, or NULL: there is none */
    size_t n_layers;
    const ln_block_copy *copies; /* [n_copies] */
    size_t n_copies;
} ln_op_copy;

/* ids[row] is what the batch's draw of the row chooses of logits[row], which it edits, and
 * best[row] the greatest logit then; the best are in order of their logits, equal ones of their
 * ids. With NaN among them both are of the first of these; a row of minus infinity gives 0. */
typedef struct ln_op_sample {
    float *logits; /* [n_rows][n_vocab] */
    size_t n_rows, n_vocab;
    int32_t *ids;            /* [n_rows] */
    float *best;             /* [n_rows] */
    ln_draw_report *reports; /* [n_rows], of those that are asked for; NULL: none is */
} ln_op_sample;

/* A result of an operation, from when it is written until its memory is written again; each has an
 * id of its own in a list of operations. 0: nothing, or nothing is known of it. What nothing in the
 * list reads is a result of the list, which its caller reads. */
typedef uint32_t ln_value;

/* Places in ln_op.in and ln_op.out, of operations that have more than x and out. */
enum {
    LN_IN_X = 0,
    LN_IN_RESIDUAL = 1,
    LN_IN_ORDER = 2, /* LINEAR: rows by group */
    LN_IN_STARTS = 3,
    LN_IN_BEFORE = 4, /* LINEAR: what lies between the columns that it writes, and stays */
    LN_IN_LOW = 5,    /* LINEAR: of adapters */
    LN_IN_GATE_LOW = 6,
    LN_IN_Q = 0,
    LN_IN_K = 1, /* QKV */
    LN_IN_V = 2,
    LN_IN_LATENT = 1,        /* LATENT */
    LN_IN_CACHE = 1,         /* ATTENTION: what the list has written to the cache, or 0; COMPRESS:
                                the same of rows */
    LN_IN_INDICES = 2,       /* ATTENTION */
    LN_IN_ENTRIES = 3,       /* ATTENTION: the same of entries */
    LN_IN_RELATIVE = 4,      /* ATTENTION: queries of relative logits */
    LN_IN_SINKS = 5,         /* ATTENTION: of each token */
    LN_IN_TAPS = 1,          /* CONV: of each token */
    LN_IN_INDEX_WEIGHTS = 2, /* INDEX, which has q and the cache as attention has them */
    LN_IN_WEIGHTS = 1,       /* COMBINE */
    LN_IN_SHARED = 2,
    LN_IN_SHARED_GATE = 3,
    LN_IN_COMBINE_RESIDUAL = 4,
    LN_IN_Y = 1, /* ROWWISE */
    LN_IN_COEFS = 2,
    LN_IN_STREAMS = 3,
    LN_IN_SCAN_Q = 1, /* SCAN; X are q, k and v, or v alone of a selective one */
    LN_IN_SCAN_K = 2,
    LN_IN_A = 3,
    LN_IN_BETA = 4,
    LN_OP_MAX_IN = 7,

    LN_OUT = 0,
    LN_OUT_Q = 0, /* QKV */
    LN_OUT_K = 1,
    LN_OUT_CACHE = 2,   /* QKV, LATENT, COMPRESS */
    LN_OUT_EXPERTS = 0, /* ROUTE */
    LN_OUT_WEIGHTS = 1,
    LN_OUT_SHARED_WEIGHTS = 2,
    LN_OUT_ORDER = 0, /* GROUP */
    LN_OUT_STARTS = 1,
    LN_OUT_STREAMS = 1, /* ROWWISE */
    LN_OUT_LOGITS = 0,  /* SAMPLE */
    LN_OUT_IDS = 1,
    LN_OUT_BEST = 2,
    LN_OUT_REPORTS = 3,
    LN_OP_MAX_OUT = 4
};

typedef struct ln_op {
    ln_op_kind kind;
    int32_t layer; /* -1: outside the layers */
    const ln_batch *batch;
    ln_value in[LN_OP_MAX_IN], out[LN_OP_MAX_OUT]; /* 0: absent; values.h */
    uint32_t kept; /* bit i: out[i] is read behind the list, too (ln_values_keep) */
    union {
        ln_op_embed embed;
        ln_op_norm norm;
        ln_op_linear linear;
        ln_op_lora_shrink lora_shrink;
        ln_op_qkv qkv;
        ln_op_latent latent;
        ln_op_compress compress;
        ln_op_index index;
        ln_op_attention attention;
        ln_op_route route;
        ln_op_group group;
        ln_op_combine combine;
        ln_op_pointwise pointwise;
        ln_op_rowwise rowwise;
        ln_op_conv conv;
        ln_op_scan scan;
        ln_op_gated_norm gated_norm;
        ln_op_gather gather;
        ln_op_copy copy;
        ln_op_sample sample;
        ln_op_all_reduce all_reduce;
        ln_op_rank_gather rank_gather;
        ln_op_rank_pass rank_pass;
    };
} ln_op;

#endif
