/* q/k norm, RoPE, the KV write and attention, over steps that mix sequences and cut prompts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

/* Two sequences, the first longer than two slices, whose last N_ALONE tokens may be a sequence
 * each. */
enum { MAX_BLOCKS = 80, N_SLOTS = 640, N_TOKENS = 600, N_FIRST = 540, N_ALONE = 64, BUCKETS = 16 };
enum { MAX_DISTANCES = 300, MAX_RELATIVE_DIM = 16 }; /* of relative logits */
/* A sequence of 129 KV splits, on a GPU. */
enum { N_LONG = 33000, N_LONG_SLOTS = 33024 };

typedef struct attention_case {
    const char *name;
    ln_kv_dtype dtype;
    size_t n_heads, kv_heads, k_dim, v_dim, window;
    float softcap;
    bool alibi, sinks, relative, sees_all, rotates, rotates_all;
    ln_rope_style style;
    ln_qk_norm qk_norm;
    size_t n_latent;                  /* > 0: latent attention, k_dim = v_dim + rope dims */
    float scale;                      /* 0: one by which scores lie near each other */
    size_t block;                     /* tokens of a block; 0: 16 */
    size_t relative_dim, n_distances; /* of relative logits; 0: none */
    bool own_sinks;
} attention_case;

typedef struct attention_data {
    float *q, *k, *v, *slopes, *sinks, *table, *inv_freq, *q_norm, *k_norm;
    float *relative, *distances, *own_sinks;
    size_t block, n_blocks; /* tokens of a block, and blocks of a sequence */
    int32_t *tables;        /* [2][n_blocks] */
} attention_data;

/* The tokens of a step: n of each sequence, from a position on. */
typedef struct span {
    size_t begin[2], n[2];
} span;

typedef struct step {
    ln_batch batch;
    int32_t positions[N_TOKENS], slots[N_TOKENS];
    int32_t starts[N_ALONE + 1], lengths[N_ALONE], tables[N_ALONE * MAX_BLOCKS];
    size_t rows[N_TOKENS]; /* of each token in the data */
} step;

/* n more tokens, a sequence of the batch, of sequence number `seq` of the data. */
static void add_sequence(step *s, const attention_data *data, size_t seq, size_t begin, size_t n) {
    ln_batch *batch = &s->batch;
    const int32_t *blocks = data->tables + seq * data->n_blocks;
    memcpy(s->tables + batch->n_seqs * data->n_blocks, blocks, data->n_blocks * sizeof *blocks);
    s->lengths[batch->n_seqs++] = (int32_t)(begin + n);
    for (size_t position = begin; position < begin + n; position++) {
        size_t token = batch->n_tokens++;
        s->positions[token] = (int32_t)position;
        s->slots[token] = blocks[position / data->block] * (int32_t)data->block +
                          (int32_t)(position % data->block);
        s->rows[token] = seq * N_FIRST + position;
    }
    s->starts[batch->n_seqs] = (int32_t)batch->n_tokens;
}

static void begin_step(step *s, const attention_data *data) {
    s->starts[0] = 0;
    s->batch = (ln_batch){.n_groups = 1,
                          .positions = s->positions,
                          .seq_starts = s->starts,
                          .groups = {{s->tables, data->n_blocks, s->lengths, s->slots}}};
}

static void make_step(step *s, const attention_data *data, const span *part) {
    begin_step(s, data);
    for (size_t seq = 0; seq < 2; seq++)
        if (part->n[seq] > 0)
            add_sequence(s, data, seq, part->begin[seq], part->n[seq]);
}

/* What is cached once more, and of each of these tokens what it saw then: more heads' slices than a
 * GPU has warps. */
static void make_step_of_many(step *s, const attention_data *data) {
    begin_step(s, data);
    for (size_t i = 1; i <= N_ALONE; i++)
        add_sequence(s, data, 0, N_FIRST - i, 1);
}

/* Whether the oracle, which is slow, attends for a row of the data. A CPU's kernels have one tile
 * of up to 64 rows, and of 64 keys: so the first and the last of each 64 rows, some between them,
 * and the last of each sequence are enough, up to N_ALONE. What these kernels give for prompts
 * whole and in chunks is compared in all rows. */
static bool is_of_oracle(size_t row) {
    enum { TILE = 64, EVERY = 13, EVERY_SECOND = 20 };
    if (subject.backend->vtable->on_device)
        return true;
    if (row >= N_FIRST)
        return row % EVERY_SECOND == (N_TOKENS - 1) % EVERY_SECOND;
    return row % TILE == 0 || row % TILE == TILE - 1 || row % EVERY == (N_FIRST - 1) % EVERY;
}

/* The oracle's rows alone, each a sequence, when all is cached. */
static void make_step_of_oracle(step *s, const attention_case *c, const attention_data *data) {
    begin_step(s, data);
    for (size_t row = 0; row < N_TOKENS; row++) {
        bool is_second = row >= N_FIRST;
        if (!is_of_oracle(row))
            continue;
        add_sequence(s, data, is_second, is_second ? row - N_FIRST : row, 1);
        if (c->sees_all)
            s->lengths[s->batch.n_seqs - 1] = is_second ? N_TOKENS - N_FIRST : N_FIRST;
    }
}

static float *put_rows(side *s, const step *st, const float *x, size_t width) {
    return put_rows_of(s, x, st->rows, st->batch.n_tokens, width);
}

/* What stays on a side over the steps of a case. */
typedef struct placed {
    ln_kv_layer kv;
    ln_rope rope;
    ln_norm q_norm, k_norm;
    const float *slopes, *sinks, *table, *distances;
} placed;

