/* q/k norm, RoPE and the KV write; then attention over the paged cache. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"
#include "base/half.h"

static void normalize_heads(ln_qk_norm kind, const ln_norm *norm, float *row, size_t n_heads,
                            size_t dim) {
    if (kind == LN_QK_NORM_FULL) {
        ln_scalar_norm_row(norm, row, row);
        return;
    }
    ln_norm own = *norm;
    for (size_t head = 0; head < n_heads; head++) {
        ln_scalar_norm_row(&own, row + head * dim, row + head * dim);
        if (kind != LN_QK_NORM_OWN)
            continue;
        own.weight += dim;
        if (own.bias != NULL)
            own.bias += dim;
    }
}

void ln_scalar_rotate(const ln_rope *rope, const float *cos_sin, float *row, size_t n_heads,
                      size_t dim) {
    size_t half = rope->n_dims / 2;
    size_t step = rope->style == LN_ROPE_HALF ? 1 : 2;
    size_t pair = rope->style == LN_ROPE_HALF ? half : 1;
    for (size_t head = 0; head < n_heads; head++) {
        float *x = row + head * dim + (rope->last ? dim - rope->n_dims : 0);
        for (size_t i = 0; i < half; i++) {
            float a = x[i * step], b = x[i * step + pair];
            x[i * step] = a * cos_sin[i] - b * cos_sin[half + i];
            x[i * step + pair] = b * cos_sin[i] + a * cos_sin[half + i];
        }
    }
}

/* One of a layer's two arrays. */
typedef struct kv_array {
    ln_kv_dtype dtype;
    size_t block_tokens;
    size_t dim; /* elements from row to row */
    void *data;
} kv_array;

static kv_array keys_of(const ln_kv_layer *kv) {
    return (kv_array){kv->dtype, kv->block_tokens, kv->k_dim, kv->k};
}

static kv_array values_of(const ln_kv_layer *kv) {
    return (kv_array){kv->dtype, kv->block_tokens, kv->v_stride, kv->v};
}

/* The bytes of a row with a scale, and where that is. */
static uint8_t *scaled_row(const kv_array *array, size_t row, float **scale) {
    size_t offset = row % array->block_tokens;
    char *head =
        (char *)array->data +
        row / array->block_tokens * ln_kv_head_bytes(array->dtype, array->block_tokens, array->dim);
    *scale =
        (float *)(void *)(head + ln_kv_scales_offset(array->block_tokens, array->dim)) + offset;
    return (uint8_t *)head + offset * array->dim;
}

static void store_scaled(const kv_array *array, size_t row, const float *x, size_t n) {
    float *scale, largest = 0.0f, strange = 0.0f; /* NaN, once something is infinite or NaN */
    uint8_t *quants = scaled_row(array, row, &scale);
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
        strange += 0.0f * x[i];
    }
    float inverse = ln_scalar_kv_scale(array->dtype, largest + strange, scale);
    for (size_t i = 0; i < n; i++)
        quants[i] = array->dtype == LN_KV_FP8 ? ln_e4m3_from_f32(x[i] * inverse)
                                              : (uint8_t)lrintf(x[i] * inverse);
}

static const float *load_scaled(const kv_array *array, size_t row, size_t n, float *scratch) {
    float *scale;
    const uint8_t *quants = scaled_row(array, row, &scale);
    for (size_t i = 0; i < n; i++) {
        float quant =
            array->dtype == LN_KV_FP8 ? ln_f32_from_e4m3(quants[i]) : (float)(int8_t)quants[i];
        scratch[i] = quant * *scale;
    }
    return scratch;
}

/* Writes x[n] as a row. */
static void store(kv_array array, size_t row, const float *x, size_t n) {
    size_t at = row * array.dim;
    switch (array.dtype) {
    case LN_KV_F32: memcpy((float *)array.data + at, x, n * sizeof *x); return;
    case LN_KV_F16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)array.data)[at + i] = ln_f16_from_f32(x[i]);
        return;
    case LN_KV_BF16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)array.data)[at + i] = ln_bf16_from_f32(x[i]);
        return;
    case LN_KV_Q8_0:
    case LN_KV_FP8: store_scaled(&array, row, x, n); return;
    }
}

/* The first n elements of a row as float32: where they lie, or in `scratch`. */
static const float *load(kv_array array, size_t row, size_t n, float *scratch) {
    size_t at = row * array.dim;
    switch (array.dtype) {
    case LN_KV_F32: return (const float *)array.data + at;
    case LN_KV_F16:
        for (size_t i = 0; i < n; i++)
            scratch[i] = ln_f32_from_f16(((const uint16_t *)array.data)[at + i]);
        return scratch;
    case LN_KV_BF16:
        for (size_t i = 0; i < n; i++)
            scratch[i] = ln_f32_from_bf16(((const uint16_t *)array.data)[at + i]);
        return scratch;
    case LN_KV_Q8_0:
    case LN_KV_FP8: return load_scaled(&array, row, n, scratch);
    }
    return scratch;
}

