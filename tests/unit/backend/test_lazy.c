/* Matrices that runs pack: the bits of those that loading packed, at any number of threads, from
 * the file, while they are packed and afterwards. */
#include "matrix.h"

#include <unistd.h>

#include "backend/registry.h"
#include "base/file.h"

enum { OUT = 75, IN = 512, VOCAB_ROWS = 3, RUNS = 7 };

static const ln_dtype types[] = {
    LN_DTYPE_F32,    LN_DTYPE_F16,   LN_DTYPE_BF16,   LN_DTYPE_Q4_0,  LN_DTYPE_Q8_0,
    LN_DTYPE_Q4_K,   LN_DTYPE_Q6_K,  LN_DTYPE_Q5_0,   LN_DTYPE_Q5_K,  LN_DTYPE_Q3_K,
    LN_DTYPE_IQ4_NL, LN_DTYPE_Q4_1,  LN_DTYPE_Q5_1,   LN_DTYPE_Q2_K,  LN_DTYPE_IQ4_XS,
    LN_DTYPE_TQ1_0,  LN_DTYPE_IQ1_M, LN_DTYPE_IQ2_XS, LN_DTYPE_IQ3_S,
};
enum { N = sizeof types / sizeof *types, N_PLAIN = 7, N_Y = N_PLAIN + (N - N_PLAIN) / 2 };

/* A matrix of each type, one behind the other in a file. */
typedef struct file {
    char path[32];
    ln_file_map map;
    matrix matrices[N];
    size_t bytes;
} file;

