/* Attention over the paged cache, prefill and decode alike: tiles of query rows (attention_tile.h)
 * are the items that workers take. Where tiles are too few to go round, the splits of a tile are
 * items of their own, which then merge in the order in which a single worker would merge them. */
#ifndef LN_BACKEND_CPU_SIMD_ATTENTION_H
#define LN_BACKEND_CPU_SIMD_ATTENTION_H

#include "backend/cpu/simd/attention_decode.h"

enum { ATTENTION_SHARED = 2 << 20 }; /* bytes of splits that wait to be merged */

/* How a step is cut into tiles: `n_tokens` tokens of a sequence by `n_heads` heads, or fewer, that
 * share a KV head. */
typedef struct tiling {
    const ln_op *op;
    size_t shared; /* heads that share a KV head */
    size_t n_heads, n_tokens;
    size_t per_token;       /* tiles of one token's heads */
    size_t n_tiles, n_rows; /* and the most rows that one has */
    size_t together;        /* tiles whose splits are one item: one after another of one sequence */
    size_t seq, before; /* a sequence, and the tiles before its first: where the search goes on */
} tiling;

static size_t tiles_of(const tiling *cut, size_t seq) {
    const int32_t *starts = cut->op->batch->seq_starts;
    size_t n = (size_t)(starts[seq + 1] - starts[seq]);
    return (n + cut->n_tokens - 1) / cut->n_tokens * cut->per_token;
}

static tiling cut_tiles(const ln_op *op) {
    const ln_op_attention *p = &op->attention;
    tiling cut = {.op = op, .shared = p->n_heads / p->kv->n_heads};
    cut.n_heads = cut.shared < QUERY_ROWS ? cut.shared : QUERY_ROWS;
    cut.n_tokens = p->indices != NULL ? 1 : QUERY_ROWS / cut.n_heads;
    cut.per_token = (cut.shared + cut.n_heads - 1) / cut.n_heads * p->kv->n_heads;
    cut.together = cut.per_token;
    for (size_t seq = 0; seq < op->batch->n_seqs; seq++) {
        const int32_t *starts = op->batch->seq_starts;
        size_t n = (size_t)(starts[seq + 1] - starts[seq]), n_tiles = tiles_of(&cut, seq);
        cut.n_tiles += n_tiles;
        cut.n_rows = most_of(cut.n_rows, (n < cut.n_tokens ? n : cut.n_tokens) * cut.n_heads);
        if (n_tiles != cut.per_token)
            cut.together = 1;
    }
    while ((cut.n_rows & (cut.n_rows - 1)) != 0) /* a power of two */
        cut.n_rows += cut.n_rows & -cut.n_rows;
    return cut;
}

static query_row make_row(const tiling *cut, size_t seq, size_t token, size_t head) {
    const ln_op_attention *p = &cut->op->attention;
    const ln_batch_group *group = &cut->op->batch->groups[p->kv->group];
    size_t item = token * p->n_heads + head;
    size_t position = (size_t)cut->op->batch->positions[token];
    size_t end = ln_attention_end(p, position, (size_t)group->lengths[seq]);
    if (p->indices != NULL)
        end = ln_attention_n_chosen(p, end);
    return (query_row){.q = p->q + item * p->kv->k_dim,
                       .out = p->out + item * p->kv->v_dim,
                       .head = head,
                       .position = position,
                       .begin = ln_attention_begin(p, position),
                       .end = end};
}

/* The rows of tile `number`, which never goes down from call to call, or begins anew at 0. */
static void fill_tile(tiling *cut, size_t number, query_tile *t) {
    const ln_op_attention *p = &cut->op->attention;
    const ln_batch *batch = cut->op->batch;
    const ln_batch_group *group = &batch->groups[p->kv->group];
    if (number < cut->before)
        cut->seq = cut->before = 0;
    for (; number >= cut->before + tiles_of(cut, cut->seq); cut->seq++)
        cut->before += tiles_of(cut, cut->seq);
    size_t seq = cut->seq, of_seq = number - cut->before, of_token = of_seq % cut->per_token;
    size_t parts = cut->per_token / p->kv->n_heads; /* tiles of a KV head */
    size_t token = (size_t)batch->seq_starts[seq] + of_seq / cut->per_token * cut->n_tokens;
    size_t last = (size_t)batch->seq_starts[seq + 1];
    size_t begin = of_token % parts * cut->n_heads, end = begin + cut->n_heads;
    last = token + cut->n_tokens < last ? token + cut->n_tokens : last;
    end = end < cut->shared ? end : cut->shared;
    t->block_table = group->block_tables + seq * group->max_blocks;
    t->indices = p->indices != NULL ? p->indices + token * p->top_k : NULL;
    t->kv_head = of_token / parts;
    t->n_rows = 0;
    for (; token < last; token++)
        for (size_t i = begin; i < end; i++)
            t->rows[t->n_rows++] = make_row(cut, seq, token, t->kv_head * cut->shared + i);
    find_range(t);
}

