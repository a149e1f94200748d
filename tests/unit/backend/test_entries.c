/* Compressed entries, attention to them, streams that mix and experts by a table, against the same
 * formulas in double precision; and the same bits for any number of threads. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/rng.h"

enum {
    BLOCK = 16,
    BLOCKS = 24,
    MAX_BLOCKS = 12,
    DIM = 12,
    TURNING = 4,
    HEADS = 3,
    LAST = 149,
    TOKENS = 6,
    N_SETS = 2
};

static const char *const sets[N_SETS] = {"scalar", "auto"};
static uint64_t draws;

static float *noise_rows(size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = 2.0f * ln_rng_uniform(42, 0, draws++, 0) - 1.0f;
    return x;
}

static void run(const ln_op *op, const char *isa, size_t n_threads) {
    ln_backend *backend;
    ln_backend_options options = {.isa = isa, .n_threads = n_threads, .exact = true};
    ln_step_limits limits = {.max_tokens = 64,
                             .max_seqs = 8,
                             .max_ctx = 1024,
                             .max_width = 512,
                             .max_head_dim = 64,
                             .max_indexed = 256,
                             .max_experts = 8};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, NULL), LINNET_OK);
    assert_int_equal(backend->vtable->reserve_scratch(backend, &limits, NULL), LINNET_OK);
    assert_int_equal(backend->vtable->run(backend, op, 1, NULL), LINNET_OK);
    backend->vtable->destroy(backend);
}

static void assert_near(double got, double want) {
    if (!(fabs(got - want) <= 4e-6)) /* NaN, too */
        fail_msg("got %.9g, want %.9g", got, want);
}

/* Two sequences, of which the first ends at LAST and the other with a run of its own. */
typedef struct fixture {
    int32_t tables[2 * MAX_BLOCKS], starts[3], positions[TOKENS], lengths[2], slots[TOKENS];
    ln_batch batch;
    ln_kv_layer rows, entries;
} fixture;

static ln_kv_layer make_layer(size_t block_tokens, size_t dim) {
    ln_kv_layer layer = {.dtype = LN_KV_F32,
                         .block_tokens = block_tokens,
                         .table_tokens = BLOCK,
                         .n_heads = 1,
                         .k_dim = dim,
                         .v_dim = dim,
                         .v_stride = dim};
    layer.k = layer.v = noise_rows(BLOCKS * block_tokens * dim);
    return layer;
}

static void make(fixture *f, size_t run_tokens, size_t row_width) {
    memset(f, 0, sizeof *f);
    for (int32_t i = 0; i < 2 * MAX_BLOCKS; i++)
        f->tables[i] = (i * 7 + 5) % BLOCKS;
    for (int32_t i = 0; i < 4; i++)
        f->positions[i] = LAST - 3 + i;
    f->positions[5] = 1;
    f->starts[1] = 4;
    f->starts[2] = TOKENS;
    f->lengths[0] = LAST + 1;
    f->lengths[1] = 2;
    f->batch = (ln_batch){.n_tokens = TOKENS,
                          .n_seqs = 2,
                          .n_groups = 1,
                          .positions = f->positions,
                          .seq_starts = f->starts};
    f->batch.groups[0] = (ln_batch_group){.block_tables = f->tables,
                                          .max_blocks = MAX_BLOCKS,
                                          .lengths = f->lengths,
                                          .slots = f->slots};
    f->rows = make_layer(BLOCK, row_width);
    f->entries = make_layer(ln_kv_block_entries(run_tokens, BLOCK), DIM);
    f->entries.entry_tokens = run_tokens;
}

static const float *row_of(const fixture *f, size_t seq, size_t position) {
    size_t block = (size_t)f->tables[seq * MAX_BLOCKS + position / BLOCK];
    return (const float *)f->rows.k + (block * BLOCK + position % BLOCK) * f->rows.k_dim;
}

/* Where an entry lies, without the formula that kernels find it by: entries of a block are in the
 * order of the tokens in it that end runs. */