static placed place(side *s, const attention_case *c, const attention_data *d) {
    size_t n_slots = 2 * d->n_blocks * d->block;
    size_t n_rotated = c->rotates_all ? c->k_dim : c->k_dim / 4 * 2;
    bool full = c->qk_norm == LN_QK_NORM_FULL;
    placed p = {.kv = {.dtype = c->dtype,
                       .block_tokens = d->block,
                       .n_heads = c->kv_heads,
                       .k_dim = c->k_dim,
                       .v_dim = c->v_dim,
                       .v_stride = c->n_latent > 0 ? c->k_dim : c->v_dim}};
    p.kv.k = put_used(s, n_slots * c->kv_heads * c->k_dim * sizeof(float));
    p.kv.v = p.kv.k;
    if (c->n_latent == 0)
        p.kv.v = put_used(s, n_slots * c->kv_heads * c->v_dim * sizeof(float));
    p.rope = (ln_rope){.style = c->style,
                       .n_dims = c->n_latent > 0 ? c->k_dim - c->n_latent : n_rotated,
                       .inv_freq = put(s, d->inv_freq, c->k_dim),
                       .magnitude = 1.1f};
    p.q_norm = (ln_norm){.kind = LN_NORM_RMS, .eps = 1e-5f, .dim = c->k_dim};
    p.k_norm = p.q_norm;
    if (full) {
        p.q_norm.dim *= c->n_heads;
        p.k_norm.dim *= c->kv_heads;
    }
    if (c->n_latent > 0)
        p.k_norm.dim = c->n_latent;
    p.q_norm.weight = put(s, d->q_norm, p.q_norm.dim);
    p.k_norm.weight = put(s, d->k_norm, p.k_norm.dim);
    p.slopes = put(s, d->slopes, c->n_heads);
    p.sinks = put(s, d->sinks, c->n_heads);
    p.table = put(s, d->table, BUCKETS * c->n_heads);
    p.distances = put(s, d->distances, (size_t)MAX_DISTANCES * MAX_RELATIVE_DIM);
    return p;
}

/* The operations of a step: ops[2]. Where they leave what the tokens attended to. */
static float *record_step(side *s, const attention_case *c, const attention_data *d,
                          const placed *p, const step *st, ln_op *ops) {
    size_t n = st->batch.n_tokens, width = c->n_heads * c->v_dim, n_plain = c->k_dim / 2;
    bool is_latent = c->n_latent > 0;
    size_t q_width = is_latent ? n_plain + p->rope.n_dims : c->k_dim;
    float *q = put_rows(s, st, d->q, c->n_heads * q_width);
    float *k = put_rows(s, st, d->k, c->kv_heads * c->k_dim);
    float *attended = put(s, NULL, n * width);
    ops[0] = (ln_op){.batch = &st->batch};
    ops[1] = (ln_op){.kind = LN_OP_ATTENTION, .batch = &st->batch};
    float *query = q;
    if (is_latent) {
        query = put_rows(s, st, d->v, c->n_heads * c->k_dim); /* what a linear put there */
        ops[0].kind = LN_OP_LATENT;
        ops[0].latent = (ln_op_latent){.q = q,
                                       .latent = k,
                                       .norm = &p->k_norm,
                                       .rope = &p->rope,
                                       .n_heads = c->n_heads,
                                       .n_plain = n_plain,
                                       .kv = &p->kv,
                                       .out = query};
    } else {
        ops[0].kind = LN_OP_QKV;
        ops[0].qkv = (ln_op_qkv){.q = q,
                                 .k = k,
                                 .v = put_rows(s, st, d->v, c->kv_heads * c->v_dim),
                                 .n_heads = c->n_heads,
                                 .qk_norm = c->qk_norm,
                                 .q_norm = &p->q_norm,
                                 .k_norm = &p->k_norm,
                                 .rope = c->rotates ? &p->rope : NULL,
                                 .kv = &p->kv};
    }
    ops[1].attention = (ln_op_attention){.q = query,
                                         .kv = &p->kv,
                                         .n_heads = c->n_heads,
                                         .scale = c->scale > 0.0f ? c->scale : 0.3f,
                                         .softcap = c->softcap,
                                         .window = c->window,
                                         .alibi_slopes = c->alibi ? p->slopes : NULL,
                                         .sinks = c->sinks ? p->sinks : NULL,
                                         .sees_all = c->sees_all,
                                         .out = attended};
    if (c->relative)
        ops[1].attention.relative = (ln_relative_bias){p->table, BUCKETS, 64, c->sees_all};
    if (c->own_sinks) {
        ops[1].attention.sinks = put_rows(s, st, d->own_sinks, c->n_heads);
        ops[1].attention.own_sinks = true;
    }
    if (c->relative_dim > 0)
        ops[1].attention.relative_logits =
            (ln_relative_logits){put_rows(s, st, d->relative, c->n_heads * c->relative_dim),
                                 p->distances, c->relative_dim, c->n_distances};
    return attended;
}

/* Runs one step and copies its rows into out [N_TOKENS][n_heads * v_dim]. Without `out` it fills
 * the cache alone. */
static void run_step(side *s, const attention_case *c, const attention_data *d, const placed *p,
                     const step *st, float *out) {
    size_t n_kept = s->n_placed, n = st->batch.n_tokens, width = c->n_heads * c->v_dim;
    ln_op ops[2];
    float *attended = record_step(s, c, d, p, st, ops);
    run_ops(s, ops, out != NULL ? 2 : 1);
    float *rows = get(s, attended, n * width);
    for (size_t i = 0; i < n && out != NULL; i++)
        memcpy(out + st->rows[i] * width, rows + i * width, width * sizeof *rows);
    free(rows);
    free_placed_from(s, n_kept);
}

/* Leaves NaN in the memory that a backend's kernels share, of which attention must read nothing
 * that it did not write. */
static void spoil_memory(side *s) {
    enum { N_ROWS = 64, N_COLS = 8192 };
    matrix m = make_matrix(LN_DTYPE_BF16, 1, N_COLS);
    ln_weight weight = put_weight(s, &m, NULL);
    float *x = malloc(N_ROWS * N_COLS * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < N_ROWS * N_COLS; i++)
        x[i] = NAN;
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = &weight,
                           .n_rows = N_ROWS,
                           .x = put(s, x, N_ROWS * N_COLS),
                           .scale = 1.0f,
                           .out = put(s, NULL, N_ROWS)}};
    run_ops(s, &op, 1);
    free_placed(s);
    free_matrix(&m);
    free(x);
}

/* Chunks as they are only before the end of each sequence, the rest at once. */
static size_t brief_chunk(size_t begin, size_t chunk) {
    enum { N_SECOND = N_TOKENS - N_FIRST, N_LAST = 12 };
    size_t end = begin + chunk;
    if (end < N_SECOND - N_LAST)
        end = N_SECOND - N_LAST;
    if (begin >= N_SECOND && end < N_FIRST - N_LAST)
        end = N_FIRST - N_LAST;
    return end - begin;
}