static void attend_tile(query_tile *t) {
    bool decode = is_decode(t);
    stage_queries(t);
    for (size_t i = 0; i < t->n_rows; i++)
        begin_sums(t->p, &t->rows[i], &t->sums.largest[i], &t->sums.total[i]);
    memset(t->whole, 0, t->n_rows * t->v_width * sizeof *t->whole);
    for (size_t start = t->begin / KV_SPLIT * KV_SPLIT; start < t->end; start += KV_SPLIT)
        if (decode)
            attend_decode_split(t, start, NULL, NULL);
        else
            attend_split(t, start, NULL, NULL);
    for (size_t i = 0; i < t->n_rows; i++)
        for (size_t d = 0; d < t->p->kv->v_dim; d++)
            t->rows[i].out[d] = t->whole[i * t->v_width + d] / t->sums.total[i];
}

/* ---- splits as items ---------------------------------------------------------------------- */

/* In the shared memory: the rows of every tile as they are merged so far, and its splits of this
 * round. */
typedef struct waiting {
    softmax_rows *sums;   /* [n_tiles][1 + n_splits], the merged ones first */
    float *rows;          /* [n_tiles][1 + n_splits][n_rows][v_width] */
    size_t n_rows;        /* of a tile, at most */
    size_t n_splits;      /* of a round */
    size_t first, n_used; /* the round's first split, and how many */
} waiting;

static softmax_rows *waiting_sums(const waiting *w, size_t tile, size_t split) {
    return w->sums + tile * (1 + w->n_splits) + split;
}

static float *waiting_rows(const waiting *w, const query_tile *t, size_t tile, size_t split) {
    return w->rows + (tile * (1 + w->n_splits) + split) * w->n_rows * t->v_width;
}

/* Slices of the longest sequence. */
static size_t most_splits(const ln_op *op) {
    const ln_batch_group *group = &op->batch->groups[op->attention.kv->group];
    size_t most = 0;
    for (size_t seq = 0; seq < op->batch->n_seqs; seq++)
        most = most_of((size_t)group->lengths[seq], most);
    return (most + KV_SPLIT - 1) / KV_SPLIT;
}

/* Merges the round's splits into row i of the tile; the last round finishes it. */
static void merge_row(const query_tile *t, const waiting *w, size_t tile, size_t i, bool is_last) {
    softmax_rows *merged = waiting_sums(w, tile, 0), one = {0}, split = {0};
    float *whole = waiting_rows(w, t, tile, 0) + i * t->v_width, keep[LANES], add[LANES];
    one.largest[0] = merged->largest[i];
    one.total[0] = merged->total[i];
    for (size_t n = 0; n < w->n_used; n++) {
        size_t start = (w->first + n) * KV_SPLIT;
        if (start + KV_SPLIT <= t->rows[i].begin || start >= t->rows[i].end)
            continue; /* nobody wrote what would count as zeros */
        split.largest[0] = waiting_sums(w, tile, 1 + n)->largest[i];
        split.total[0] = waiting_sums(w, tile, 1 + n)->total[i];
        const float *part = waiting_rows(w, t, tile, 1 + n) + i * t->v_width;
        merge_totals(&one, &split, 1, keep, add);
        for (size_t d = 0; d < t->v_width; d += LANES)
            vf_store(whole + d, vf_fma(vf_load(part + d), vf_set(add[0]),
                                       vf_mul(vf_load(whole + d), vf_set(keep[0]))));
    }
    merged->largest[i] = one.largest[0];
    merged->total[i] = one.total[0];
    for (size_t d = 0; is_last && d < t->p->kv->v_dim; d++)
        t->rows[i].out[d] = whole[d] / one.total[0];
}

/* All tiles' rows in turn, each by one worker: before the first round, or after a round. */
static void each_row(tiling *cut, query_tile *t, const waiting *w, const ln_cpu_worker *worker,
                     bool is_first, bool is_last) {
    for (size_t tile = 0; tile < cut->n_tiles; tile++) {
        fill_tile(cut, tile, t);
        softmax_rows *sums = waiting_sums(w, tile, 0);
        for (size_t i = worker->index; i < t->n_rows; i += worker->count)
            if (is_first) {
                begin_sums(t->p, &t->rows[i], &sums->largest[i], &sums->total[i]);
                memset(waiting_rows(w, t, tile, 0) + i * t->v_width, 0, t->v_width * sizeof(float));
            } else {
                merge_row(t, w, tile, i, is_last);
            }
    }
}

