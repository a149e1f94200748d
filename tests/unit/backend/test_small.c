/* Which steps one thread computes alone, and that they have the bits of those that are shared. */
#include "matrix.h"

#include "backend/cpu/small.h"
#include "backend/registry.h"

enum { OUT = 75, IN = 512, ROWS = 300, THREADS = 3 };

static ln_op multiply(const ln_weight *weight, size_t n_rows) {
    return (ln_op){.kind = LN_OP_LINEAR, .linear = {.weight = weight, .n_rows = n_rows}};
}

static void work_of_weights_and_rows_counts(void **state) {
    (void)state;
    ln_weight tiny = {.n_rows = 256, .n_cols = 256}, large = {.n_rows = 2048, .n_cols = 2048};
    ln_op ops[2] = {multiply(&tiny, 1), multiply(&tiny, 1)};
    assert_true(ln_cpu_is_small(ops, 2));
    ops[1].kind = LN_OP_NORM;
    assert_true(ln_cpu_is_small(ops, 2));
    ops[0] = multiply(&tiny, 64);
    assert_false(ln_cpu_is_small(ops, 2));
    ops[0] = multiply(&large, 1);
    assert_false(ln_cpu_is_small(ops, 2));
    ops[0] = multiply(&tiny, 1);
    ops[0].linear.gate = &large;
    assert_true(ln_cpu_is_small(ops, 2)); /* a gate has the weight's shape */
}

static void long_contexts_count(void **state) {
    (void)state;
    int32_t starts[] = {0, 1, 2}, lengths[] = {100, 40};
    ln_kv_layer kv = {.group = 1, .n_heads = 4, .k_dim = 32, .v_dim = 32};
    ln_batch batch = {.n_seqs = 2, .seq_starts = starts, .groups = {{0}, {.lengths = lengths}}};
    ln_op op = {.kind = LN_OP_ATTENTION, .batch = &batch, .attention = {.kv = &kv, .n_heads = 8}};
    assert_true(ln_cpu_is_small(&op, 1));
    lengths[1] = 1000;
    assert_false(ln_cpu_is_small(&op, 1));
    lengths[1] = 60;
    starts[2] = 41; /* a prompt of 40 tokens */
    assert_false(ln_cpu_is_small(&op, 1));
}

static ln_backend *make_backend(bool adapts) {
    ln_backend *backend;
    ln_backend_options options = {.isa = "auto", .n_threads = THREADS, .adapts = adapts};
    ln_step_limits limits = {.max_tokens = 512,
                             .max_seqs = 8,
                             .max_ctx = 64,
                             .max_width = IN,
                             .max_head_dim = 64,
                             .max_heads = 8};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, NULL), LINNET_OK);
    assert_int_equal(backend->vtable->reserve_scratch(backend, &limits, NULL), LINNET_OK);
    return backend;
}

/* Small and large steps in turn. */
static void bits_are_those_of_all_threads(void **state) {
    (void)state;
    static const size_t counts[] = {1, ROWS, 1, 3, ROWS, 2};
    static const int32_t tokens[] = {74, 0, 16, 5, 31};
    static const ln_batch batch = {.n_tokens = 5, .tokens = tokens};
    matrix m = make_matrix(LN_DTYPE_Q4_0, OUT, IN);
    float *x = noise_rows(ROWS * IN), *y[2] = {noise_rows(ROWS * OUT), noise_rows(ROWS * OUT)};
    float *rows[2] = {noise_rows(5 * IN), noise_rows(5 * IN)};
    ln_backend *backends[2] = {make_backend(false), make_backend(true)};
    ln_weight weights[2];
    void *memory[2];
    for (size_t b = 0; b < 2; b++) {
        ln_weight_request request = {
            .n_sources = 1,
            .sources = {{.tensor = &m.tensor, .n_rows = OUT, .run_rows = OUT}},
            .n_cols = IN};
        size_t bytes;
        const ln_backend_vtable *vtable = backends[b]->vtable;
        assert_int_equal(vtable->plan_weight(backends[b], &request, &bytes, NULL), LINNET_OK);
        memory[b] = aligned_alloc(64, (bytes + 64) / 64 * 64);
        assert_non_null(memory[b]);
        assert_int_equal(vtable->prepare_weight(backends[b], &request, bytes > 0 ? memory[b] : NULL,
                                                &weights[b], NULL),
                         LINNET_OK);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t n = counts[i];
        for (size_t b = 0; b < 2; b++) {
            ln_op ops[2] = {multiply(&weights[b], n), {.kind = LN_OP_EMBED, .batch = &batch}};
            ops[0].linear.x = x, ops[0].linear.out = y[b], ops[0].linear.scale = 1.0f;
            ops[1].embed = (ln_op_embed){.table = &weights[b], .scale = 1.0f, .out = rows[b]};
            assert_int_equal(ln_cpu_is_small(ops, 2), n < 4);
            assert_int_equal(backends[b]->vtable->run(backends[b], ops, 2, NULL), LINNET_OK);
        }
        assert_memory_equal(rows[0], rows[1], 5 * IN * sizeof *x);
        assert_memory_equal(y[0], y[1], n * OUT * sizeof *x);
    }
    for (size_t b = 0; b < 2; b++) {
        backends[b]->vtable->destroy(backends[b]);
        free(memory[b]), free(y[b]), free(rows[b]);
    }
    free(x);
    free_matrix(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_weights_and_rows_counts),
        cmocka_unit_test(long_contexts_count),
        cmocka_unit_test(bits_are_those_of_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
