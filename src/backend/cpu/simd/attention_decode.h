/* The splits of a tile of few query rows, as decode has them: keys and values go from the cache
 * through registers into the products, without being staged, as all rows meet them at once. Every
 * operation on a row is that of attention_tile.h, so the bits are the same.
 *
 * Reading 16 keys of one head here and 16 there makes memory slow. So while one split is
 * multiplied, the next one that the worker is going to have comes into the cache in the order in
 * which it lies in memory, the blocks of all heads one after another, a little with each product.
 */
#ifndef LN_BACKEND_CPU_SIMD_ATTENTION_DECODE_H
#define LN_BACKEND_CPU_SIMD_ATTENTION_DECODE_H

#include "backend/cpu/simd/attention_tile.h"

/* Whether rows, keys and values of the tile are such that the functions below have them. */
static bool is_decode(const query_tile *t) {
    const ln_kv_layer *kv = t->p->kv;
    return INT16_KEYS != 0 && BF16_VALUES != 0 && t->is_int16 && t->is_bf16 &&
           t->n_rows <= QUERIES_AT_ONCE && kv_is_transposed(kv) && kv->k_dim % 2 == 0 &&
           kv->v_dim % LANES == 0;
}

/* Where head number `chunk` of what comes next lies, counted in the order of memory; something that
 * is in the cache anyway if there is no more. */
static const char *chunk_ahead(const query_tile *t, const void *cache, size_t dim, size_t chunk) {
    const ln_kv_layer *kv = t->p->kv;
    const kv_ahead *next = &t->ahead;
    if (chunk >= next->n_blocks * next->n_heads)
        return (const char *)t->queries;
    size_t block = (size_t)next->blocks[chunk / next->n_heads];
    size_t head = next->head + chunk % next->n_heads;
    return (const char *)cache +
           (block * kv->n_heads + head) * ln_kv_head_bytes(kv->dtype, LANES, dim);
}

/* Raw scores of n_rows rows with n_blocks key blocks of the split at `start`. */
LN_INLINE void qk_decode_tile(size_t n_rows, size_t n_blocks, ln_kv_dtype dtype, query_tile *t,
                              size_t start, size_t first) {
    const ln_kv_layer *kv = t->p->kv;
    size_t stride = t->q_stride, n_steps = t->k_steps;
    size_t span = (ln_kv_head_bytes(dtype, LANES, kv->k_dim) + n_steps - 1) / n_steps;
    vf sums[QUERIES_AT_ONCE][VECTORS_AT_ONCE];
    int16_keys keys[VECTORS_AT_ONCE];
    const char *ahead[VECTORS_AT_ONCE];
    for (size_t j = 0; j < n_blocks; j++) {
        size_t block = (size_t)t->block_table[start / LANES + first + j];
        size_t row = (block * kv->n_heads + t->kv_head) * LANES;
        keys[j] = begin_keys(dtype, kv, row, t->key_scales + (first + j) * LANES);
        ahead[j] = chunk_ahead(t, kv->k, kv->k_dim, t->ahead.chunk + first + j);
        for (size_t i = 0; i < n_rows; i++)
            sums[i][j] = vf_set(0.0f);
    }
    for (size_t step = 0; step < n_steps; step++) {
        vf k[VECTORS_AT_ONCE];
        for (size_t j = 0; j < n_blocks; j++) {
            k[j] = two_of_keys(dtype, &keys[j], 2 * step);
            __builtin_prefetch(ahead[j] + step * span, 0, 2);
        }
        for (size_t i = 0; i < n_rows; i++)
            for (size_t j = 0; j < n_blocks; j++)
                sums[i][j] =
                    dot_int16_pairs(sums[i][j], k[j], vf_set(t->queries[i * stride + step]));
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_blocks; j++)
            vf_store(t->scores + i * KV_SPLIT + (first + j) * LANES, sums[i][j]);
}

LN_INLINE void qk_decode(size_t n_rows, ln_kv_dtype dtype, query_tile *t, size_t start,
                         size_t first, size_t last) {
    size_t block = first;
    for (; block + VECTORS_AT_ONCE <= last; block += VECTORS_AT_ONCE)
        qk_decode_tile(n_rows, VECTORS_AT_ONCE, dtype, t, start, block);
    for (; block < last; block++)
        qk_decode_tile(n_rows, 1, dtype, t, start, block);
}

/* The key blocks of the split at `start` and their values; those that are not whole, so that some
 * are to count as zeros, are staged. */
typedef struct decode_values {
    size_t start, first, last;
    bool first_staged, last_staged; /* at t->staged, and a block behind it */
} decode_values;