static float *entry_of(const fixture *f, size_t seq, size_t entry) {
    size_t n = f->entries.entry_tokens, last = (entry + 1) * n - 1, before = 0;
    size_t block = (size_t)f->tables[seq * MAX_BLOCKS + last / BLOCK];
    for (size_t position = last / BLOCK * BLOCK; position < last; position++)
        before += (position + 1) % n == 0;
    return (float *)f->entries.k + (block * f->entries.block_tokens + before) * DIM;
}

/* An entry in double, before its norm. */
static void sum_up(const fixture *f, const ln_op_compress *p, size_t entry, double *out) {
    size_t n = f->entries.entry_tokens, width = f->rows.k_dim / 2;
    assert_true(n > 0);
    for (size_t i = 0; i < DIM; i++) {
        double total = 0, sum = 0;
        for (size_t j = 0; j < (p->overlaps ? 2 * n : n); j++) {
            bool is_own = !p->overlaps || j >= n;
            if (!is_own && entry == 0)
                continue;
            size_t at = (is_own ? entry : entry - 1) * n + j % n;
            size_t column = (is_own && p->overlaps ? DIM : 0) + i;
            const float *row = row_of(f, 0, at);
            double weight = exp((double)row[width + column] + p->bias[j % n * width + column]);
            total += weight;
            sum += weight * row[column];
        }
        out[i] = sum / total;
    }
}

static void finish(const ln_op_compress *p, size_t position, double *x) {
    double squares = 0;
    for (size_t i = 0; i < DIM; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < DIM; i++)
        x[i] *= p->norm->weight[i] / sqrt(squares / DIM + p->norm->eps);
    for (size_t i = 0; i < TURNING / 2; i++) {
        double *pair = x + DIM - TURNING + 2 * i, a = pair[0], b = pair[1];
        double angle = (double)position * p->rope->inv_freq[i];
        pair[0] = a * cos(angle) - b * sin(angle);
        pair[1] = b * cos(angle) + a * sin(angle);
    }
}

static void check_compress(size_t n, bool overlaps) {
    fixture f;
    size_t width = overlaps ? 2 * DIM : DIM;
    make(&f, n, 2 * width);
    float *bias = noise_rows(n * width), *weight = noise_rows(DIM), *freq = noise_rows(TURNING);
    ln_norm norm = {.kind = LN_NORM_RMS, .eps = 1e-6f, .dim = DIM, .weight = weight};
    ln_rope rope = {.style = LN_ROPE_INTERLEAVED,
                    .n_dims = TURNING,
                    .inv_freq = freq,
                    .magnitude = 1.0f,
                    .last = true};
    ln_op op = {.kind = LN_OP_COMPRESS,
                .batch = &f.batch,
                .compress = {.rows = &f.rows,
                             .entries = &f.entries,
                             .overlaps = overlaps,
                             .bias = bias,
                             .norm = &norm,
                             .rope = &rope}};
    size_t bytes = BLOCKS * f.entries.block_tokens * DIM * sizeof(float);
    float *before = noise_rows(bytes / sizeof(float)), *alone = noise_rows(bytes / sizeof(float));
    memcpy(before, f.entries.k, bytes);
    run(&op, "scalar", 1);
    memcpy(alone, f.entries.k, bytes);
    for (size_t set = 0; set < N_SETS; set++) {
        memcpy(f.entries.k, before, bytes);
        run(&op, sets[set], 3);
        assert_memory_equal(f.entries.k, alone, bytes);
    }
    size_t n_written = 0;
    for (size_t entry = LAST - 3 >= n ? (LAST - 3) / n : 0; (entry + 1) * n <= LAST + 1; entry++) {
        double want[DIM];
        sum_up(&f, &op.compress, entry, want);
        finish(&op.compress, entry * n, want);
        for (size_t i = 0; i < DIM; i++)
            assert_near(entry_of(&f, 0, entry)[i], want[i]);
        n_written++;
    }
    n_written += n == 1 ? 2 : n == 2 ? 1 : 0; /* of the other sequence */
    size_t n_changed = 0;
    for (size_t at = 0; at < bytes / sizeof(float); at += DIM)
        n_changed += before[at] != ((float *)f.entries.k)[at];
    assert_int_equal(n_changed, n_written);
    free(f.rows.k), free(f.entries.k), free(bias), free(weight), free(freq);
    free(before), free(alone);
}

