/* The scalar kernels: plain C, complete, and the oracle for every other instruction set.
 *
 * Order of summation: a sum over K runs in LN_SCALAR_LANES interleaved lanes, k = lane (mod
 * lanes), which are merged pairwise at the end. It depends on K alone. */
#ifndef LN_BACKEND_CPU_SCALAR_SCALAR_H
#define LN_BACKEND_CPU_SCALAR_SCALAR_H

#include <math.h>

#include "backend/cpu/kernels.h"

enum { LN_SCALAR_LANES = 16 };

extern const ln_cpu_kernels ln_scalar_kernels;

void ln_scalar_embed(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_norm(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_linear(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_lora_shrink(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_qkv(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_latent(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_route(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_group(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_combine(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_pointwise(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_conv(const ln_op *op, const ln_cpu_worker *worker);
/* A scan that is selective. */
void ln_scalar_selective(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_scan(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_gated_norm(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_rowwise(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_gather(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_copy(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_sample(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_all_reduce(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_rank_gather(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_rank_pass(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_compress(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_index(const ln_op *op, const ln_cpu_worker *worker);
void ln_scalar_attention(const ln_op *op, const ln_cpu_worker *worker);

/* Floats that a worker needs for states of at most `dim` rows or columns; 0 for 0. */
size_t ln_state_scratch(size_t dim);

/* sum of a[i] * b[i] over n elements, in the order above */
float ln_scalar_dot(const float *a, const float *b, size_t n);

/* Column `column` of B low, of low [rank]. */
float ln_scalar_expand(const ln_adapter_target *target, const float *low, size_t column);
/* Adds what the token's adapter, if it has one, makes of the embedding of `id`. */
void ln_scalar_lora_embedding(const ln_op *op, size_t token, size_t id, float *out);

/* Row `row` of a table as float32: where it lies, or in the worker's scratch. */
typedef const float *(*ln_row_reader)(const ln_weight *table, size_t row,
                                      const ln_cpu_worker *worker);
/* What embed does with the rows of tables, so that all instruction sets walk over tokens alike. */
void ln_scalar_embed_by(const ln_op *op, const ln_cpu_worker *worker, ln_row_reader read_row);

float ln_scalar_activate(ln_activation activation, float x);

/* out[dim] = norm of x[dim]; may be in place. */
void ln_scalar_norm_row(const ln_norm *norm, const float *x, float *out);

/* The bucket of a key at `key` seen from `query`. */
size_t ln_scalar_relative_bucket(const ln_relative_bias *relative, size_t query, size_t key);

/* The sink of a head whose query is at `q`. */
float ln_scalar_sink(const ln_op_attention *p, const float *q, size_t head);

/* The relative logit of a head whose query is at `q` for keys of one position. */
float ln_scalar_relative_logit(const ln_op_attention *p, const float *q, size_t query, size_t key);

/* What qkv does with the heads of a row, so that all instruction sets walk over tokens alike. */
typedef struct ln_qkv_parts {
    void (*norm)(ln_qk_norm kind, const ln_norm *norm, float *row, size_t n_heads, size_t dim);
    void (*rotate)(const ln_rope *rope, const float *cos_sin, float *row, size_t n_heads,
                   size_t dim);
    void (*store_key)(const ln_kv_layer *kv, size_t slot, size_t head, const float *x);
    void (*store_value)(const ln_kv_layer *kv, size_t slot, size_t head, const float *x);
} ln_qkv_parts;
void ln_scalar_qkv_by(const ln_op *op, const ln_cpu_worker *worker, const ln_qkv_parts *parts);

/* Row number `row` of the keys as float32 [k_dim]: where it lies, or in `scratch`. */
const float *ln_scalar_load_key(const ln_kv_layer *kv, size_t row, float *scratch);
/* Writes x [k_dim] as row number `row` of the keys. */
void ln_scalar_store_key(const ln_kv_layer *kv, size_t row, const float *x);

/* What rotates of heads of `dim`, in place, by the angles of ln_scalar_fill_angles. */
void ln_scalar_rotate(const ln_rope *rope, const float *cos_sin, float *row, size_t n_heads,
                      size_t dim);

/* The positions of the top_k greatest of scores[n], ascending; top_k is at most n. */
void ln_scalar_top_k(const float *scores, size_t n, size_t top_k, int32_t *positions);
void ln_scalar_all_positions(size_t n, int32_t *positions);

/* cos then sin of each angle: [n_dims / 2] each */
static inline void ln_scalar_fill_angles(const ln_rope *rope, int32_t position, float *cos_sin) {
    size_t half = rope->n_dims / 2;
    for (size_t i = 0; i < half; i++) {
        float angle = (float)(position + rope->first) * rope->inv_freq[i];
        cos_sin[i] = cosf(angle) * rope->magnitude;
        cos_sin[half + i] = sinf(angle) * rope->magnitude;
    }
}

static inline float ln_scalar_query_scale(const ln_query_scale *scale, int32_t position) {
    float periods = floorf(((float)position + scale->offset) / scale->period);
    return 1.0f + scale->beta * logf(1.0f + periods);
}

/* One head's row of the cache at a slot, counted in rows from the start of k or v. */
static inline size_t ln_scalar_kv_row(const ln_kv_layer *kv, size_t slot, size_t head) {
    size_t block = slot / kv->block_tokens, offset = slot % kv->block_tokens;
    return (block * kv->n_heads + head) * kv->block_tokens + offset;
}

/* The scale of a row of int8 or E4M3 whose largest number is this, or NaN where one is infinite or
 * NaN; returns what it is multiplied with. What is too small for a scale counts as zero. */
static inline float ln_scalar_kv_scale(ln_kv_dtype dtype, float largest, float *scale) {
    float most = dtype == LN_KV_FP8 ? 448.0f : 127.0f;
    bool counts = !(largest <= 1e-30f);
    *scale = counts ? largest / most : 0.0f;
    return counts ? most / largest : 0.0f;
}

#endif