const float *ln_scalar_load_key(const ln_kv_layer *kv, size_t row, float *scratch) {
    return load(keys_of(kv), row, kv->k_dim, scratch);
}

void ln_scalar_store_key(const ln_kv_layer *kv, size_t row, const float *x) {
    store(keys_of(kv), row, x, kv->k_dim);
}

static void normalize(const ln_op_qkv *p, const ln_qkv_parts *parts, float *q, float *k) {
    if (p->qk_norm == LN_QK_NORM_NONE)
        return;
    parts->norm(p->qk_norm, p->q_norm, q, p->n_heads, p->kv->k_dim);
    if (k != NULL)
        parts->norm(p->qk_norm, p->k_norm, k, p->kv->n_heads, p->kv->k_dim);
}

static void scale_query(const ln_op_qkv *p, int32_t position, float *q) {
    if (p->q_scale.beta == 0.0f)
        return;
    float scale = ln_scalar_query_scale(&p->q_scale, position);
    for (size_t i = 0; i < p->n_heads * p->kv->k_dim; i++)
        q[i] *= scale;
}

void ln_scalar_qkv_by(const ln_op *op, const ln_cpu_worker *worker, const ln_qkv_parts *parts) {
    const ln_op_qkv *p = &op->qkv;
    const ln_kv_layer *kv = p->kv;
    const ln_batch *batch = op->batch;
    const int32_t *slots = batch->groups[kv->group].slots;
    size_t n_kv_heads = p->k != NULL ? kv->n_heads : 0;
    size_t begin, end;
    ln_cpu_share(worker, batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        ln_qkv_rows row = ln_qkv_rows_of(p, token);
        if (!p->norm_after_rope)
            normalize(p, parts, row.q, row.k);
        if (p->rope != NULL) {
            ln_scalar_fill_angles(p->rope, batch->positions[token], worker->scratch);
            parts->rotate(p->rope, worker->scratch, row.q, p->n_heads, kv->k_dim);
            parts->rotate(p->rope, worker->scratch, row.k, n_kv_heads, kv->k_dim);
        }
        if (p->norm_after_rope)
            normalize(p, parts, row.q, row.k);
        scale_query(p, batch->positions[token], row.q);
        for (size_t head = 0; head < n_kv_heads; head++) {
            parts->store_key(kv, (size_t)slots[token], head, row.k + head * kv->k_dim);
            if (row.v != NULL)
                parts->store_value(kv, (size_t)slots[token], head, row.v + head * kv->v_dim);
        }
    }
}

static void store_key(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    store(keys_of(kv), ln_scalar_kv_row(kv, slot, head), x, kv->k_dim);
}

static void store_value(const ln_kv_layer *kv, size_t slot, size_t head, const float *x) {
    store(values_of(kv), ln_scalar_kv_row(kv, slot, head), x, kv->v_dim);
}

void ln_scalar_qkv(const ln_op *op, const ln_cpu_worker *worker) {
    static const ln_qkv_parts parts = {normalize_heads, ln_scalar_rotate, store_key, store_value};
    ln_scalar_qkv_by(op, worker, &parts);
}

void ln_scalar_latent(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_latent *p = &op->latent;
    const ln_kv_layer *kv = p->kv;
    const ln_batch *batch = op->batch;
    const int32_t *slots = batch->groups[kv->group].slots;
    size_t n_latent = p->norm->dim, n_rope = p->rope->n_dims;
    float *row = worker->scratch, *cos_sin = row + kv->k_dim;
    size_t begin, end;
    ln_cpu_share(worker, batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        const float *latent = p->latent + token * kv->k_dim;
        ln_scalar_fill_angles(p->rope, batch->positions[token], cos_sin);
        ln_scalar_norm_row(p->norm, latent, row);
        memcpy(row + n_latent, latent + n_latent, n_rope * sizeof *row);
        ln_scalar_rotate(p->rope, cos_sin, row + n_latent, 1, n_rope);
        size_t slot = ln_scalar_kv_row(kv, (size_t)slots[token], 0);
        store(keys_of(kv), slot, row, kv->k_dim);
        for (size_t head = 0; head < p->n_heads; head++) {
            size_t at = token * p->n_heads + head;
            const float *q = p->q + at * (p->n_plain + n_rope) + p->n_plain;
            float *out = p->out + at * kv->k_dim + n_latent;
            memcpy(out, q, n_rope * sizeof *out);
            ln_scalar_rotate(p->rope, cos_sin, out, 1, n_rope);
        }
    }
}