static void make_file(file *f) {
    strcpy(f->path, "/tmp/linnet-lazy-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    f->bytes = 0;
    for (size_t i = 0; i < N; i++) {
        ln_tensor *tensor = &f->matrices[i].tensor;
        f->matrices[i] = make_matrix(types[i], OUT, IN);
        tensor->map = &f->map;
        tensor->file_offset = f->bytes;
        assert_int_equal(write(fd, tensor->data, tensor->bytes), tensor->bytes);
        f->bytes += tensor->bytes;
    }
    close(fd);
    assert_int_equal(ln_file_map_open(&f->map, f->path, NULL), LINNET_OK);
}

static void free_file(file *f) {
    ln_file_map_close(&f->map);
    unlink(f->path);
    for (size_t i = 0; i < N; i++)
        free_matrix(&f->matrices[i]);
}

/* A backend with all matrices prepared. */
typedef struct loaded {
    ln_backend *backend;
    ln_weight weights[N];
    uint8_t *memory[N]; /* [bytes], zeroed before */
    size_t bytes[N];
} loaded;

static void load(loaded *l, const file *f, size_t n_threads, bool lazy) {
    ln_backend_options options = {.isa = "auto", .n_threads = n_threads, .lazy = lazy};
    ln_step_limits limits = {.max_tokens = 512,
                             .max_seqs = 8,
                             .max_ctx = 64,
                             .max_width = IN,
                             .max_head_dim = 64,
                             .max_heads = 8};
    assert_int_equal(ln_backend_create("cpu", &options, &l->backend, NULL), LINNET_OK);
    const ln_backend_vtable *vtable = l->backend->vtable;
    assert_int_equal(vtable->reserve_scratch(l->backend, &limits, NULL), LINNET_OK);
    for (size_t i = 0; i < N; i++) {
        ln_weight_request request = {
            .n_sources = 1,
            .sources = {{.tensor = &f->matrices[i].tensor, .n_rows = OUT, .run_rows = OUT}},
            .n_cols = IN,
            .rounds_f32 = true};
        assert_int_equal(vtable->plan_weight(l->backend, &request, &l->bytes[i], NULL), LINNET_OK);
        l->memory[i] = aligned_alloc(64, (l->bytes[i] + 64) / 64 * 64);
        assert_true(l->memory[i] != NULL);
        assert_true(l->bytes[i] > 0 ||
                    types[i] == LN_DTYPE_F32); /* some kernels read it as it is */
        memset(l->memory[i], 0, l->bytes[i]);
        assert_int_equal(
            vtable->prepare_weight(l->backend, &request, l->memory[i], &l->weights[i], NULL),
            LINNET_OK);
    }
    assert_int_equal(vtable->finish_weights(l->backend, NULL), LINNET_OK);
}

static void unload(loaded *l) {
    l->backend->vtable->destroy(l->backend);
    for (size_t i = 0; i < N; i++)
        free(l->memory[i]);
}

static bool is_zero(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* A run: rows of each matrix as of a table, then n_rows of x against the first matrices, and
 * against the others in gated pairs. y [N_Y][n_rows][OUT]. */
static ln_status run(const loaded *l, size_t n_rows, const float *x, float *y, float *table,
                     ln_error *err) {
    static const int32_t tokens[VOCAB_ROWS] = {74, 0, 16};
    static const ln_batch batch = {.n_tokens = VOCAB_ROWS, .tokens = tokens};
    ln_op ops[N + N_Y];
    for (size_t i = 0; i < N; i++)
        ops[i] = (ln_op){
            .kind = LN_OP_EMBED,
            .batch = &batch,
            .embed = {.table = &l->weights[i], .scale = 1.0f, .out = table + i * VOCAB_ROWS * IN}};
    for (size_t i = 0; i < N_Y; i++) {
        bool is_gated = i >= N_PLAIN;
        size_t first = is_gated ? N_PLAIN + 2 * (i - N_PLAIN) : i;
        ops[N + i] = (ln_op){.kind = LN_OP_LINEAR,
                             .linear = {.weight = &l->weights[first],
                                        .gate = is_gated ? &l->weights[first + 1] : NULL,
                                        .activation = is_gated ? LN_ACT_SILU : LN_ACT_NONE,
                                        .n_rows = n_rows,
                                        .x = x,
                                        .scale = 1.0f,
                                        .out = y + i * n_rows * OUT}};
    }
    return l->backend->vtable->run(l->backend, ops, N + N_Y, err);
}

static void bits_are_those_of_packed_weights(void **state) {
    (void)state;
    static const size_t counts[] = {1, 5, 300}; /* more than a chunk */
    static file f;
    make_file(&f);
    enum { Y = N_Y * 300 * OUT, TABLE = N * VOCAB_ROWS * IN };
    float *x = noise_rows(300 * IN), *y = noise_rows(Y), *want = noise_rows(Y);
    float *table = noise_rows(TABLE), *want_table = noise_rows(TABLE);
    for (size_t threads = 1; threads <= 3; threads++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            loaded eager, lazy;
            size_t n = counts[c];
            if (IS_EMULATED && n > 5 && threads != 2)
                continue;
            load(&eager, &f, threads, false);
            load(&lazy, &f, threads, true);
            assert_int_equal(run(&eager, n, x, want, want_table, NULL), LINNET_OK);
            for (size_t i = 0; i < RUNS; i++) {
                assert_int_equal(run(&lazy, n, x, y, table, NULL), LINNET_OK);
                assert_memory_equal(y, want, N_Y * n * OUT * sizeof *y);
                assert_memory_equal(table, want_table, TABLE * sizeof *table);
                for (size_t w = 0; w < N; w++) {
                    if (i == 0) /* the first run left all where it was */
                        assert_true(is_zero(lazy.memory[w], lazy.bytes[w]));
                    if (i == RUNS - 1)
                        assert_memory_equal(lazy.memory[w], eager.memory[w], eager.bytes[w]);
                }
            }
            unload(&eager);
            unload(&lazy);
        }
    free(x), free(y), free(want), free(table), free(want_table);
    free_file(&f);
}

static void a_cut_file_fails_the_run(void **state) {
    (void)state;
    static file f;
    ln_error err = {0};
    make_file(&f);
    enum { Y = N_Y * OUT, TABLE = N * VOCAB_ROWS * IN };
    float *x = noise_rows(IN), *y = noise_rows(Y), *table = noise_rows(TABLE);
    for (size_t n_before = 0; n_before < RUNS; n_before++) {
        loaded lazy;
        load(&lazy, &f, 2, true);
        for (size_t i = 0; i < n_before; i++)
            assert_int_equal(run(&lazy, 1, x, y, table, NULL), LINNET_OK);
        assert_int_equal(truncate(f.path, (off_t)(f.bytes / 2)), 0);
        for (size_t i = 0; i < 2; i++) { /* it stays so; once all is packed, no file is needed */
            ln_status status = run(&lazy, 1, x, y, table, &err);
            assert_int_equal(status, n_before < 5 ? LINNET_ERR_IO : LINNET_OK);
            if (status != LINNET_OK)
                assert_string_equal(err.message, "tensor w: its file cannot be read, or shrank");
        }
        unload(&lazy);
        free_file(&f);
        make_file(&f);
    }
    free(x), free(y), free(table);
    free_file(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_packed_weights),
        cmocka_unit_test(a_cut_file_fails_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