/* Of these tokens some alone, in front of sequences of more. */
static void make_mixed_step(step *s, const attention_data *data) {
    enum { N_DECODES = 3, N_SECOND = N_TOKENS - N_FIRST, N_LAST = 20 };
    begin_step(s, data);
    for (size_t i = 1; i <= N_DECODES; i++)
        add_sequence(s, data, 0, N_FIRST - 5 * i, 1);
    add_sequence(s, data, 1, N_SECOND - N_LAST, N_LAST);
    add_sequence(s, data, 0, 7, 2 * N_LAST);
}

/* Rows of all tokens, of which the oracle fills in its own; malloc'd. */
static float *run_oracle(const attention_case *c, const attention_data *d) {
    float *out = calloc(N_TOKENS * c->n_heads * c->v_dim, sizeof *out);
    assert_non_null(out);
    bool has_all = subject.backend->vtable->on_device;
    placed p = place(&oracle, c, d);
    step st;
    make_step(&st, d, &(span){.n = {N_FIRST, N_TOKENS - N_FIRST}});
    run_step(&oracle, c, d, &p, &st, has_all ? out : NULL);
    if (!has_all) {
        make_step_of_oracle(&st, c, d);
        run_step(&oracle, c, d, &p, &st, out);
    }
    free_placed(&oracle);
    return out;
}

/* Moves the oracle's rows of out [N_TOKENS][n_heads * v_dim] to its front; the number of elements.
 */
static size_t keep_rows_of_oracle(const attention_case *c, float *out) {
    size_t n = 0, width = c->n_heads * c->v_dim;
    for (size_t row = 0; row < N_TOKENS; row++)
        if (is_of_oracle(row))
            memmove(out + width * n++, out + width * row, width * sizeof *out);
    return n * width;
}

/* All tokens, chunk of each sequence at a time, and with chunks of one many again; malloc'd. */
static float *run_attention(side *s, const attention_case *c, const attention_data *d,
                            size_t chunk) {
    float *out = calloc(N_TOKENS * c->n_heads * c->v_dim, sizeof *out);
    assert_non_null(out);
    spoil_memory(s);
    placed p = place(s, c, d);
    size_t lengths[2] = {N_FIRST, N_TOKENS - N_FIRST};
    step st;
    for (size_t begin = 0, end; begin < N_FIRST; begin = end) {
        span part = {.begin = {begin, begin}};
        end = begin + (ops_is_brief ? brief_chunk(begin, chunk) : chunk);
        for (size_t seq = 0; seq < 2; seq++)
            if (begin < lengths[seq])
                part.n[seq] = lengths[seq] < end ? lengths[seq] - begin : end - begin;
        make_step(&st, d, &part);
        run_step(s, c, d, &p, &st, out);
    }
    if (chunk == 1) {
        make_step_of_many(&st, d);
        run_step(s, c, d, &p, &st, out);
        make_mixed_step(&st, d);
        run_step(s, c, d, &p, &st, out);
    }
    free_placed(s);
    return out;
}

/* A key that differs in its last bit may round to another number in the cache. */
static const double most[] = {[LN_KV_F32] = 5e-6,
                              [LN_KV_F16] = 5e-5,
                              [LN_KV_BF16] = 4e-4,
                              [LN_KV_Q8_0] = 1e-3,
                              [LN_KV_FP8] = 1e-2};

static attention_data make_data(const attention_case *c, size_t n_tokens, size_t n_slots) {
    size_t v_width = c->n_latent > 0 ? c->n_heads * c->k_dim : c->kv_heads * c->v_dim;
    attention_data d = {.q = noise_rows(n_tokens * c->n_heads * c->k_dim),
                        .k = noise_rows(n_tokens * c->kv_heads * c->k_dim),
                        .v = noise_rows(n_tokens * v_width),
                        .slopes = noise_rows(c->n_heads),
                        .sinks = noise_rows(c->n_heads),
                        .table = noise_rows(BUCKETS * c->n_heads),
                        .relative = noise_rows(n_tokens * c->n_heads * c->relative_dim),
                        .distances = noise_rows((size_t)MAX_DISTANCES * MAX_RELATIVE_DIM),
                        .own_sinks = noise_rows(n_tokens * c->n_heads),
                        .inv_freq = noise_rows(c->k_dim),
                        .q_norm = noise_rows(c->n_heads * c->k_dim),
                        .k_norm = noise_rows(c->n_heads * c->k_dim),
                        .block = c->block > 0 ? c->block : 16};
    for (size_t i = 0; i < c->n_heads; i++)
        d.slopes[i] = 0.05f * fabsf(d.slopes[i]);
    d.n_blocks = n_slots / d.block;
    d.tables = malloc(2 * d.n_blocks * sizeof *d.tables);
    assert_non_null(d.tables);
    for (size_t i = 0; i < 2 * d.n_blocks; i++)
        d.tables[i] = (int32_t)(i * 37 % (2 * d.n_blocks));
    return d;
}

static void free_data(attention_data *d) {
    free(d->q), free(d->k), free(d->v), free(d->slopes), free(d->sinks), free(d->table);
    free(d->inv_freq), free(d->q_norm), free(d->k_norm), free(d->tables);
    free(d->relative), free(d->distances), free(d->own_sinks);
}

/* A CPU leaves blocks of other than 16 tokens to the scalar kernels: small heads show that. */
static bool is_left_out(const attention_case *c) {
    return !subject.backend->vtable->on_device && c->block > 0 && c->k_dim > 128;
}

/* Many KV heads fill the warps of a GPU; a CPU takes one after another, so that three are enough.
 */
static attention_case with_fewer_heads(attention_case c) {
    enum { ENOUGH = 3 };
    if (!subject.backend->vtable->on_device && c.kv_heads > ENOUGH) {
        c.n_heads = c.n_heads / c.kv_heads * ENOUGH;
        c.kv_heads = ENOUGH;
    }
    return c;
}