static void entries_are_their_formula(void **state) {
    (void)state;
    const size_t runs[] = {1, 2, 3, 5, 25, 30, 150};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        check_compress(runs[i], false);
        check_compress(runs[i], runs[i] < 75); /* two runs fit */
    }
}

/* One query in double: to positions in its window, to entries, and to a sink. */
static void reference_attention(const fixture *f, const ln_op_attention *p, size_t token,
                                size_t head, double *out) {
    size_t seq = token >= 4, position = (size_t)f->positions[token];
    size_t n = (position + 1) / f->entries.entry_tokens;
    size_t n_seen = p->indices != NULL && n > p->top_k ? p->top_k : n;
    const float *q = p->q + (token * HEADS + head) * DIM;
    double total = exp((double)p->sinks[head]);
    memset(out, 0, DIM * sizeof *out);
    for (size_t i = 0; i <= position + n_seen; i++) {
        const float *key;
        if (i <= position && i + p->window <= position)
            continue;
        if (i <= position)
            key = row_of(f, seq, i);
        else if (p->indices != NULL)
            key = entry_of(f, seq, (size_t)p->indices[token * p->top_k + i - position - 1]);
        else
            key = entry_of(f, seq, i - position - 1);
        double score = 0;
        for (size_t d = 0; d < DIM; d++)
            score += (double)q[d] * key[d];
        double weight = exp(p->scale * score);
        total += weight;
        for (size_t d = 0; d < DIM; d++)
            out[d] += weight * key[d];
    }
    for (size_t d = 0; d < DIM; d++)
        out[d] /= total;
}

static void check_attention(size_t n, size_t window, bool chosen) {
    enum { TOP = 2 };
    fixture f;
    make(&f, n, DIM);
    const int32_t indices[TOKENS * TOP] = {0, 3, 1, 2, 0, 1, 2, 4, 0, 0, 0, 0};
    float *q = noise_rows(TOKENS * HEADS * DIM), *sinks = noise_rows(HEADS);
    float *out = noise_rows(TOKENS * HEADS * DIM), *alone = noise_rows(TOKENS * HEADS * DIM);
    ln_op op = {.kind = LN_OP_ATTENTION,
                .batch = &f.batch,
                .attention = {.q = q,
                              .kv = &f.rows,
                              .n_heads = HEADS,
                              .scale = 0.7f,
                              .window = window,
                              .sinks = sinks,
                              .indices = chosen ? indices : NULL,
                              .top_k = chosen ? TOP : 0,
                              .entries = &f.entries,
                              .out = alone}};
    run(&op, "scalar", 1);
    op.attention.out = out;
    for (size_t set = 0; set < N_SETS; set++) {
        run(&op, sets[set], 3);
        assert_memory_equal(out, alone, TOKENS * HEADS * DIM * sizeof *out);
    }
    for (size_t token = 0; token < TOKENS; token++)
        for (size_t head = 0; head < HEADS; head++) {
            double want[DIM];
            reference_attention(&f, &op.attention, token, head, want);
            for (size_t i = 0; i < DIM; i++)
                assert_near(out[(token * HEADS + head) * DIM + i], want[i]);
        }
    free(f.rows.k), free(f.entries.k), free(q), free(sinks), free(out), free(alone);
}

static void attention_reads_a_window_and_entries(void **state) {
    (void)state;
    check_attention(4, 9, false);
    check_attention(1, 1, false);
    check_attention(25, 100, false);
    check_attention(200, 20, false); /* there is none yet */
    check_attention(4, 9, true);
    check_attention(75, 9, true); /* all that there are */
}