/* What split `split` of the round is of the keys and values of the tiles from `tile` on. */
static kv_ahead keys_of(tiling *cut, query_tile *t, const waiting *w, size_t tile, size_t split) {
    size_t start = (w->first + split) * KV_SPLIT, parts = cut->per_token / t->p->kv->n_heads;
    fill_tile(cut, tile, t);
    size_t begin = most_of(t->begin, start),
           end = t->end < start + KV_SPLIT ? t->end : start + KV_SPLIT;
    if (begin >= end)
        return (kv_ahead){0};
    return (kv_ahead){.blocks = t->block_table + begin / LANES,
                      .n_blocks = (end + LANES - 1) / LANES - begin / LANES,
                      .head = t->kv_head,
                      .n_heads = (cut->together + parts - 1) / parts};
}

/* Split `split` of the round of one tile. */
static void attend_part(tiling *cut, query_tile *t, const waiting *w, size_t tile, size_t split) {
    size_t start = (w->first + split) * KV_SPLIT;
    fill_tile(cut, tile, t);
    if (start + KV_SPLIT <= t->begin || start >= t->end)
        return;
    stage_queries(t);
    softmax_rows *sums = waiting_sums(w, tile, 1 + split);
    float *rows = waiting_rows(w, t, tile, 1 + split);
    if (is_decode(t))
        attend_decode_split(t, start, sums, rows);
    else
        attend_split(t, start, sums, rows);
}

/* The splits of a round. While a worker is at one, it knows which one it has next. */
static void attend_round(tiling *cut, query_tile *t, const ln_cpu_worker *worker,
                         const waiting *w) {
    size_t n_items = cut->n_tiles / cut->together * w->n_used, item, next;
    bool has = ln_cpu_take(worker, n_items, &item);
    while (has) {
        size_t tile = item / w->n_used * cut->together, split = item % w->n_used;
        has = ln_cpu_take(worker, n_items, &next);
        t->ahead = (kv_ahead){0};
        if (has)
            t->ahead = keys_of(cut, t, w, next / w->n_used * cut->together, next % w->n_used);
        for (size_t i = 0; i < cut->together; i++) {
            attend_part(cut, t, w, tile + i, split);
            t->ahead.chunk += KV_SPLIT / LANES;
        }
        item = next;
    }
}

static void attend_by_split(tiling *cut, query_tile *t, const ln_cpu_worker *worker, waiting *w) {
    size_t n = most_splits(cut->op);
    each_row(cut, t, w, worker, true, false);
    for (w->first = 0; w->first < n; w->first += w->n_splits) {
        bool is_last = w->first + w->n_splits >= n;
        w->n_used = is_last ? n - w->first : w->n_splits;
        attend_round(cut, t, worker, w);
        ln_cpu_barrier(worker);
        each_row(cut, t, w, worker, false, is_last);
        if (!is_last)
            ln_cpu_barrier(worker);
    }
}

/* Whether splits are to be items: of many tiles together if these are enough for all workers, as
 * memory is read from end to end then; or where tiles do not go round. There must be room for a
 * split of each. */
static bool cuts_splits(tiling *cut, const query_tile *t, const ln_cpu_worker *worker, waiting *w) {
    size_t record = sizeof(softmax_rows) + cut->n_rows * t->v_width * sizeof(float);
    size_t room = ATTENTION_SHARED / record / most_of(cut->n_tiles, 1);
    size_t n_splits = most_splits(cut->op);
    bool is_even = cut->n_tiles % worker->count == 0 || cut->n_tiles >= 8 * worker->count;
    while (cut->together > 1 && (cut->per_token % cut->together != 0 ||
                                 cut->n_tiles / cut->together * n_splits < 4 * worker->count))
        cut->together--;
    if (n_splits < 2 || room < 2 || (cut->together == 1 && (worker->count == 1 || is_even)))
        return false;
    w->n_splits = room - 1 < n_splits ? room - 1 : n_splits;
    w->n_rows = cut->n_rows;
    w->sums = worker->shared;
    w->rows = (float *)(void *)(w->sums + cut->n_tiles * (1 + w->n_splits));
    return true;
}

static void attention(const ln_op *op, const ln_cpu_worker *worker) {
    if (op->attention.kv->block_tokens != LANES || op->attention.entries != NULL) {
        ln_scalar_attention(op, worker);
        return;
    }
    tiling cut = cut_tiles(op);
    query_tile t;
    waiting w;
    size_t tile;
    place_tile(&t, &op->attention, worker->exact, worker->scratch);
    if (cuts_splits(&cut, &t, worker, &w)) {
        attend_by_split(&cut, &t, worker, &w);
        return;
    }
    while (ln_cpu_take(worker, cut.n_tiles, &tile)) {
        fill_tile(&cut, tile, &t);
        attend_tile(&t);
    }
}

#endif