/* Sums of P V over the split, n_vectors wide. */
LN_INLINE void pv_decode_tile(size_t n_rows, size_t n_vectors, ln_kv_dtype dtype,
                              const query_tile *t, const decode_values *v, const value_sums *to,
                              size_t at) {
    enum { PAIRS = LANES / 2 };
    const ln_kv_layer *kv = t->p->kv;
    size_t span = (ln_kv_head_bytes(dtype, LANES, kv->v_stride) / PAIRS + t->v_width / LANES - 1) /
                  (t->v_width / LANES);
    vf sums[QUERIES_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            sums[i][j] = vf_set(0.0f);
    for (size_t n = v->first; n < v->last; n++) {
        size_t block = (size_t)t->block_table[v->start / LANES + n];
        bf16_values values = begin_values(dtype, kv, (block * kv->n_heads + t->kv_head) * LANES);
        const char *ahead = chunk_ahead(t, kv->v, kv->v_stride, t->ahead.chunk + n);
        ahead += at / LANES * PAIRS * span;
        bool is_last = n + 1 == v->last && v->last_staged;
        const float *staged = is_last ? t->staged + PAIRS * t->v_width : t->staged;
        bool is_staged = is_last || (n == v->first && v->first_staged);
        for (size_t pair = 0; pair < PAIRS; pair++) {
            vf x[VECTORS_AT_ONCE];
            for (size_t j = 0; j < n_vectors; j++) {
                x[j] = is_staged ? vf_load(staged + pair * t->v_width + at + j * LANES)
                                 : two_values(dtype, &values, 2 * pair, at + j * LANES);
                __builtin_prefetch(ahead + (pair * n_vectors + j) * span, 0, 2);
            }
            const float *probs = t->scores + n * PAIRS + pair;
            for (size_t i = 0; i < n_rows; i++)
                for (size_t j = 0; j < n_vectors; j++)
                    sums[i][j] = dot_bf16_pairs(sums[i][j], x[j], vf_set(probs[i * KV_SPLIT]));
        }
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            put_sums(sums[i][j], to, i, t->v_width, at + j * LANES);
}

LN_INLINE void pv_decode(size_t n_rows, ln_kv_dtype dtype, const query_tile *t,
                         const decode_values *v, const value_sums *to) {
    size_t at = 0;
    for (; at + VECTORS_AT_ONCE * LANES <= t->v_width; at += VECTORS_AT_ONCE * LANES)
        pv_decode_tile(n_rows, VECTORS_AT_ONCE, dtype, t, v, to, at);
    for (; at < t->v_width; at += LANES)
        pv_decode_tile(n_rows, 1, dtype, t, v, to, at);
}

/* Rows behind the last one, up to a power of two, count, too: as zeros. */
static size_t fill_up(query_tile *t) {
    size_t n = 1;
    while (n < t->n_rows)
        n *= 2;
    memset(t->queries + t->n_rows * t->q_stride, 0,
           (n - t->n_rows) * t->q_stride * sizeof *t->queries);
    return n;
}

#define FEW_OF_ROWS(dtype, function, ...)                                                          \
    switch (n_rows) {                                                                              \
    case 8: function(AT_ONCE(8), dtype, __VA_ARGS__); return;                                      \
    case 4: function(AT_ONCE(4), dtype, __VA_ARGS__); return;                                      \
    case 2: function(AT_ONCE(2), dtype, __VA_ARGS__); return;                                      \
    default: function(1, dtype, __VA_ARGS__); return;                                              \
    }

#define DECODE_OF_TYPES(function, ...)                                                             \
    switch (t->p->kv->dtype) {                                                                     \
    case LN_KV_F16: FEW_OF_ROWS(LN_KV_F16, function, __VA_ARGS__)                                  \
    case LN_KV_BF16: FEW_OF_ROWS(LN_KV_BF16, function, __VA_ARGS__)                                \
    case LN_KV_FP8: FEW_OF_ROWS(LN_KV_FP8, function, __VA_ARGS__)                                  \
    default: FEW_OF_ROWS(LN_KV_Q8_0, function, __VA_ARGS__)                                        \
    }

static void qk_decode_rows(size_t n_rows, query_tile *t, size_t start, size_t first, size_t last) {
    DECODE_OF_TYPES(qk_decode, t, start, first, last)
}

static void pv_decode_rows(size_t n_rows, const query_tile *t, const decode_values *v,
                           const value_sums *to) {
    DECODE_OF_TYPES(pv_decode, t, v, to)
}

/* As attend_split; its tile is_decode, and in `parts` there is room for rows up to a power of two.
 */
static void attend_decode_split(query_tile *t, size_t start, softmax_rows *alone, float *parts) {
    softmax_rows own = {0};
    softmax_rows *split = alone != NULL ? alone : &own;
    float keep[QUERY_ROWS] = {0}, add[QUERY_ROWS] = {0}; /* also of rows that fill up */
    size_t begin = most_of(t->begin, start);
    size_t end = t->end < start + KV_SPLIT ? t->end : start + KV_SPLIT;
    decode_values v = {.start = start,
                       .first = (begin - start) / LANES,
                       .last = (end - start + LANES - 1) / LANES};
    size_t n_rows = fill_up(t);
    qk_decode_rows(n_rows, t, start, v.first, v.last);
    for (size_t i = 0; i < t->n_rows; i++)
        softmax_row(t, i, start, v.first, v.last, split);
    for (size_t i = t->n_rows; i < n_rows; i++)
        memset(t->scores + i * KV_SPLIT, 0, KV_SPLIT / 2 * sizeof *t->scores);
    value_sums to = {.out = parts};
    if (alone == NULL) {
        merge_totals(&t->sums, split, t->n_rows, keep, add);
        to = (value_sums){keep, add, t->whole};
    }
    v.first_staged = begin > start + v.first * LANES;
    v.last_staged = end < start + v.last * LANES;
    if (v.first + 1 == v.last)
        v.last_staged = v.last_staged || v.first_staged;
    if (v.first_staged)
        stage_values(t, start, v.first, v.first + 1, t->staged);
    if (v.last_staged)
        stage_values(t, start, v.last - 1, v.last, t->staged + LANES / 2 * t->v_width);
    pv_decode_rows(n_rows, t, &v, &to);
}

#endif