/* Running softmax over splits: the largest score, the sum of exp(score - largest), and the
 * weighted sum of values. */
typedef struct softmax_state {
    float largest, total;
    float *sum; /* [v_dim] */
} softmax_state;

typedef struct attention_row {
    const ln_op_attention *p;
    const ln_kv_layer *kv; /* of positions, or of entries */
    const int32_t *block_table;
    const int32_t *indices; /* [end] the positions, or entries, that count as 0, 1 .., or NULL */
    const float *q;         /* [k_dim] */
    size_t head, kv_head;
    size_t position, end; /* it sees keys before `end` */
    float *cache_row;     /* [max head dim] scratch */
} attention_row;

static size_t cache_row_of(const attention_row *row, size_t position) {
    const ln_kv_layer *kv = row->kv;
    position = row->indices != NULL ? (size_t)row->indices[position] : position;
    if (kv->entry_tokens > 0)
        return ln_kv_entry_row(kv, row->block_table, position);
    size_t block = (size_t)row->block_table[position / kv->block_tokens];
    return ln_scalar_kv_row(kv, block * kv->block_tokens + position % kv->block_tokens,
                            row->kv_head);
}

/* Single precision throughout, as in the reference implementation: the buckets' borders depend on
 * it. */
size_t ln_scalar_relative_bucket(const ln_relative_bias *relative, size_t query, size_t key) {
    size_t n = relative->both_ways ? relative->n_buckets / 2 : relative->n_buckets;
    size_t first = relative->both_ways && key > query ? n : 0;
    size_t exact = n / 2;
    size_t distance = key > query ? (relative->both_ways ? key - query : 0) : query - key;
    if (distance < exact)
        return first + distance;
    float growth = logf((float)distance / (float)exact) /
                   (float)log((double)relative->max_distance / (double)exact);
    size_t bucket = exact + (size_t)(growth * (float)(n - exact));
    return first + (bucket < n ? bucket : n - 1);
}

float ln_scalar_relative_logit(const ln_op_attention *p, const float *q, size_t query, size_t key) {
    const ln_relative_logits *bias = &p->relative_logits;
    size_t head = (size_t)(q - p->q) / p->kv->k_dim; /* of all tokens' */
    if (key > query || query - key >= bias->n_distances)
        return 0.0f;
    return ln_scalar_dot(bias->queries + head * bias->dim, bias->table + (query - key) * bias->dim,
                         bias->dim);
}

float ln_scalar_sink(const ln_op_attention *p, const float *q, size_t head) {
    return p->sinks[p->own_sinks ? (size_t)(q - p->q) / p->kv->k_dim : head];
}

static float score_of(const attention_row *row, size_t position) {
    const ln_op_attention *p = row->p;
    const ln_kv_layer *kv = row->kv;
    const float *k = load(keys_of(kv), cache_row_of(row, position), kv->k_dim, row->cache_row);
    float score = p->scale * ln_scalar_dot(row->q, k, kv->k_dim);
    if (p->softcap > 0.0f)
        score = p->softcap * tanhf(score / p->softcap);
    if (p->alibi_slopes != NULL)
        score -= p->alibi_slopes[row->head] *
                 fabsf((float)row->position - (float)position); /* also of keys behind it */
    if (p->relative.table != NULL)
        score +=
            p->relative.table[ln_scalar_relative_bucket(&p->relative, row->position, position) *
                                  p->n_heads +
                              row->head];
    if (p->relative_logits.queries != NULL)
        score += ln_scalar_relative_logit(p, row->q, row->position, position);
    return score;
}

/* KV positions [begin, end) of one split, from nothing. scores [LN_KV_SPLIT] is scratch. */
static void attend_split(const attention_row *row, size_t begin, size_t end, float *scores,
                         softmax_state *state) {
    const ln_kv_layer *kv = row->kv;
    state->largest = -INFINITY;
    state->total = 0.0f;
    memset(state->sum, 0, kv->v_dim * sizeof *state->sum);
    for (size_t position = begin; position < end; position++) {
        float score = score_of(row, position);
        scores[position - begin] = score;
        state->largest = fmaxf(state->largest, score);
    }
    for (size_t position = begin; position < end; position++) {
        float weight = expf(scores[position - begin] - state->largest);
        const float *v =
            load(values_of(kv), cache_row_of(row, position), kv->v_dim, row->cache_row);
        state->total += weight;
        for (size_t i = 0; i < kv->v_dim; i++)
            state->sum[i] += weight * v[i];
    }
}

