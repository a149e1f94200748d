/* The tokens that a backend draws are those of the host's sampler, from the same logits.
 * usage: unit_engine_draws [BACKEND] */
#include "test.h"
#include "test_backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/rng.h"
#include "sampling/sampler.h"

enum { ROWS = 24 };

static ln_backend *backend;
static uint64_t n_random;

static float uniform(void) {
    return ln_rng_uniform(7, 0, n_random++, 0);
}

/* Rows of different looks: noise, steep ones, ties, all equal, the best side by side, infinities.
 */
static void fill(float *logits, size_t n, size_t look) {
    for (size_t i = 0; i < n; i++) {
        float u = uniform();
        switch (look % 6) {
        case 0: logits[i] = 8 * u - 4; break;
        case 1: logits[i] = 30 * u * u * u - 20; break;
        case 2: logits[i] = floorf(8 * u); break;
        case 3: logits[i] = -1.5f; break;
        case 4: logits[i] = i % 1024 < 2 ? 9 + u : u; break;
        default: logits[i] = u < 0.01f ? -INFINITY : 20 * u - 10; break;
        }
    }
    if (look % 12 == 11)
        logits[n / 2] = logits[n - 1] = INFINITY;
}

static linnet_sampling make_sampling(size_t row) {
    static const int32_t top_k[] = {40, 1, 2, 1024, 300, 64};
    static const float top_p[] = {0.95f, 1, 0.5f, 0, 0.999f};
    return (linnet_sampling){.temperature = row % 8 == 7 ? 0 : 0.3f + uniform() * 2,
                             .top_k = top_k[row % 6],
                             .top_p = top_p[row % 5],
                             .min_p = row % 4 == 3 ? 0.1f : 0,
                             .repeat_penalty = 1,
                             .seed = row};
}

/* What the backend draws from logits [ROWS][n]. */
static void draw_rows(const float *logits, size_t n, const ln_draw *draws, int32_t *ids) {
    const ln_backend_vtable *vtable = backend->vtable;
    size_t logits_bytes = ROWS * n * sizeof *logits, bytes = logits_bytes + 2 * ROWS * sizeof *ids;
    void *memory, *host;
    ln_error err = {0};
    if (vtable->reserve(backend, bytes, "test", &memory, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    vtable->upload(backend, memory, logits, logits_bytes);
    int32_t *out = (int32_t *)(void *)((char *)memory + logits_bytes);
    ln_batch batch = {.n_logits = ROWS, .draws = draws};
    ln_op op = {.kind = LN_OP_SAMPLE,
                .batch = &batch,
                .sample = {.logits = memory,
                           .n_rows = ROWS,
                           .n_vocab = n,
                           .ids = out,
                           .best = (float *)(void *)(out + ROWS)}};
    if (vtable->run(backend, &op, 1, &err) != LINNET_OK ||
        vtable->read_back(backend, out, ROWS * sizeof *ids, &host, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    memcpy(ids, host, ROWS * sizeof *ids);
    vtable->release(backend, memory, bytes);
}

static void draws_are_those_of_the_sampler(void **state) {
    (void)state;
    static const size_t vocabularies[] = {1, 3, 700, 1024, 1500, 32000, 50257};
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++) {
        size_t n = vocabularies[v];
        ln_layout layout = {0};
        ln_sampler sampler;
        ln_draw draws[ROWS];
        linnet_sampling samplings[ROWS];
        int32_t ids[ROWS];
        ln_sampler_plan(n, 16, &layout);
        void *memory = calloc(1, layout.bytes);
        float *logits = malloc(ROWS * n * sizeof *logits);
        assert_true(memory != NULL && logits != NULL);
        ln_sampler_init(&sampler, n, 16, memory);
        for (size_t row = 0; row < ROWS; row++) {
            ln_sample_place place = {.n_tokens = row};
            fill(logits + row * n, n, row + v);
            samplings[row] = make_sampling(row + 5 * v);
            assert_true(ln_sampler_is_draw(&samplings[row], &place, &draws[row]));
        }
        draw_rows(logits, n, draws, ids);
        for (size_t row = 0; row < ROWS; row++) {
            ln_sample_place place = {.n_tokens = row};
            int32_t want;
            assert_int_equal(
                ln_sampler_sample(&sampler, &samplings[row], &place, logits + row * n, &want, NULL),
                LINNET_OK);
            if (ids[row] != want)
                fail_msg("vocabulary %zu, row %zu: %d, not %d", n, row, (int)ids[row], (int)want);
        }
        free(memory);
        free(logits);
    }
}

int main(int argc, char **argv) {
    ln_error err = {0};
    ln_backend_options options = {.isa = "auto", .n_threads = 2, .exact = true};
    ln_step_limits limits = {.max_tokens = 64,
                             .max_seqs = 8,
                             .max_ctx = 64,
                             .max_blocks = 8,
                             .max_read_bytes = 8 << 20,
                             .max_width = 64,
                             .max_head_dim = 64,
                             .max_heads = 8};
    ln_status status = ln_backend_create(argc > 1 ? argv[1] : "cpu", &options, &backend, &err);
    if (status == LINNET_ERR_UNSUPPORTED || (status == LINNET_ERR_ARGUMENT && argc > 1)) {
        printf("skipped: %s\n", err.message);
        return TEST_EXIT_SKIPPED;
    }
    if (status != LINNET_OK ||
        backend->vtable->reserve_scratch(backend, &limits, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_those_of_the_sampler),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    backend->vtable->destroy(backend);
    return failed;
}
