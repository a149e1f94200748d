/* One tile of attention: up to 64 query rows, (token, head) pairs of one sequence that share a KV
 * head. Split by split of LN_KV_SPLIT positions, keys and then values are staged once for
 * the whole tile, in the form that the products take:
 *   keys [key block][steps][16], a step being one element as float32 or two as int16;
 *   values [steps][v_width], a step being one key as float32 or two as bf16.
 * Scores are sums over k_dim in order, a lane for each key; the weighted values are sums over the
 * keys in order, a lane for each dimension. Both depend on the row alone: keys that another row of
 * the tile needs only add zeros, unless their values are infinite or NaN, which then reach every
 * row of the tile. Slices merge in order.
 *
 * Bytes moved: K and V once per tile, so once for all heads of a group in decode. */
#ifndef LN_BACKEND_CPU_SIMD_ATTENTION_TILE_H
#define LN_BACKEND_CPU_SIMD_ATTENTION_TILE_H

#include "backend/cpu/simd/kv.h"
#include "backend/cpu/simd/math.h"

enum { QUERY_ROWS = 64, KV_SPLIT = LN_KV_SPLIT, STAGE_BLOCKS = 4 };

typedef struct query_row {
    const float *q; /* [k_dim] */
    float *out;     /* [v_dim] */
    size_t head, position;
    size_t begin, end; /* the keys that it sees */
    float q_scale;     /* of its integers */
} query_row;

/* What is merged so far, or one split: the largest score, the sum of P = exp(score -
 * largest), and their sum over the values in `whole` or `parts`. */
typedef struct softmax_rows {
    float largest[QUERY_ROWS], total[QUERY_ROWS];
} softmax_rows;

/* Keys and values that the worker is going to have next: of which blocks, and of which heads. */
typedef struct kv_ahead {
    const int32_t *blocks; /* [n_blocks] */
    size_t n_blocks, head, n_heads;
    size_t chunk; /* heads of blocks that it has come to, without those of the current tile */
} kv_ahead;

typedef struct query_tile {
    const ln_op_attention *p;
    const int32_t *block_table;
    const int32_t *indices; /* [end] the positions that count as 0, 1 .., or NULL; of one token */
    size_t kv_head;
    size_t n_rows;
    size_t begin, end; /* the keys that any row sees */
    size_t k_steps;    /* of a key */
    size_t q_stride;   /* floats from a query to the next */
    size_t v_width;    /* v_dim, filled up to whole vectors */
    bool is_int16;     /* queries and keys are int16 */
    bool is_bf16;      /* values and P are bf16 */
    kv_ahead ahead;
    query_row rows[QUERY_ROWS];
    softmax_rows sums;
    float *queries; /* [QUERY_ROWS][q_stride] */
    float *staged;  /* keys of STAGE_BLOCKS blocks, later the values of a split */
    float *plain;   /* [16][q_stride], rows of keys that are not transposed, or that are chosen */
    float *scores;  /* [QUERY_ROWS][KV_SPLIT], then P */
    float *whole;   /* [QUERY_ROWS][v_width] */
    float key_scales[KV_SPLIT] /* of keys that are int16 */;
} query_tile;