static void check_attention(const attention_case *of_gpu) {
    const attention_case reduced = with_fewer_heads(*of_gpu), *c = &reduced;
    if (is_left_out(c) || !ops_takes_case())
        return;
    attention_data d = make_data(c, N_TOKENS, N_SLOTS);
    size_t n = N_TOKENS * c->n_heads * c->v_dim;
    float *want = run_oracle(c, &d), *whole = run_attention(&subject, c, &d, N_TOKENS);
    static const size_t chunks[] = {61, 7, 1};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && !c->sees_all; i++) {
        float *parts = run_attention(&subject, c, &d, chunks[i]);
        assert_memory_equal(parts, whole, n * sizeof *parts);
        free(parts);
    }
    size_t n_compared = keep_rows_of_oracle(c, whole);
    keep_rows_of_oracle(c, want);
    assert_near(c->name, whole, want, n_compared, c->scale > 0.0f ? 2e-2 : most[c->dtype]);
    free_data(&d);
    free(want), free(whole);
}

static const attention_case attention_cases[] = {
    {"plain f16", LN_KV_F16, 8, 2, 64, 64, 0, 0, .rotates = true},
    {"head 128", LN_KV_F16, 8, 2, 128, 128, 0, 0, .rotates = true},
    {"odd dims", LN_KV_F32, 6, 3, 12, 20, 17, 0, .rotates = true, .style = LN_ROPE_INTERLEAVED},
    {"sinks", LN_KV_BF16, 2, 2, 40, 33, 190, 2.0f, .sinks = true},
    {"alibi", LN_KV_F16, 4, 4, 16, 80, 0, 0, .alibi = true},
    {"distances", LN_KV_F32, 6, 2, 16, 16, 0, 0, .relative_dim = 4, .n_distances = 300},
    {"distances, window", LN_KV_F32, 6, 3, 24, 24, 48, 0, .relative_dim = 5, .n_distances = 48},
    {"distances f16", LN_KV_F16, 12, 2, 64, 64, 0, 0, .relative_dim = 16, .n_distances = 77},
    {"distances q8", LN_KV_Q8_0, 4, 4, 128, 128, 0, 0, .relative_dim = 16, .n_distances = 256},
    {"sinks of tokens", LN_KV_F32, 6, 3, 24, 24, 100, 0, .own_sinks = true},
    {"sinks of tokens f16", LN_KV_F16, 8, 2, 64, 64, 0, 0, .own_sinks = true},
    {"encoder", LN_KV_F32, 4, 4, 16, 16, 0, 0, .relative = true, .sees_all = true},
    {"relative", LN_KV_F16, 20, 5, 8, 8, 100, 1.5f, .sinks = true, .relative = true},
    {"head norm", LN_KV_F16, 6, 2, 256, 256, 0, 0, .rotates = true, .qk_norm = LN_QK_NORM_HEAD},
    {"full norm", LN_KV_F32, 6, 2, 24, 24, 0, 0, .rotates = true, .qk_norm = LN_QK_NORM_FULL},
    {"latent", LN_KV_F16, 4, 1, 144, 128, 0, 0, .n_latent = 128},
    {"int8", LN_KV_Q8_0, 8, 2, 64, 64, 0, 0, .rotates = true},
    {"int8, odd dims", LN_KV_Q8_0, 4, 2, 27, 33, 50, 0, .sinks = true},
    {"bf16 window", LN_KV_BF16, 6, 2, 80, 80, 130, 0, .rotates = true},
    {"alibi 96", LN_KV_F16, 4, 4, 96, 96, 0, 0, .alibi = true},
    {"one kv head", LN_KV_F16, 19, 1, 64, 64, 300, 5.0f, .sinks = true},
    {"int8 128", LN_KV_Q8_0, 8, 1, 128, 128, 270, 0, .rotates = true},
    {"encoder 64", LN_KV_F16, 4, 4, 64, 64, 0, 0, .relative = true, .sees_all = true},
    {"latent int8", LN_KV_Q8_0, 4, 1, 72, 64, 0, 0, .n_latent = 64},
    {"int8, many heads", LN_KV_Q8_0, 16, 16, 64, 64, 0, 0, .rotates = true},
    {"fp8", LN_KV_FP8, 8, 2, 64, 64, 0, 0, .rotates = true},
    {"fp8, odd dims", LN_KV_FP8, 4, 2, 27, 33, 50, 0, .sinks = true},
    {"fp8 128", LN_KV_FP8, 8, 1, 128, 128, 270, 0, .rotates = true},
    {"latent fp8", LN_KV_FP8, 4, 1, 72, 64, 0, 0, .n_latent = 64},
    {"fp8 96, alibi", LN_KV_FP8, 4, 4, 96, 96, 0, 0, .alibi = true},
    {"fp8 encoder", LN_KV_FP8, 4, 4, 64, 64, 0, 0, .relative = true, .sees_all = true},
    {"fp8 256", LN_KV_FP8, 6, 2, 256, 256, 0, 3.0f, .rotates = true},
    {"fp8, many heads", LN_KV_FP8, 16, 16, 64, 64, 0, 0, .rotates = true},
    {"fp8 128, many heads", LN_KV_FP8, 24, 12, 128, 128, 500, 0, .rotates = true},
    {"int8 128, many heads", LN_KV_Q8_0, 24, 12, 128, 128, 500, 0, .rotates = true},
    {"far scores", LN_KV_F16, 8, 2, 128, 128, 0, 0, .rotates = true, .scale = 2.0f},
    {"far scores in bf16", LN_KV_BF16, 8, 2, 128, 128, 0, 0, .rotates = true, .scale = 2.0f},
    {"f16 128, many heads", LN_KV_F16, 24, 12, 128, 128, 500, 0, .rotates = true},
    {"bf16 128, many heads", LN_KV_BF16, 24, 12, 128, 128, 0, 3.0f, .sinks = true, .rotates = true},
    {"bf16 128, one KV head", LN_KV_BF16, 8, 1, 128, 128, 150, 0, .sinks = true, .rotates = true},
    {"f16 128, only itself", LN_KV_F16, 5, 5, 128, 128, 1, 0, .rotates = true},
    {"f16 128, all rotates", LN_KV_F16, 8, 1, 128, 128, 0, 0, .rotates = true, .rotates_all = true},
    {"bf16 128, pairs", LN_KV_BF16, 5, 5, 128, 128, 300, 0, .rotates = true, .rotates_all = true,
     .style = LN_ROPE_INTERLEAVED},
    {"f16 128, biases", LN_KV_F16, 6, 2, 128, 128, 0, 0, .alibi = true, .relative = true},
    {"far scores, window", LN_KV_BF16, 6, 2, 64, 64, 150, 0, .sinks = true, .scale = 3.0f},
    {"far scores, int8", LN_KV_Q8_0, 4, 2, 64, 64, 0, 0, .rotates = true, .scale = 3.0f},
    {"f16 128, small blocks", LN_KV_F16, 4, 2, 128, 128, 0, 0, .rotates = true, .block = 8},
    {"int8 128, small blocks", LN_KV_Q8_0, 4, 2, 128, 128, 200, 0, .rotates = true, .block = 8},
    {"fp8, large blocks", LN_KV_FP8, 4, 2, 64, 64, 0, 0, .rotates = true, .block = 128},
    {"far scores, fp8", LN_KV_FP8, 12, 2, 128, 128, 300, 0, .sinks = true, .scale = 3.0f},
    {"int8 128, sinks", LN_KV_Q8_0, 5, 5, 128, 128, 0, 0, .sinks = true, .rotates = true},
    {"int8, ten heads to one", LN_KV_Q8_0, 10, 1, 64, 64, 0, 0, .rotates = true},
    {"fp8 128, twelve heads to one", LN_KV_FP8, 24, 2, 128, 128, 200, 0, .rotates = true},
    {"f16 64, many heads", LN_KV_F16, 24, 12, 64, 64, 500, 0, .rotates = true},
    {"bf16 64, many heads", LN_KV_BF16, 24, 12, 64, 64, 0, 3.0f, .sinks = true, .rotates = true},
    {"bf16 64, pairs", LN_KV_BF16, 5, 5, 64, 64, 300, 0, .rotates = true, .rotates_all = true,
     .style = LN_ROPE_INTERLEAVED},
    {"f16 64, biases", LN_KV_F16, 6, 2, 64, 64, 0, 0, .alibi = true, .relative = true},
    {"f16 256", LN_KV_F16, 12, 2, 256, 256, 0, 0, .rotates = true},
    {"f16 256, window", LN_KV_F16, 16, 2, 256, 256, 270, 0, .rotates = true,
     .qk_norm = LN_QK_NORM_HEAD},
    {"bf16 256, sinks", LN_KV_BF16, 8, 8, 256, 256, 0, 3.0f, .sinks = true, .rotates = true},
    {"bf16 256, pairs", LN_KV_BF16, 5, 5, 256, 256, 150, 0, .rotates = true,
     .style = LN_ROPE_INTERLEAVED},
    {"f16 128, a warp for all splits", LN_KV_F16, 32, 16, 128, 128, 0, 0, .rotates = true},
    {"bf16 64, a warp for all splits", LN_KV_BF16, 16, 16, 64, 64, 300, 0, .sinks = true},
    {"int8 256", LN_KV_Q8_0, 12, 2, 256, 256, 0, 0, .rotates = true},
    {"fp8 256, window", LN_KV_FP8, 16, 2, 256, 256, 270, 0, .rotates = true,
     .qk_norm = LN_QK_NORM_HEAD},
    {"int8 256, sinks", LN_KV_Q8_0, 5, 5, 256, 256, 0, 0, .sinks = true, .rotates = true},
    {"int8 256, small blocks", LN_KV_Q8_0, 4, 2, 256, 256, 200, 0, .rotates = true, .block = 8},
    {"fp8 256, twelve heads to one", LN_KV_FP8, 24, 2, 256, 256, 200, 0, .rotates = true},
    {"far scores, int8 256", LN_KV_Q8_0, 16, 1, 256, 256, 0, 0, .rotates = true, .scale = 3.0f},
    {"fp8 256, many heads", LN_KV_FP8, 24, 12, 256, 256, 500, 0, .rotates = true},
};