static void streams_mix_by_their_matrix(void **state) {
    (void)state;
    enum { N = 3, WIDTH = (2 + N) * N, ROWS = 5, ROUNDS = 20, WIDE = 7 };
    float *x = noise_rows(ROWS * WIDTH), *matrix = noise_rows(ROWS * N * N);
    ln_op op = {.kind = LN_OP_ROWWISE,
                .rowwise = {.function = LN_ROWWISE_SINKHORN,
                            .n_rows = ROWS,
                            .dim = WIDTH,
                            .n_streams = N,
                            .eps = 1e-6f,
                            .n_rounds = ROUNDS,
                            .x = x,
                            .out = matrix}};
    run(&op, "auto", 3);
    for (size_t row = 0; row < ROWS; row++) {
        double m[N][N];
        for (size_t i = 0; i < N; i++) {
            double total = 0;
            for (size_t j = 0; j < N; j++)
                total += exp((double)x[row * WIDTH + 2 * N + i * N + j]);
            for (size_t j = 0; j < N; j++)
                m[i][j] = exp((double)x[row * WIDTH + 2 * N + i * N + j]) / total + 1e-6;
        }
        for (size_t round = 1; round < 2 * ROUNDS; round++)
            for (size_t i = 0; i < N; i++) { /* columns in odd rounds */
                bool columns = round % 2 == 1;
                double total = 1e-6;
                for (size_t j = 0; j < N; j++)
                    total += columns ? m[j][i] : m[i][j];
                for (size_t j = 0; j < N; j++)
                    *(columns ? &m[j][i] : &m[i][j]) /= total;
            }
        for (size_t i = 0; i < N * N; i++)
            assert_near(matrix[row * N * N + i], m[i / N][i % N]);
    }
    float *given = noise_rows(ROWS * WIDE), *taken = noise_rows(ROWS * N);
    float *streams = noise_rows(ROWS * N * WIDE), *old = noise_rows(ROWS * N * WIDE);
    memcpy(old, streams, ROWS * N * WIDE * sizeof *old);
    op.rowwise = (ln_op_rowwise){.function = LN_ROWWISE_MIX,
                                 .n_rows = ROWS,
                                 .dim = WIDE,
                                 .n_streams = N,
                                 .x = given,
                                 .y = taken,
                                 .coefs = matrix,
                                 .streams = streams};
    run(&op, "auto", 3);
    for (size_t at = 0; at < ROWS * N * WIDE; at++) {
        size_t row = at / (N * WIDE), to = at / WIDE % N, i = at % WIDE;
        double want = (double)taken[row * N + to] * given[row * WIDE + i];
        for (size_t from = 0; from < N; from++)
            want += (double)matrix[(row * N + from) * N + to] * old[(row * N + from) * WIDE + i];
        assert_near(streams[at], want);
    }
    free(x), free(matrix), free(given), free(taken), free(streams), free(old);
}

static void a_table_chooses_experts(void **state) {
    (void)state;
    enum { EXPERTS = 5, USED = 2, VOCAB = 4, N = 3 };
    const int32_t table[VOCAB * USED] = {0, 1, 4, 2, 3, 0, 1, 4}, tokens[N] = {2, 1, 3};
    float *logits = noise_rows(N * EXPERTS), weights[N * USED];
    int32_t experts[N * USED];
    logits[0] = -90.0f, logits[3] = 90.0f; /* of the first token's two */
    ln_batch batch = {.n_tokens = N, .tokens = tokens};
    ln_op op = {.kind = LN_OP_ROUTE,
                .batch = &batch,
                .route = {.logits = logits,
                          .by_token = table,
                          .router = LN_ROUTER_ROOT_SOFTPLUS,
                          .n_experts = EXPERTS,
                          .n_used = USED,
                          .normalize = true,
                          .scale = 1.5f,
                          .experts = experts,
                          .weights = weights}};
    run(&op, "auto", 2);
    for (size_t token = 0; token < N; token++) {
        double score[USED], total = 0;
        for (size_t i = 0; i < USED; i++) {
            int32_t expert = table[(size_t)tokens[token] * USED + i];
            assert_int_equal(experts[token * USED + i], expert);
            score[i] = sqrt(log1p(exp((double)logits[token * EXPERTS + (size_t)expert])));
            total += score[i];
        }
        for (size_t i = 0; i < USED; i++)
            assert_near(weights[token * USED + i], 1.5 * score[i] / total);
    }
    free(logits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_their_formula),
        cmocka_unit_test(attention_reads_a_window_and_entries),
        cmocka_unit_test(streams_mix_by_their_matrix),
        cmocka_unit_test(a_table_chooses_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