static void merge(softmax_state *whole, const softmax_state *split, size_t v_dim) {
    float largest = fmaxf(whole->largest, split->largest);
    float keep = expf(whole->largest - largest), add = expf(split->largest - largest);
    whole->largest = largest;
    whole->total = whole->total * keep + split->total * add;
    for (size_t i = 0; i < v_dim; i++)
        whole->sum[i] = whole->sum[i] * keep + split->sum[i] * add;
}

/* Positions [begin, end), split by split, on top of what is in `whole`. */
static void attend_range(const attention_row *row, size_t begin, size_t end, float *scratch,
                         softmax_state *whole) {
    float *scores = scratch;
    softmax_state split = {.sum = scratch + LN_KV_SPLIT};
    while (begin < end) {
        size_t split_end = (begin / LN_KV_SPLIT + 1) * LN_KV_SPLIT;
        if (split_end > end)
            split_end = end;
        attend_split(row, begin, split_end, scores, &split);
        merge(whole, &split, row->kv->v_dim);
        begin = split_end;
    }
}

/* `entries`: the same row as it sees these, or NULL. */
static void attend(const attention_row *row, const attention_row *entries, float *scratch,
                   float *out) {
    const ln_op_attention *p = row->p;
    size_t v_dim = p->kv->v_dim;
    softmax_state whole = {.largest = -INFINITY, .sum = out};
    if (p->sinks != NULL) {
        whole.largest = ln_scalar_sink(p, row->q, row->head);
        whole.total = 1.0f;
    }
    memset(out, 0, v_dim * sizeof *out);
    attend_range(row, ln_attention_begin(p, row->position), row->end, scratch, &whole);
    if (entries != NULL)
        attend_range(entries, 0, entries->end, scratch, &whole);
    for (size_t i = 0; i < v_dim; i++)
        out[i] /= whole.total;
}

/* The row as it sees compressed entries: those that are complete, or the chosen ones of these. */
static attention_row row_of_entries(const ln_op *op, const attention_row *row, size_t token,
                                    size_t seq) {
    const ln_op_attention *p = &op->attention;
    const ln_batch_group *group = &op->batch->groups[p->entries->group];
    attention_row of_entries = *row;
    of_entries.kv = p->entries;
    of_entries.block_table = group->block_tables + seq * group->max_blocks;
    of_entries.indices = p->indices != NULL ? p->indices + token * p->top_k : NULL;
    of_entries.kv_head = 0;
    of_entries.end = ln_kv_entries(p->entries, row->position);
    if (p->indices != NULL && of_entries.end > p->top_k)
        of_entries.end = p->top_k;
    return of_entries;
}

/* Items are (token, head); workers take them in turn, which evens out causal lengths. */
void ln_scalar_attention(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_attention *p = &op->attention;
    const ln_batch *batch = op->batch;
    const ln_batch_group *group = &batch->groups[p->kv->group];
    size_t heads_per_kv = p->n_heads / p->kv->n_heads;
    size_t k_dim = p->kv->k_dim, v_dim = p->kv->v_dim;
    float *cache_row = worker->scratch;
    float *scratch = cache_row + (k_dim > v_dim ? k_dim : v_dim);
    size_t seq = 0;
    for (size_t token = 0; token < batch->n_tokens; token++) {
        while ((size_t)batch->seq_starts[seq + 1] <= token)
            seq++;
        for (size_t head = 0; head < p->n_heads; head++) {
            size_t item = token * p->n_heads + head;
            if (item % worker->count != worker->index)
                continue;
            size_t position = (size_t)batch->positions[token];
            size_t end = ln_attention_end(p, position, (size_t)group->lengths[seq]);
            bool is_chosen = p->indices != NULL && p->entries == NULL;
            if (is_chosen)
                end = ln_attention_n_chosen(p, end);
            attention_row row = {
                .p = p,
                .kv = p->kv,
                .indices = is_chosen ? p->indices + token * p->top_k : NULL,
                .block_table = group->block_tables + seq * group->max_blocks,
                .q = p->q + item * k_dim,
                .head = head,
                .kv_head = head / heads_per_kv,
                .position = position,
                .end = end,
                .cache_row = cache_row,
            };
            attention_row entries = row;
            if (p->entries != NULL)
                entries = row_of_entries(op, &row, token, seq);
            attend(&row, p->entries != NULL ? &entries : NULL, scratch, p->out + item * v_dim);
        }
    }
}