static void attention_is_that_of_scalar(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; i++)
        check_attention(&attention_cases[i]);
}

/* Norms of heads, all of which rotate or none, for which GPUs have a kernel. */
static void norms_of_heads_are_those_of_scalar(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"f16 128, head norm", LN_KV_F16, 8, 2, 128, 128, 0, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"bf16 64, head norm", LN_KV_BF16, 5, 1, 64, 64, 200, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"bf16 256, head norm", LN_KV_BF16, 4, 2, 256, 256, 0, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"f16 128, head norm alone", LN_KV_F16, 6, 3, 128, 128, 0, 0, .qk_norm = LN_QK_NORM_HEAD},
        {"f32 64, head norm", LN_KV_F32, 4, 2, 64, 64, 0, 0, .rotates = true, .rotates_all = true,
         .qk_norm = LN_QK_NORM_HEAD},
        {"int8 256, head norm", LN_KV_Q8_0, 12, 2, 256, 256, 0, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"fp8 256, head norm", LN_KV_FP8, 3, 1, 256, 256, 130, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD, .block = 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(&cases[i]);
}

/* Encoders whose tokens see those behind them: all, or within a window that reaches both ways. */
static void attention_sees_both_ways(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"all", LN_KV_F32, 4, 4, 32, 32, 0, 0, .rotates = true, .sees_all = true},
        {"all f16", LN_KV_F16, 12, 12, 32, 32, 0, 0, .sees_all = true},
        {"all f16 64", LN_KV_F16, 4, 4, 64, 64, 0, 0, .rotates = true, .sees_all = true},
        {"all bf16 128", LN_KV_BF16, 8, 2, 128, 128, 0, 0, .rotates = true, .sees_all = true},
        {"all int8 128", LN_KV_Q8_0, 4, 1, 128, 128, 0, 0, .rotates = true, .sees_all = true},
        {"all fp8", LN_KV_FP8, 4, 4, 64, 64, 0, 0, .rotates = true, .sees_all = true},
        {"window", LN_KV_F32, 4, 2, 12, 20, 17, 0, .rotates = true, .sees_all = true},
        {"window f32 64", LN_KV_F32, 4, 4, 64, 64, 65, 0, .rotates = true, .sees_all = true},
        {"window f16 64", LN_KV_F16, 12, 12, 64, 64, 65, 0, .rotates = true, .sees_all = true},
        {"window f16 32", LN_KV_F16, 4, 4, 32, 32, 64, 0, .sees_all = true},
        {"window bf16 128", LN_KV_BF16, 8, 2, 128, 128, 130, 0, .rotates = true, .sees_all = true},
        {"window bf16 96", LN_KV_BF16, 6, 2, 96, 96, 100, 2.0f, .sees_all = true},
        {"window int8", LN_KV_Q8_0, 8, 2, 64, 64, 270, 0, .rotates = true, .sees_all = true},
        {"window fp8 128", LN_KV_FP8, 8, 1, 128, 128, 64, 0, .sinks = true, .sees_all = true},
        {"all fp8 256", LN_KV_FP8, 4, 2, 256, 256, 0, 0, .rotates = true, .sees_all = true},
        {"window int8 256", LN_KV_Q8_0, 4, 1, 256, 256, 130, 0, .sinks = true, .sees_all = true},
        {"window 1", LN_KV_F16, 4, 4, 128, 128, 1, 0, .rotates = true, .sees_all = true},
        {"window of all", LN_KV_F16, 4, 4, 64, 64, 600, 0, .rotates = true, .sees_all = true},
        {"window, biases", LN_KV_F16, 4, 4, 64, 64, 90, 0, .relative = true, .sees_all = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(&cases[i]);
}

