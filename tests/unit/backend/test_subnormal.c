/* On x86-64 scans count subnormal numbers as zero, and nothing else does: neither operations behind
 * them nor the calling thread, whose mode stays as it was. */
#include "matrix.h"

#include <float.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/cpu/sets.h"
#include "backend/registry.h"

#if defined(__x86_64__)
static const bool scans_flush = true;
#else
static const bool scans_flush = false;
#endif

enum { N_THREADS = 3, TAIL_FLOATS = 1024 };

/* NULL: this processor has no such instructions. */
static ln_backend *make_backend(const char *isa) {
    ln_backend *backend;
    ln_backend_options options = {.isa = isa, .n_threads = N_THREADS};
    ln_step_limits limits = {.max_tokens = N_THREADS,
                             .max_seqs = 1,
                             .max_ctx = LN_STATE_CHUNK + 1,
                             .max_blocks = 2,
                             .max_width = 16,
                             .max_head_dim = 1,
                             .max_heads = 1,
                             .max_state_dim = 1};
    if (ln_backend_create("cpu", &options, &backend, NULL) != LINNET_OK)
        return NULL;
    assert_int_equal(backend->vtable->reserve_scratch(backend, &limits, NULL), LINNET_OK);
    return backend;
}

/* A scan reads state * query out of a state of one number, where a chunk begins. An operation of
 * which each thread has a row follows in the same step: `halves` become half of FLT_MIN. */
static float scan(ln_backend *backend, float state, float query, float halves[N_THREADS]) {
    static const float zero = 0.0f, half = 0.5f, least[N_THREADS] = {FLT_MIN, FLT_MIN, FLT_MIN};
    static float tails[TAIL_FLOATS];
    float states[] = {0.0f, state}, out = -1.0f;
    int32_t position = LN_STATE_CHUNK, length = position + 1, starts[] = {0, 1};
    int32_t table[] = {-1, 1}, tail = 0;
    ln_state_shape shape = {
        .n_heads = 1, .n_k_heads = 1, .k_dim = 1, .v_dim = 1, .n_decays = 1, .n_rows = 64};
    ln_kv_layer state_layer = {
        .group = 0, .block_tokens = 1, .n_heads = 1, .k_dim = 1, .k = states};
    ln_kv_layer tail_layer = {
        .group = 1, .block_tokens = 1, .n_heads = 1, .k_dim = TAIL_FLOATS, .k = tails};
    ln_state_cache cache = {shape, &state_layer, &tail_layer};
    ln_batch batch = {.n_tokens = 1,
                      .n_seqs = 1,
                      .n_groups = 2,
                      .positions = &position,
                      .seq_starts = starts,
                      .groups = {{table, 2, &length, NULL}, {&tail, 1, &length, NULL}}};
    ln_op ops[2] = {{.kind = LN_OP_SCAN, .batch = &batch},
                    {.kind = LN_OP_POINTWISE, .batch = &batch}};
    assert_true(ln_tail_block_floats(&shape) <= TAIL_FLOATS);
    ops[0].scan = (ln_op_scan){.q = &query,
                               .k = &zero,
                               .v = &zero,
                               .q_stride = 1,
                               .k_stride = 1,
                               .v_stride = 1,
                               .decay = LN_DECAY_FIXED,
                               .rate = &zero,
                               .q_scale = 1.0f,
                               .cache = &cache,
                               .out = &out};
    ops[1].pointwise = (ln_op_pointwise){.function = LN_POINTWISE_SCALE,
                                         .n_rows = N_THREADS,
                                         .dim = 1,
                                         .n_gates = 1,
                                         .x = least,
                                         .gate = &half,
                                         .one_gate = true,
                                         .out = halves};
    assert_int_equal(backend->vtable->run(backend, ops, 2, NULL), LINNET_OK);
    return out;
}

static void scans_alone_flush(void **state) {
    (void)state;
    static const float states[] = {FLT_MIN, FLT_MIN / 2, FLT_MIN}, queries[] = {0.5f, 4.0f, 4.0f};
    for (size_t set = 0; ln_cpu_set(set) != NULL; set++) {
        ln_backend *backend = make_backend(ln_cpu_set(set)->isa);
        for (size_t i = 0; i < 3 && backend != NULL; i++) {
            bool flushes = scans_flush && i < 2; /* a subnormal result; an operand; neither */
            float halves[N_THREADS] = {0}, want = flushes ? 0.0f : states[i] * queries[i];
            assert_true(scan(backend, states[i], queries[i], halves) == want);
            for (size_t thread = 0; thread < N_THREADS; thread++)
                assert_true(halves[thread] == FLT_MIN / 2);
        }
        if (backend != NULL)
            backend->vtable->destroy(backend);
    }
}

/* Whether this thread has them, as results and as operands. */
static bool has_subnormals(void) {
    volatile float least = FLT_MIN, half = 0.5f, subnormal = least * half;
    return subnormal > 0.0f && subnormal / half == least;
}

static void callers_keep_their_mode(void **state) {
    (void)state;
    float halves[N_THREADS];
    ln_backend *backend = make_backend("auto");
    assert_non_null(backend);
    assert_true(has_subnormals());
    (void)scan(backend, FLT_MIN, 0.5f, halves);
    assert_true(has_subnormals());
#if defined(__x86_64__)
    enum { FLAGS = 0x3f }; /* that operations leave */
    unsigned mode = _mm_getcsr() & ~(unsigned)FLAGS;
    for (unsigned own = 0; own < 4; own++) { /* denormals-are-zero and flush-to-zero of its own */
        unsigned set = mode | (own & 1) << 6 | (own >> 1) << 15;
        _mm_setcsr(set);
        (void)scan(backend, FLT_MIN, 0.5f, halves);
        unsigned left = _mm_getcsr() & ~(unsigned)FLAGS;
        _mm_setcsr(mode);
        assert_int_equal(left, set);
    }
#endif
    backend->vtable->destroy(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scans_alone_flush),
                                       cmocka_unit_test(callers_keep_their_mode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
