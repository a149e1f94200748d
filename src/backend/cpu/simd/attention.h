/* Attention over the paged cache, prefill and decode alike.
 *
 * An item of work is a tile of up to 32 query rows, (token, head) pairs of one sequence that share
 * a KV head. Slice by slice of LN_ATTENTION_SLICE positions, K and V become float32 once for the
 * whole tile: K [key block][k_dim][16 keys], V [key][v_dim]. Scores are sums over k_dim in order, a
 * lane for each key; the weighted V are sums over the keys in order, a lane for each dimension.
 * Both depend on the row alone: keys that another row of the tile needs only add zeros.
 *
 * Bytes moved: K and V once per tile, so once for all heads of a group in decode. */
#ifndef LN_BACKEND_CPU_SIMD_ATTENTION_H
#define LN_BACKEND_CPU_SIMD_ATTENTION_H

#include "backend/cpu/simd/kv.h"
#include "backend/cpu/simd/math.h"

enum { QUERY_ROWS = 32, SLICE = LN_ATTENTION_SLICE, ROWS_AT_ONCE = 4, VECTORS_AT_ONCE = 4 };

typedef struct query_row {
    const float *q;
    float *out;
    size_t head, position;
    size_t begin, end;    /* the keys that it sees */
    float largest, total; /* of what is merged so far */
} query_row;

typedef struct query_tile {
    const ln_op_attention *p;
    const int32_t *block_table;
    size_t kv_head;
    size_t n_rows;
    size_t begin, end; /* the keys that any row sees */
    size_t v_width;    /* v_dim, filled up to whole vectors */
    query_row rows[QUERY_ROWS];
    float *keys;   /* [SLICE / 16][k_dim][16] */
    float *values; /* [SLICE][v_width] */
    float *scores; /* [n_rows][SLICE], later the weights */
    float *slice;  /* [n_rows][v_width] */
    float *whole;  /* [n_rows][v_width] */
} query_tile;