/* Whether rows of `out` that see a key which is no number are none either, and those are numbers
 * that see no such key: other heads', the other sequence's, and earlier ones, but for latents,
 * where the key is a value, too: that of a later token of a tile counts 0 times. */
static void assert_spread(const side *s, const attention_case *c, const float *out,
                          size_t position) {
    size_t width = c->n_heads * c->v_dim, shared = c->n_heads / c->kv_heads;
    for (size_t row = 0; row < N_TOKENS; row++)
        for (size_t at = 0; at < width && (!s->is_oracle || is_of_oracle(row)); at++) {
            bool is_seen = row < N_FIRST && at / c->v_dim < shared;
            if (is_seen && row >= position)
                assert_true(isnan(out[row * width + at]));
            else if (!is_seen || c->n_latent == 0)
                assert_true(isfinite(out[row * width + at]));
        }
}

static void check_strange_keys(const attention_case *cases, size_t n_cases) {
    enum { POSITION = 100 };
    static const float strange[] = {NAN, INFINITY};
    for (size_t i = 0; i < 2 * n_cases; i++) {
        const attention_case reduced = with_fewer_heads(cases[i / 2]), *c = &reduced;
        if (!ln_kv_has_scales(c->dtype) && i % 2 == 1)
            continue; /* the score of an infinite key may be a number's */
        if (!ops_takes_case())
            continue;
        attention_data d = make_data(c, N_TOKENS, N_SLOTS);
        d.k[POSITION * c->kv_heads * c->k_dim + 5] = strange[i % 2];
        float *want = run_oracle(c, &d);
        assert_spread(&oracle, c, want, POSITION);
        free(want);
        static const size_t chunks[] = {N_TOKENS, 61, 1};
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
            float *out = run_attention(&subject, c, &d, chunks[k]);
            assert_spread(&subject, c, out, POSITION);
            free(out);
        }
        free_data(&d);
    }
}

/* A type of the cache whose numbers have scales hides no NaN. */
static void a_key_that_is_no_number_stays_one(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"f16", LN_KV_F16, 8, 2, 64, 64, 0, 0, .rotates = true},
        {"int8", LN_KV_Q8_0, 8, 2, 64, 64, 0, 0, .rotates = true},
        {"int8, odd dims", LN_KV_Q8_0, 4, 2, 27, 33, 0, 0, .rotates = false},
        {"fp8", LN_KV_FP8, 8, 2, 128, 128, 0, 0, .rotates = true},
        {"fp8, odd dims", LN_KV_FP8, 4, 2, 27, 33, 0, 0, .rotates = false},
        {"fp8, many heads", LN_KV_FP8, 16, 16, 64, 64, 0, 0, .rotates = true},
        {"int8 256", LN_KV_Q8_0, 4, 2, 256, 256, 0, 0, .rotates = true},
        {"latent int8", LN_KV_Q8_0, 4, 1, 72, 64, 0, 0, .n_latent = 64},
    };
    check_strange_keys(cases, sizeof cases / sizeof *cases);
}

/* Of the size for which Hopper has a kernel. */
static void latents_are_those_of_scalar(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"latent 512", LN_KV_BF16, 5, 1, 576, 512, 0, 0, .n_latent = 512},
        {"latent 512, window", LN_KV_F16, 3, 1, 576, 512, 300, 0, .sinks = true, .n_latent = 512,
         .block = 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(&cases[i]);
    check_strange_keys(cases, 1);
}

/* Heads of 512 elements, which the warps of a GPU's thread block share. */
static void wide_heads_are_those_of_scalar(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"f16 512", LN_KV_F16, 4, 1, 512, 512, 0, 0, .rotates = true},
        {"fp8 512", LN_KV_FP8, 4, 2, 512, 512, 0, 0, .rotates = true},
        {"bf16 512, sixteen heads to one", LN_KV_BF16, 16, 1, 512, 512, 0, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"bf16 512, seventeen heads to one", LN_KV_BF16, 17, 1, 512, 512, 90, 0, .sinks = true},
        {"bf16 512, window", LN_KV_BF16, 6, 2, 512, 512, 150, 0, .rotates = true},
        {"f16 512, soft-cap, sinks", LN_KV_F16, 3, 1, 512, 512, 300, 3.0f, .sinks = true},
        {"f16 512, only itself", LN_KV_F16, 2, 2, 512, 512, 1, 0, .rotates = true},
        {"f16 512, biases", LN_KV_F16, 2, 1, 512, 512, 0, 0, .alibi = true, .relative = true},
        {"int8 512", LN_KV_Q8_0, 4, 2, 512, 512, 0, 0, .rotates = true},
        {"int8 512, window", LN_KV_Q8_0, 2, 1, 512, 512, 270, 0, .sinks = true, .block = 8},
        {"fp8 512, soft-cap", LN_KV_FP8, 3, 1, 512, 512, 200, 2.0f, .rotates = true, .block = 64},
        {"f16 512, all", LN_KV_F16, 2, 1, 512, 512, 0, 0, .rotates = true, .sees_all = true},
        {"bf16 512, both ways", LN_KV_BF16, 2, 2, 512, 512, 90, 0, .sees_all = true},
        {"far scores, bf16 512", LN_KV_BF16, 2, 1, 512, 512, 0, 0, .rotates = true, .scale = 3.0f},
        {"far scores, int8 512", LN_KV_Q8_0, 2, 1, 512, 512, 0, 0, .rotates = true, .scale = 3.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(&cases[i]);
    check_strange_keys(cases, 2);
}