static size_t whole_vectors(size_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

static size_t most_of(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Floats of a worker. */
static size_t attention_scratch(size_t head_dim) {
    size_t width = whole_vectors(head_dim);
    return QUERY_ROWS * (2 * width + KV_SPLIT) + KV_SPLIT * width + LANES * width;
}

/* Lays a tile's arrays out in `scratch`. */
static void place_tile(query_tile *t, const ln_op_attention *p, bool exact, float *scratch) {
    const ln_kv_layer *kv = p->kv;
    bool in_16_bits = !exact && kv->dtype != LN_KV_F32;
    t->p = p;
    t->ahead = (kv_ahead){0};
    t->is_int16 = INT16_KEYS != 0 && in_16_bits;
    t->is_bf16 = BF16_VALUES != 0 && in_16_bits && !p->precise && p->indices == NULL;
    t->k_steps = t->is_int16 ? (kv->k_dim + 1) / 2 : kv->k_dim;
    t->q_stride = whole_vectors(t->k_steps);
    t->v_width = whole_vectors(kv->v_dim);
    t->queries = scratch;
    t->scores = t->queries + QUERY_ROWS * t->q_stride;
    t->whole = t->scores + QUERY_ROWS * KV_SPLIT;
    t->plain = t->whole + QUERY_ROWS * t->v_width;
    t->staged = t->plain + LANES * t->q_stride;
}

/* ---- keys --------------------------------------------------------------------------------- */

/* Where a key and its value lie; of indices behind the last, where those of the last do. */
static size_t row_at(const query_tile *t, size_t position) {
    const ln_kv_layer *kv = t->p->kv;
    if (t->indices != NULL)
        position = (size_t)t->indices[position < t->end ? position : t->end - 1];
    size_t block = (size_t)t->block_table[position / LANES];
    return (block * kv->n_heads + t->kv_head) * LANES + position % LANES;
}

/* The 16 keys from `position` on, which lie in rows or are chosen one by one, as float32 or int16
 * [q_stride][16]. */
static void stage_plain_keys(query_tile *t, size_t position, float *out, float *scales) {
    const ln_kv_layer *kv = t->p->kv;
    for (size_t i = 0; i < LANES; i++) {
        size_t row = row_at(t, position + i);
        float *key = t->plain + i * t->q_stride;
        if (t->is_int16) { /* `out` has room for a row of float32 */
            kv_load_key_row(kv, row, out);
            scales[i] = int16_row(out, kv->k_dim, key);
        } else {
            kv_load_key_row(kv, row, key);
            for (size_t j = kv->k_dim; j < t->q_stride; j++)
                key[j] = 0.0f;
        }
    }
    for (size_t step = 0; step < t->q_stride; step += LANES)
        vf_transpose(t->plain + step, t->q_stride, out + step * LANES);
}

/* The key blocks [first, last) of the split at `start`. */
static void stage_keys(query_tile *t, size_t start, size_t first, size_t last) {
    const ln_kv_layer *kv = t->p->kv;
    for (size_t i = first; i < last; i++) {
        float *out = t->staged + (i - first) * t->q_stride * LANES;
        float *scales = t->key_scales + i * LANES;
        if (!kv_is_transposed(kv) || t->indices != NULL)
            stage_plain_keys(t, start + i * LANES, out, scales);
        else if (t->is_int16)
            store_int16_keys(kv, row_at(t, start + i * LANES), out, scales);
        else
            kv_load_keys(kv, row_at(t, start + i * LANES), out);
    }
}

LN_INLINE vf multiply(bool is_int16, bool is_bf16, vf sum, vf a, const float *b) {
    if (is_int16)
        return dot_int16_pairs(sum, a, vf_set(*b));
    return is_bf16 ? dot_bf16_pairs(sum, a, vf_set(*b)) : vf_fma(vf_set(*b), a, sum);
}

/* q k of n_rows rows with n_vectors blocks of keys. */
LN_INLINE void score_tile(size_t n_rows, size_t n_vectors, bool is_int16, const query_tile *t,
                          const float *q, const float *keys, float *scores) {
    size_t stride = t->q_stride, n_steps = t->k_steps;
    vf sums[QUERIES_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            sums[i][j] = vf_set(0.0f);
    for (size_t step = 0; step < n_steps; step++) {
        vf k[VECTORS_AT_ONCE];
        for (size_t j = 0; j < n_vectors; j++)
            k[j] = vf_load(keys + (j * stride + step) * LANES);
        for (size_t i = 0; i < n_rows; i++)
            for (size_t j = 0; j < n_vectors; j++)
                sums[i][j] = multiply(is_int16, false, sums[i][j], k[j], q + i * stride + step);
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            vf_store(scores + i * KV_SPLIT + j * LANES, sums[i][j]);
}

/* Raw scores of n_rows rows from row `row` on with the staged blocks [first, last) of the split,
 * of which the first one staged is `base`. */
LN_INLINE void score_group(size_t n_rows, bool is_int16, const query_tile *t, size_t row,
                           size_t base, size_t first, size_t last) {
    const float *q = t->queries + row * t->q_stride;
    float *scores = t->scores + row * KV_SPLIT;
    size_t block = first;
    for (; block + VECTORS_AT_ONCE <= last; block += VECTORS_AT_ONCE)
        score_tile(n_rows, VECTORS_AT_ONCE, is_int16, t, q,
                   t->staged + (block - base) * t->q_stride * LANES, scores + block * LANES);
    for (; block < last; block++)
        score_tile(n_rows, 1, is_int16, t, q, t->staged + (block - base) * t->q_stride * LANES,
                   scores + block * LANES);
}

/* ---- groups of rows ----------------------------------------------------------------------- */

/* Rows whose sums are in registers together, and the key blocks of a split that any of them
 * sees. */
typedef struct row_group {
    size_t row, n_rows; /* QUERIES_AT_ONCE rows, or a smaller power of two */
    size_t first, last;
} row_group;

#define AT_ONCE(n) ((n) < QUERIES_AT_ONCE ? (n) : QUERIES_AT_ONCE)

static row_group group_at(const query_tile *t, size_t row, size_t start) {
    size_t left = t->n_rows - row, n = QUERIES_AT_ONCE;
    while (n > left)
        n /= 2;
    size_t begin = SIZE_MAX, end = 0;
    for (size_t i = row; i < row + n; i++) {
        begin = t->rows[i].begin < begin ? t->rows[i].begin : begin;
        end = most_of(t->rows[i].end, end);
    }
    begin = begin > start ? begin - start : 0;
    end = end > start ? end - start : 0;
    end = end < KV_SPLIT ? end : KV_SPLIT;
    row_group group = {.row = row, .n_rows = n};
    if (begin < end) {
        group.first = begin / LANES;
        group.last = (end + LANES - 1) / LANES;
    }
    return group;
}

/* Of the blocks [base, limit) that are staged, those that the group sees. */
LN_INLINE void score_rows(bool is_int16, const query_tile *t, const row_group *g, size_t base,
                          size_t limit) {
    size_t first = most_of(g->first, base), last = g->last < limit ? g->last : limit;
    if (first >= last)
        return;
    switch (g->n_rows) {
    case 8: score_group(AT_ONCE(8), is_int16, t, g->row, base, first, last); return;
    case 4: score_group(AT_ONCE(4), is_int16, t, g->row, base, first, last); return;
    case 2: score_group(AT_ONCE(2), is_int16, t, g->row, base, first, last); return;
    default: score_group(1, is_int16, t, g->row, base, first, last); return;
    }
}

/* Raw scores of the split at `start`, whose key blocks [first, last) some row sees. */
static void score_split(query_tile *t, size_t start, size_t first, size_t last) {
    for (size_t base = first; base < last; base += STAGE_BLOCKS) {
        size_t limit = base + STAGE_BLOCKS < last ? base + STAGE_BLOCKS : last;
        stage_keys(t, start, base, limit);
        for (size_t row = 0; row < t->n_rows;) {
            row_group group = group_at(t, row, start);
            if (INT16_KEYS != 0 && t->is_int16)
                score_rows(true, t, &group, base, limit);
            else
                score_rows(false, t, &group, base, limit);
            row += group.n_rows;
        }
    }
}

/* ---- softmax ------------------------------------------------------------------------------ */

/* Whether scores are more than products and a scale. */
LN_INLINE bool is_biased(const ln_op_attention *p) {
    return p->softcap > 0.0f || ln_attention_has_bias(p);
}

/* Soft cap and biases on the scores of the 16 keys from `key` on. */
static vf bias_scores(const ln_op_attention *p, const query_row *row, size_t key, vf s) {
    if (p->softcap > 0.0f)
        s = vf_softcap(s, p->softcap);
    if (!ln_attention_has_bias(p))
        return s;
    float bias[LANES];
    for (size_t i = 0; i < LANES; i++) {
        bias[i] = 0.0f;
        if (p->alibi_slopes != NULL)
            bias[i] = p->alibi_slopes[row->head] * -fabsf((float)(key + i) - (float)row->position);
        if (p->relative.table != NULL) {
            size_t bucket = ln_scalar_relative_bucket(&p->relative, row->position, key + i);
            bias[i] += p->relative.table[bucket * p->n_heads + row->head];
        }
        if (p->relative_logits.queries != NULL)
            bias[i] += ln_scalar_relative_logit(p, row->q, row->position, key + i);
    }
    return vf_add(s, vf_load(bias));
}

/* -infinity for the lanes outside [begin, end), counted from key `at` on. */
static vf hide_keys(vf s, size_t at, size_t begin, size_t end) {
    float lanes[LANES];
    vf_store(lanes, s);
    for (size_t lane = 0; lane < LANES; lane++)
        if (at + lane < begin || at + lane >= end)
            lanes[lane] = -INFINITY;
    return vf_load(lanes);
}

/* The scores of a row for the key blocks [first, last) of the split at `start`, finished, and
 * -infinity for keys that it does not see; returns the largest. */
static float finish_row(const query_tile *t, size_t i, size_t start, size_t first, size_t last) {
    const query_row *row = &t->rows[i];
    float *scores = t->scores + i * KV_SPLIT;
    size_t begin = row->begin > start ? row->begin - start : 0, end = row->end - start;
    const vf q_scale = vf_set(row->q_scale), scale = vf_set(t->p->scale);
    const bool is_int16 = INT16_KEYS != 0 && t->is_int16, biased = is_biased(t->p);
    vf most = vf_set(-INFINITY);
    for (size_t at = first * LANES; at < last * LANES; at += LANES) {
        vf s = vf_load(scores + at);
        if (is_int16)
            s = vf_mul(int32_to_float(s), vf_mul(vf_load(t->key_scales + at), q_scale));
        s = vf_mul(s, scale);
        if (biased)
            s = bias_scores(t->p, row, start + at, s);
        if (at < begin || at + LANES > end)
            s = hide_keys(s, at, begin, end);
        vf_store(scores + at, s);
        most = vf_max(s, most);
    }
    return vf_largest(most);
}

/* Online softmax: the scores of a row become P = exp(score - largest), as float32 or bf16. */
static void softmax_row(const query_tile *t, size_t i, size_t start, size_t first, size_t last,
                        softmax_rows *split) {
    const query_row *row = &t->rows[i];
    float *scores = t->scores + i * KV_SPLIT;
    const bool is_int16 = INT16_KEYS != 0 && t->is_int16, is_bf16 = BF16_VALUES != 0 && t->is_bf16;
    split->largest[i] = -INFINITY;
    split->total[i] = 0.0f;
    if (row->begin >= start + KV_SPLIT || row->end <= start) {
        for (size_t at = first * LANES; at < last * LANES; at++)
            scores[is_bf16 ? at / 2 : at] = 0.0f;
        return;
    }
    float largest = finish_row(t, i, start, first, last);
    vf sum = vf_set(0.0f);
    for (size_t at = first * LANES; at < last * LANES; at += LANES) {
        vf x = vf_sub(vf_load(scores + at), vf_set(largest));
        vf prob = is_int16 ? exp_16(x) : vf_exp(x);
        sum = vf_add(sum, prob);
        if (is_bf16)
            store_bf16(scores + at / 2, prob);
        else
            vf_store(scores + at, prob);
    }
    split->largest[i] = largest;
    split->total[i] = vf_sum(sum);
}

/* keep and add [QUERY_ROWS] are what the rows so far and the split are multiplied with; the rows
 * take up the split's largest and total. */
static void merge_totals(softmax_rows *sums, const softmax_rows *split, size_t n_rows, float *keep,
                         float *add) {
    for (size_t i = 0; i < whole_vectors(n_rows); i++) {
        keep[i] = add[i] = -INFINITY;
        if (i >= n_rows)
            continue;
        float old = sums->largest[i], most = old > split->largest[i] ? old : split->largest[i];
        bool sees = split->largest[i] != -INFINITY;
        keep[i] = sees ? old - most : 0.0f;
        add[i] = sees ? split->largest[i] - most : -INFINITY;
        sums->largest[i] = most;
    }
    for (size_t i = 0; i < n_rows; i += LANES) {
        vf_store(keep + i, vf_exp(vf_load(keep + i)));
        vf_store(add + i, vf_exp(vf_load(add + i)));
    }
    for (size_t i = 0; i < n_rows; i++)
        sums->total[i] = sums->total[i] * keep[i] + split->total[i] * add[i];
}

/* ---- values ------------------------------------------------------------------------------- */

/* The values of the key blocks [first, last) of the split at `start`, of keys [begin, end) only;
 * zeros for others. */
static void stage_values(const query_tile *t, size_t start, size_t first, size_t last,
                         float *staged) {
    const ln_kv_layer *kv = t->p->kv;
    size_t step = t->is_bf16 ? 2 : 1;
    for (size_t key = first * LANES; key < last * LANES; key += step) {
        size_t position = start + key;
        float *out = staged + (key - first * LANES) / step * t->v_width;
        size_t left = position < t->end ? t->end - position : 0, n = left < step ? left : step;
        if (n == 0 || position + n <= t->begin) {
            memset(out, 0, t->v_width * sizeof *out);
        } else if (t->is_bf16) {
            bf16_values_of(kv, row_at(t, position), n, out);
        } else {
            kv_load_value(kv, row_at(t, position), out);
            for (size_t j = kv->v_dim; j < t->v_width; j++)
                out[j] = 0.0f;
        }
    }
}

/* How the sums of a split end: merged with `whole`, or as they are. */
typedef struct value_sums {
    const float *keep, *add; /* [rows]; NULL: as they are */
    float *out;              /* [rows][v_width] */
} value_sums;

LN_INLINE void put_sums(vf sums, const value_sums *to, size_t row, size_t v_width, size_t at) {
    float *out = to->out + row * v_width + at;
    if (to->keep != NULL)
        sums = vf_fma(sums, vf_set(to->add[row]), vf_mul(vf_load(out), vf_set(to->keep[row])));
    vf_store(out, sums);
}

/* sum over steps of probs[i][step] * values[step], n_vectors wide. */
LN_INLINE void value_tile(size_t n_rows, size_t n_vectors, bool is_bf16, size_t n_steps,
                          const float *probs, const float *values, size_t v_width,
                          const value_sums *to, size_t row, size_t at) {
    vf sums[QUERIES_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            sums[i][j] = vf_set(0.0f);
    for (size_t step = 0; step < n_steps; step++) {
        vf v[VECTORS_AT_ONCE];
        for (size_t j = 0; j < n_vectors; j++)
            v[j] = vf_load(values + step * v_width + j * LANES);
        for (size_t i = 0; i < n_rows; i++)
            for (size_t j = 0; j < n_vectors; j++)
                sums[i][j] =
                    multiply(false, is_bf16, sums[i][j], v[j], probs + i * KV_SPLIT + step);
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            put_sums(sums[i][j], to, row + i, v_width, at + j * LANES);
}

LN_INLINE void value_group(size_t n_rows, bool is_bf16, const query_tile *t, const row_group *g,
                           size_t base, const value_sums *to) {
    size_t row = g->row, step = is_bf16 ? 2 : 1, n_steps = (g->last - g->first) * LANES / step;
    const float *probs = t->scores + row * KV_SPLIT + g->first * LANES / step;
    const float *values = t->staged + (g->first - base) * LANES / step * t->v_width;
    size_t d = 0;
    for (; d + VECTORS_AT_ONCE * LANES <= t->v_width; d += VECTORS_AT_ONCE * LANES)
        value_tile(n_rows, VECTORS_AT_ONCE, is_bf16, n_steps, probs, values + d, t->v_width, to,
                   row, d);
    for (; d < t->v_width; d += LANES)
        value_tile(n_rows, 1, is_bf16, n_steps, probs, values + d, t->v_width, to, row, d);
}

LN_INLINE void value_rows(bool is_bf16, const query_tile *t, const row_group *g, size_t base,
                          const value_sums *to) {
    switch (g->n_rows) {
    case 8: value_group(AT_ONCE(8), is_bf16, t, g, base, to); return;
    case 4: value_group(AT_ONCE(4), is_bf16, t, g, base, to); return;
    case 2: value_group(AT_ONCE(2), is_bf16, t, g, base, to); return;
    default: value_group(1, is_bf16, t, g, base, to); return;
    }
}

/* ---- splits ------------------------------------------------------------------------------- */

/* The split that begins at position `start`: merged into the tile's sums, or alone as `alone` and
 * in parts [n_rows][v_width]. */
static void attend_split(query_tile *t, size_t start, softmax_rows *alone, float *parts) {
    softmax_rows own;
    softmax_rows *split = &own;
    if (alone != NULL)
        split = alone;
    float keep[QUERY_ROWS], add[QUERY_ROWS];
    size_t begin = most_of(t->begin, start);
    size_t end = t->end < start + KV_SPLIT ? t->end : start + KV_SPLIT;
    size_t first = (begin - start) / LANES, last = (end - start + LANES - 1) / LANES;
    score_split(t, start, first, last);
    for (size_t row = 0; row < t->n_rows;) {
        row_group group = group_at(t, row, start);
        for (size_t i = row; i < row + group.n_rows; i++)
            softmax_row(t, i, start, group.first, group.last, split);
        row += group.n_rows;
    }
    value_sums to = {.out = parts};
    if (alone == NULL) {
        merge_totals(&t->sums, split, t->n_rows, keep, add);
        to = (value_sums){keep, add, t->whole};
    }
    stage_values(t, start, first, last, t->staged);
    for (size_t row = 0; row < t->n_rows;) {
        row_group group = group_at(t, row, start);
        row += group.n_rows;
        if (group.first == group.last)
            continue;
        if (BF16_VALUES != 0 && t->is_bf16)
            value_rows(true, t, &group, first, &to);
        else
            value_rows(false, t, &group, first, &to);
    }
}

/* The keys that any row sees. */
static void find_range(query_tile *t) {
    t->begin = SIZE_MAX;
    t->end = 0;
    for (size_t i = 0; i < t->n_rows; i++) {
        t->begin = t->rows[i].begin < t->begin ? t->rows[i].begin : t->begin;
        t->end = most_of(t->rows[i].end, t->end);
    }
}

/* Queries as the products take them. */
static void stage_queries(query_tile *t) {
    size_t k_dim = t->p->kv->k_dim;
    for (size_t i = 0; i < t->n_rows; i++) {
        query_row *row = &t->rows[i];
        float *q = t->queries + i * t->q_stride;
        if (t->is_int16)
            row->q_scale = int16_query(row->q, k_dim, q);
        else
            memcpy(q, row->q, k_dim * sizeof *q);
    }
}

/* What a row has before its first split. */
static void begin_sums(const ln_op_attention *p, const query_row *row, float *largest,
                       float *total) {
    *largest = p->sinks != NULL ? ln_scalar_sink(p, row->q, row->head) : -INFINITY;
    *total = p->sinks != NULL ? 1.0f : 0.0f;
}

#endif