static size_t whole_vectors(size_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

/* Floats of a worker. */
static size_t attention_scratch(size_t head_dim) {
    size_t width = whole_vectors(head_dim);
    return SLICE * width * 2 + QUERY_ROWS * (SLICE + 2 * width);
}

/* K and V of positions [begin, end) of the slice at `start`. */
static void load_slice(const query_tile *t, size_t start, size_t begin, size_t end) {
    const ln_kv_layer *kv = t->p->kv;
    for (size_t at = begin / LANES * LANES; at < end; at += LANES) {
        size_t block = (size_t)t->block_table[at / LANES];
        size_t row = (block * kv->n_heads + t->kv_head) * LANES;
        kv_load_keys(kv, row, t->keys + (at - start) * kv->k_dim);
        for (size_t i = at < begin ? begin - at : 0; i < LANES && at + i < end; i++) {
            float *out = t->values + (at + i - start) * t->v_width;
            kv_load_value(kv, row + i, out);
            for (size_t j = kv->v_dim; j < t->v_width; j++)
                out[j] = 0.0f;
        }
    }
}

/* q k of n_rows rows with n_vectors blocks of keys. */
LN_INLINE void score_tile(size_t n_rows, size_t n_vectors, const query_row *rows, size_t k_dim,
                          const float *keys, float *scores) {
    vf sums[ROWS_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            sums[i][j] = vf_set(0.0f);
    for (size_t d = 0; d < k_dim; d++) {
        vf k[VECTORS_AT_ONCE];
        for (size_t j = 0; j < n_vectors; j++)
            k[j] = vf_load(keys + (j * k_dim + d) * LANES);
        for (size_t i = 0; i < n_rows; i++) {
            vf q = vf_set(rows[i].q[d]);
            for (size_t j = 0; j < n_vectors; j++)
                sums[i][j] = vf_fma(q, k[j], sums[i][j]);
        }
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            vf_store(scores + i * SLICE + j * LANES, sums[i][j]);
}

/* Raw scores of all rows with the key blocks [first, last) of the slice. */
static void score_rows(const query_tile *t, size_t first, size_t last) {
    size_t k_dim = t->p->kv->k_dim;
    for (size_t block = first; block < last;) {
        bool many = last - block >= VECTORS_AT_ONCE;
        const float *keys = t->keys + block * LANES * k_dim;
        for (size_t i = 0; i < t->n_rows;) {
            bool full = t->n_rows - i >= ROWS_AT_ONCE;
            float *scores = t->scores + i * SLICE + block * LANES;
            if (full && many)
                score_tile(ROWS_AT_ONCE, VECTORS_AT_ONCE, t->rows + i, k_dim, keys, scores);
            else if (full)
                score_tile(ROWS_AT_ONCE, 1, t->rows + i, k_dim, keys, scores);
            else if (many)
                score_tile(1, VECTORS_AT_ONCE, t->rows + i, k_dim, keys, scores);
            else
                score_tile(1, 1, t->rows + i, k_dim, keys, scores);
            i += full ? ROWS_AT_ONCE : 1;
        }
        block += many ? VECTORS_AT_ONCE : 1;
    }
}

/* Scale, soft cap and biases on the raw scores of the 16 keys from `key` on. */
LN_INLINE vf finish_scores(const ln_op_attention *p, const query_row *row, size_t key, vf s) {
    s = vf_mul(s, vf_set(p->scale));
    if (p->softcap > 0.0f)
        s = vf_softcap(s, p->softcap);
    if (p->alibi_slopes == NULL && p->relative.table == NULL)
        return s;
    float bias[LANES];
    for (size_t i = 0; i < LANES; i++) {
        bias[i] = 0.0f;
        if (p->alibi_slopes != NULL)
            bias[i] = p->alibi_slopes[row->head] * ((float)(key + i) - (float)row->position);
        if (p->relative.table != NULL) {
            size_t bucket = ln_scalar_relative_bucket(&p->relative, row->position, key + i);
            bias[i] += p->relative.table[bucket * p->n_heads + row->head];
        }
    }
    return vf_add(s, vf_load(bias));
}

/* Scores of the blocks [first, last) become weights exp(score - largest), 0 for keys outside
 * [begin, end). Positions count from `start`. */
static void weigh(const ln_op_attention *p, const query_row *row, size_t start, size_t first,
                  size_t last, float *scores, float *largest, float *total) {
    size_t begin = row->begin > start ? row->begin - start : 0;
    size_t end = row->end > start ? row->end - start : 0;
    vf most = vf_set(-INFINITY), sum = vf_set(0.0f);
    for (size_t at = first * LANES; at < last * LANES; at += LANES) {
        if (at + LANES > begin && at < end)
            vf_store(scores + at, finish_scores(p, row, start + at, vf_load(scores + at)));
        for (size_t i = at; i < at + LANES && (at < begin || at + LANES > end); i++)
            if (i < begin || i >= end)
                scores[i] = -INFINITY;
        most = vf_max(vf_load(scores + at), most);
    }
    *largest = vf_largest(most);
    for (size_t at = first * LANES; at < last * LANES; at += LANES) {
        vf weight = vf_exp(vf_sub(vf_load(scores + at), vf_set(*largest)));
        sum = vf_add(sum, weight);
        vf_store(scores + at, weight);
    }
    *total = vf_sum(sum);
}

/* sums[i] = sum over keys [begin, end) of weights[i][key] * values[key], n_vectors wide. */
LN_INLINE void value_tile(size_t n_rows, size_t n_vectors, const query_tile *t, size_t begin,
                          size_t end, const float *weights, const float *values, float *out) {
    vf sums[ROWS_AT_ONCE][VECTORS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            sums[i][j] = vf_set(0.0f);
    for (size_t key = begin; key < end; key++) {
        vf v[VECTORS_AT_ONCE];
        for (size_t j = 0; j < n_vectors; j++)
            v[j] = vf_load(values + key * t->v_width + j * LANES);
        for (size_t i = 0; i < n_rows; i++) {
            vf w = vf_set(weights[i * SLICE + key]);
            for (size_t j = 0; j < n_vectors; j++)
                sums[i][j] = vf_fma(w, v[j], sums[i][j]);
        }
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < n_vectors; j++)
            vf_store(out + i * t->v_width + j * LANES, sums[i][j]);
}

static void sum_values(const query_tile *t, size_t begin, size_t end) {
    for (size_t d = 0; d < t->v_width;) {
        bool many = t->v_width - d >= VECTORS_AT_ONCE * LANES;
        for (size_t i = 0; i < t->n_rows;) {
            bool full = t->n_rows - i >= ROWS_AT_ONCE;
            const float *weights = t->scores + i * SLICE, *values = t->values + d;
            float *out = t->slice + i * t->v_width + d;
            if (full && many)
                value_tile(ROWS_AT_ONCE, VECTORS_AT_ONCE, t, begin, end, weights, values, out);
            else if (full)
                value_tile(ROWS_AT_ONCE, 1, t, begin, end, weights, values, out);
            else if (many)
                value_tile(1, VECTORS_AT_ONCE, t, begin, end, weights, values, out);
            else
                value_tile(1, 1, t, begin, end, weights, values, out);
            i += full ? ROWS_AT_ONCE : 1;
        }
        d += many ? VECTORS_AT_ONCE * LANES : LANES;
    }
}

LN_INLINE float exp_one(float x) {
    float lanes[LANES];
    vf_store(lanes, vf_exp(vf_set(x)));
    return lanes[0];
}

/* Adds a slice's result to what is merged so far. */
static void merge_slice(const query_tile *t, size_t i, query_row *row, float largest, float total) {
    float most = row->largest > largest ? row->largest : largest;
    float keep = exp_one(row->largest - most), add = exp_one(largest - most);
    row->largest = most;
    row->total = row->total * keep + total * add;
    float *whole = t->whole + i * t->v_width;
    const float *slice = t->slice + i * t->v_width;
    for (size_t d = 0; d < t->v_width; d += LANES)
        vf_store(whole + d,
                 vf_fma(vf_load(slice + d), vf_set(add), vf_mul(vf_load(whole + d), vf_set(keep))));
}

/* The slice that begins at position `start`. */
static void attend_slice(query_tile *t, size_t start) {
    float largest[QUERY_ROWS], total[QUERY_ROWS];
    size_t begin = t->begin > start ? t->begin : start;
    size_t end = t->end < start + SLICE ? t->end : start + SLICE;
    size_t first = (begin - start) / LANES, last = (end - start + LANES - 1) / LANES;
    load_slice(t, start, begin, end);
    score_rows(t, first, last);
    for (size_t i = 0; i < t->n_rows; i++)
        weigh(t->p, &t->rows[i], start, first, last, t->scores + i * SLICE, &largest[i], &total[i]);
    sum_values(t, begin - start, end - start);
    for (size_t i = 0; i < t->n_rows; i++)
        if (t->rows[i].begin < start + SLICE && t->rows[i].end > start)
            merge_slice(t, i, &t->rows[i], largest[i], total[i]);
}

static void attend_tile(query_tile *t) {
    const ln_op_attention *p = t->p;
    for (size_t i = 0; i < t->n_rows; i++) {
        query_row *row = &t->rows[i];
        t->begin = i == 0 || row->begin < t->begin ? row->begin : t->begin;
        t->end = i == 0 || row->end > t->end ? row->end : t->end;
        row->largest = p->sinks != NULL ? p->sinks[row->head] : -INFINITY;
        row->total = p->sinks != NULL ? 1.0f : 0.0f;
    }
    memset(t->whole, 0, t->n_rows * t->v_width * sizeof *t->whole);
    for (size_t start = t->begin / SLICE * SLICE; start < t->end; start += SLICE)
        attend_slice(t, start);
    for (size_t i = 0; i < t->n_rows; i++)
        for (size_t d = 0; d < p->kv->v_dim; d++)
            t->rows[i].out[d] = t->whole[i * t->v_width + d] / t->rows[i].total;
}

/* Where the tiles of a step lie: heads [head, head + n_heads) that share a KV head, of the tokens
 * [token, token_end) of a sequence. */
typedef struct tile_place {
    size_t seq, token, token_end, head, n_heads;
} tile_place;

static void fill_tile(const ln_op *op, const tile_place *place, query_tile *t) {
    const ln_op_attention *p = &op->attention;
    const ln_batch *batch = op->batch;
    const ln_batch_group *group = &batch->groups[p->kv->group];
    t->block_table = group->block_tables + place->seq * group->max_blocks;
    t->kv_head = place->head / (p->n_heads / p->kv->n_heads);
    t->n_rows = 0;
    for (size_t token = place->token; token < place->token_end; token++)
        for (size_t i = 0; i < place->n_heads; i++) {
            size_t head = place->head + i, item = token * p->n_heads + head;
            size_t position = (size_t)batch->positions[token];
            size_t end = p->sees_all ? (size_t)group->lengths[place->seq] : position + 1;
            t->rows[t->n_rows++] =
                (query_row){.q = p->q + item * p->kv->k_dim,
                            .out = p->out + item * p->kv->v_dim,
                            .head = head,
                            .position = position,
                            .begin = p->window > 0 && end > p->window ? end - p->window : 0,
                            .end = end};
        }
}

static void attention(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_attention *p = &op->attention;
    const ln_batch *batch = op->batch;
    if (!kv_is_transposed(p->kv)) {
        ln_scalar_attention(op, worker);
        return;
    }
    query_tile t = {.p = p, .v_width = whole_vectors(p->kv->v_dim), .keys = worker->scratch};
    t.values = t.keys + SLICE * p->kv->k_dim;
    t.scores = t.values + SLICE * t.v_width;
    t.slice = t.scores + QUERY_ROWS * SLICE;
    t.whole = t.slice + QUERY_ROWS * t.v_width;
    size_t shared = p->n_heads / p->kv->n_heads, item = 0;
    size_t n_heads = shared < QUERY_ROWS ? shared : QUERY_ROWS, n_tokens = QUERY_ROWS / n_heads;
    for (size_t seq = 0; seq < batch->n_seqs; seq++) {
        size_t last = (size_t)batch->seq_starts[seq + 1];
        for (size_t token = (size_t)batch->seq_starts[seq]; token < last; token += n_tokens)
            for (size_t head = 0; head < p->n_heads; head += n_heads) {
                size_t left = shared - head % shared;
                tile_place place = {seq, token, token + n_tokens < last ? token + n_tokens : last,
                                    head, left < n_heads ? left : n_heads};
                if (item++ % worker->count == worker->index) {
                    fill_tile(op, &place, &t);
                    attend_tile(&t);
                }
                if (left < n_heads)
                    head -= n_heads - left;
            }
    }
}

#endif