/* What heads first .. first + n - 1 of n_all attend to, of queries [n_tokens][n_all][k_dim];
 * malloc'd: [n_tokens][n][v_dim]. */
static float *attend_latents(const attention_case *c, const placed *p, const step *st,
                             const float *queries, size_t n_all, size_t first, size_t n) {
    side *s = &subject;
    size_t n_kept = s->n_placed, n_tokens = st->batch.n_tokens, width = n * c->k_dim;
    float *q = malloc((n_tokens * width + 1) * sizeof *q);
    assert_non_null(q);
    for (size_t i = 0; i < n_tokens; i++)
        memcpy(q + i * width, queries + (i * n_all + first) * c->k_dim, width * sizeof *q);
    ln_op op = {.kind = LN_OP_ATTENTION, .batch = &st->batch};
    op.attention = (ln_op_attention){.q = put(s, q, n_tokens * width),
                                     .kv = &p->kv,
                                     .n_heads = n,
                                     .scale = 0.3f,
                                     .out = put(s, NULL, n_tokens * n * c->v_dim)};
    run_ops(s, &op, 1);
    float *out = get(s, op.attention.out, n_tokens * n * c->v_dim);
    free_placed_from(s, n_kept);
    free(q);
    return out;
}

/* Blocks of 128 heads of a token may share their keys: they have the bits of 64 heads. */
static void many_heads_are_those_of_fewer(void **state) {
    enum { HEADS = 128, PART = 64, N_STEPS = 3 };
    static const attention_case c = {"latent 512", LN_KV_F16, 1, 1, 576, 512, .n_latent = 512};
    (void)state;
    if (!ops_takes_case())
        return;
    attention_data d = make_data(&c, N_TOKENS, N_SLOTS);
    placed p = place(&subject, &c, &d);
    step st;
    make_step(&st, &d, &(span){.n = {N_FIRST, N_TOKENS - N_FIRST}});
    run_step(&subject, &c, &d, &p, &st, NULL);
    for (size_t number = 0; number < N_STEPS; number++) {
        begin_step(&st, &d);
        if (number == 0)
            make_step(&st, &d, &(span){.begin = {N_FIRST - 3, 20}, .n = {3, 1}});
        else if (number == 1)
            make_step_of_many(&st, &d);
        else
            add_sequence(&st, &d, 0, N_FIRST - 1, 1);
        size_t n = st.batch.n_tokens, width = PART * c.v_dim;
        float *q = noise_rows(n * HEADS * c.k_dim);
        float *all = attend_latents(&c, &p, &st, q, HEADS, 0, HEADS);
        for (size_t first = 0; first < HEADS; first += PART) {
            float *part = attend_latents(&c, &p, &st, q, HEADS, first, PART);
            for (size_t i = 0; i < n; i++)
                assert_memory_equal(all + (i * HEADS + first) * c.v_dim, part + i * width,
                                    width * sizeof *part);
            free(part);
        }
        free(q), free(all);
    }
    free_placed(&subject);
    free_data(&d);
}

/* The last tokens of a long sequence, n at a time; one at a time, and then each a sequence of its
 * own. malloc'd: their rows, behind those of all others. */
static float *run_long(side *s, const attention_case *c, const attention_data *d, size_t n) {
    enum { N_LAST = 2 }; /* tables have room for as many */
    const size_t n_long = ops_gpu_size(N_LONG);
    float *out = calloc(n_long * c->n_heads * c->v_dim, sizeof *out);
    assert_non_null(out);
    spoil_memory(s);
    placed p = place(s, c, d);
    step st;
    for (size_t begin = 0, end; begin < n_long - N_LAST; begin = end) {
        end = begin + N_TOKENS < n_long - N_LAST ? begin + N_TOKENS : n_long - N_LAST;
        begin_step(&st, d);
        add_sequence(&st, d, 0, begin, end - begin);
        run_step(s, c, d, &p, &st, NULL);
    }
    for (size_t begin = n_long - N_LAST; begin < n_long; begin += n) {
        begin_step(&st, d);
        add_sequence(&st, d, 0, begin, n);
        run_step(s, c, d, &p, &st, out);
    }
    if (n == 1) {
        begin_step(&st, d);
        for (size_t i = 1; i <= N_LAST; i++)
            add_sequence(&st, d, 0, n_long - i, 1);
        run_step(s, c, d, &p, &st, out);
    }
    free_placed(s);
    return out;
}

/* Many KV splits, as few sequences of long contexts have. */
static void long_contexts_are_those_of_scalar(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"long f16 128", LN_KV_F16, 4, 1, 128, 128, 0, 0, .rotates = true},
        {"long bf16 64, sinks", LN_KV_BF16, 2, 1, 64, 64, 20000, 0, .sinks = true},
        {"long int8 64", LN_KV_Q8_0, 2, 1, 64, 64, 0, 0, .rotates = true},
        {"long fp8 128, sinks", LN_KV_FP8, 2, 1, 128, 128, 0, 0, .sinks = true},
        {"long latent 512", LN_KV_F16, 2, 1, 576, 512, 0, 0, .sinks = true, .n_latent = 512},
        {"long bf16 256", LN_KV_BF16, 2, 1, 256, 256, 0, 0, .rotates = true},
        {"long fp8 256", LN_KV_FP8, 2, 1, 256, 256, 0, 0, .sinks = true},
        {"long bf16 512", LN_KV_BF16, 2, 1, 512, 512, 0, 0, .sinks = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const attention_case *c = &cases[i];
        if (!ops_takes_case())
            continue;
        size_t n_long = ops_gpu_size(N_LONG);
        attention_data d = make_data(c, n_long, ops_gpu_size(N_LONG_SLOTS));
        size_t n = n_long * c->n_heads * c->v_dim;
        float *want = run_long(&oracle, c, &d, 2), *whole = run_long(&subject, c, &d, 2),
              *parts = run_long(&subject, c, &d, 1);
        assert_near(c->name, whole, want, n, most[c->dtype]);
        assert_memory_equal(parts, whole, n * sizeof *parts);
        free_data(&d);
        free(want), free(whole), free(parts);
    }
}

/* The linears around an attention of prompts: q, k and v, which read x, and the one behind it. */
enum { Q, K, V, O, N_LINEARS, N_X = 256, N_OUT = 320 };

typedef struct linears {
    matrix m[N_LINEARS];
    float *x, *bias[N_LINEARS];
} linears;

static linears make_linears(const attention_case *c, ln_dtype dtype, bool has_bias) {
    size_t q = c->n_heads * c->k_dim, kv = c->kv_heads * c->k_dim;
    const size_t n_rows[N_LINEARS] = {q, kv, kv, N_OUT};
    linears l = {.x = noise_rows(N_TOKENS * N_X)};
    for (size_t i = 0; i < N_LINEARS; i++) {
        l.m[i] = make_matrix(dtype, n_rows[i], i == O ? q : N_X);
        l.bias[i] = has_bias && i != O ? noise_rows(n_rows[i]) : NULL;
    }
    return l;
}

static void free_linears(linears *l) {
    for (size_t i = 0; i < N_LINEARS; i++)
        free_matrix(&l->m[i]), free(l->bias[i]);
    free(l->x);
}

/* What the last linear gives; malloc'd. hands_on: all is one list, in which nothing else reads what
 * lies between operations. */
static float *run_between(const attention_case *c, const attention_data *d, const linears *l,
                          bool hands_on) {
    enum { N_OPS = N_LINEARS + 2, ATTENTION = N_OPS - 2, LAST = N_OPS - 1 };
    placed p = place(&subject, c, d);
    step st;
    make_step(&st, d, &(span){.n = {N_FIRST, N_TOKENS - N_FIRST}});
    ln_op ops[N_OPS];
    ln_weight weights[N_LINEARS];
    float *attended = record_step(&subject, c, d, &p, &st, ops + ATTENTION - 1);
    const ln_op_qkv *qkv = &ops[ATTENTION - 1].qkv;
    float *x = put(&subject, l->x, N_TOKENS * N_X), *out = put(&subject, NULL, N_TOKENS * N_OUT);
    float *const outs[] = {qkv->q, qkv->k, (float *)(uintptr_t)qkv->v, out};
    for (size_t i = 0; i < N_LINEARS; i++) {
        weights[i] = put_weight(&subject, &l->m[i], l->bias[i]);
        ops[i == O ? (size_t)LAST : i] = (ln_op){.kind = LN_OP_LINEAR,
                                                 .batch = &st.batch,
                                                 .linear = {.weight = &weights[i],
                                                            .n_rows = N_TOKENS,
                                                            .x = i == O ? attended : x,
                                                            .scale = 1.0f,
                                                            .out = outs[i]}};
    }
    if (hands_on) {
        run_ops(&subject, ops, N_OPS);
    } else {
        run_ops(&subject, ops, O);
        run_ops(&subject, ops + O, 2);
        run_ops(&subject, ops + LAST, 1);
    }
    float *rows = get(&subject, out, N_TOKENS * N_OUT);
    free_placed(&subject);
    return rows;
}

/* In whichever form linears, heads and attention of prompts hand on what they make: the same bits.
 */
static void prompts_hand_on_what_they_attend_to(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {"f16 128", LN_KV_F16, 8, 2, 128, 128, 0, 0, .rotates = true, .rotates_all = true},
        {"bf16 128, head norm", LN_KV_BF16, 6, 3, 128, 128, 0, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"f16 128, head norm alone", LN_KV_F16, 4, 1, 128, 128, 200, 0, .qk_norm = LN_QK_NORM_HEAD},
        {"f16 128, some rotate", LN_KV_F16, 5, 5, 128, 128, 0, 0, .rotates = true},
        {"bf16 64", LN_KV_BF16, 5, 5, 64, 64, 0, 0, .rotates = true, .rotates_all = true},
        {"f16 64, head norm", LN_KV_F16, 6, 2, 64, 64, 0, 0, .rotates = true, .rotates_all = true,
         .qk_norm = LN_QK_NORM_HEAD},
        {"int8 128", LN_KV_Q8_0, 8, 2, 128, 128, 0, 0, .rotates = true},
        {"fp8 256, head norm", LN_KV_FP8, 4, 1, 256, 256, 0, 0, .rotates = true,
         .rotates_all = true, .qk_norm = LN_QK_NORM_HEAD},
        {"int8 256, window", LN_KV_Q8_0, 2, 2, 256, 256, 130, 0, .rotates = true},
        {"f16 96", LN_KV_F16, 4, 2, 96, 96, 0, 0, .rotates = true},
        {"softcap", LN_KV_F16, 4, 2, 128, 128, 0, 2.0f, .rotates = true, .rotates_all = true},
    };
    static const ln_dtype dtypes[] = {LN_DTYPE_BF16, LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_F32};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const attention_case *c = &cases[i];
        if (!ops_takes_case())
            continue;
        attention_data d = make_data(c, N_TOKENS, N_SLOTS);
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
            linears l = make_linears(c, dtypes[k], k == 1);
            float *apart = run_between(c, &d, &l, false), *handed = run_between(c, &d, &l, true);
            if (memcmp(handed, apart, N_TOKENS * N_OUT * sizeof *handed) != 0)
                fail_msg("%s, linears %zu: other bits", c->name, k);
            free(apart), free(handed);
            free_linears(&l);
        }
        free_data(&d);
    }
}

const struct CMUnitTest attention_tests[] = {
    cmocka_unit_test(prompts_hand_on_what_they_attend_to),
    cmocka_unit_test(attention_is_that_of_scalar),
    cmocka_unit_test(norms_of_heads_are_those_of_scalar),
    cmocka_unit_test(attention_sees_both_ways),
    cmocka_unit_test(a_key_that_is_no_number_stays_one),
    cmocka_unit_test(latents_are_those_of_scalar),
    cmocka_unit_test(wide_heads_are_those_of_scalar),
    cmocka_unit_test(many_heads_are_those_of_fewer),
    cmocka_unit_test(long_contexts_are_those_of_scalar),
};
const size_t n_attention_tests = sizeof attention_tests / sizeof *attention_tests;
