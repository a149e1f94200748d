/* The tokens that a backend draws are those of the host's sampler, from the same logits.
 * usage: unit_engine_draws [BACKEND] */
#include "test.h"
#include "test_backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/rng.h"
#include "sampling/logprobs.h"

enum { ROWS = 24, CTX = 64, N_BIASES = 5, N_BAD = 3, N_STOPS = 2 };

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

/* What a row asks for. */
typedef struct row_case {
    linnet_sampling sampling;
    int32_t tokens[CTX];
    linnet_logit_bias biases[N_BIASES];
    int32_t bad_ids[N_BAD], stop_ids[N_STOPS];
    size_t bad_ends[N_BAD];
    ln_token_rules rules;
    ln_sample_context context;
    bool reports;
    size_t n_top;
} row_case;

static int32_t any_id(size_t n) {
    size_t id = (size_t)(uniform() * (float)n);
    return (int32_t)(id < n ? id : n - 1);
}

/* Ids that come again and again, some of them the row's best ones. */
static int32_t some_id(const float *logits, size_t n) {
    int32_t id = any_id(n);
    for (size_t i = 0; i < 20; i++) {
        int32_t other = any_id(n);
        id = logits[other] > logits[id] ? other : id;
    }
    return uniform() < 0.5f ? id : (int32_t)((size_t)id % (n < 7 ? n : 7));
}

static void make_case(row_case *c, size_t row, const float *logits, size_t n) {
    static const int32_t last_n[] = {64, 1, 5, 0};
    *c = (row_case){.sampling = make_sampling(row), .reports = row % 2, .n_top = row % 4 * 6};
    c->n_top = c->n_top < n ? c->n_top : n;
    c->context = (ln_sample_context){.tokens = c->tokens, .n_tokens = 1 + row % (CTX - 1)};
    for (size_t i = 0; i < CTX; i++)
        c->tokens[i] = some_id(logits, n);
    if (row % 3 > 0) {
        c->sampling.repeat_last_n = last_n[row / 3 % 4];
        c->sampling.repeat_penalty = row % 5 ? 1.3f : 1;
        c->sampling.frequency_penalty = row % 7 < 4 ? 0.7f : 0;
        c->sampling.presence_penalty = row % 7 < 2 ? -0.3f : 0.4f;
    }
    if (row % 3 < 2 || n < 100)
        return;
    for (size_t i = 0; i < N_BIASES; i++) /* the last id has two; one is among those that came */
        c->biases[i] = (linnet_logit_bias){.id = i == 1 ? c->tokens[0] : some_id(logits, n),
                                           .bias = i == 2 ? -INFINITY : 6 * uniform() - 3};
    c->biases[N_BIASES - 1].id = c->biases[0].id;
    for (size_t i = 0; i < N_BAD; i++) {
        c->bad_ids[i] = some_id(logits, n);
        c->bad_ends[i] = i + 1;
    }
    for (size_t i = 0; i < N_STOPS; i++)
        c->stop_ids[i] = some_id(logits, n);
    c->rules = (ln_token_rules){.biases = c->biases,
                                .n_biases = N_BIASES,
                                .bad_ids = c->bad_ids,
                                .bad_ends = c->bad_ends,
                                .n_bad_words = row % 2 ? N_BAD : 0,
                                .stop_ids = c->stop_ids,
                                .n_stop_ids = N_STOPS,
                                .min_tokens = row % 4 * 10};
    c->context.rules = &c->rules;
}

typedef struct drawn {
    int32_t ids[ROWS];
    float best[ROWS];
    ln_draw_report reports[ROWS];
} drawn;

/* What the backend draws from logits [ROWS][n]. */
static void draw_rows(const float *logits, size_t n, const ln_batch *batch, drawn *out) {
    const ln_backend_vtable *vtable = backend->vtable;
    size_t logits_bytes = (ROWS * n * sizeof *logits + 15) / 16 * 16;
    size_t bytes = logits_bytes + sizeof *out;
    void *memory, *host;
    ln_error err = {0};
    if (vtable->reserve(backend, bytes, "test", &memory, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    vtable->upload(backend, memory, logits, ROWS * n * sizeof *logits);
    drawn *there = (drawn *)(void *)((char *)memory + logits_bytes);
    ln_op op = {.kind = LN_OP_SAMPLE,
                .batch = batch,
                .sample = {.logits = memory,
                           .n_rows = ROWS,
                           .n_vocab = n,
                           .ids = there->ids,
                           .best = there->best,
                           .reports = there->reports}};
    if (vtable->run(backend, &op, 1, &err) != LINNET_OK ||
        vtable->read_back(backend, there, sizeof *out, &host, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    memcpy(out, host, sizeof *out);
    vtable->release(backend, memory, bytes);
}

static ln_sampler *make_sampler(size_t n, void **memory) {
    ln_layout layout = {0};
    ln_sampler *sampler = malloc(sizeof *sampler);
    ln_sampler_plan(n, CTX, &layout);
    *memory = calloc(1, layout.bytes);
    assert_true(sampler != NULL && *memory != NULL);
    ln_sampler_init(sampler, n, CTX, *memory);
    return sampler;
}

/* What the host's sampler makes of a row, which it changes, is what was drawn. */
static void check_row(ln_sampler *sampler, ln_sampler *other, const row_case *c, float *logits,
                      const drawn *got, size_t row) {
    linnet_logprob want_top[LN_DRAW_TOP], top[LN_DRAW_TOP];
    int32_t want, id = got->ids[row];
    ln_error err = {0};
    ln_logprobs_take(sampler, logits, want_top, c->n_top);
    if (ln_sampler_sample(sampler, &c->sampling, &c->context, logits, &want, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    if (id != want)
        fail_msg("vocabulary %zu, row %zu: %d, not %d", sampler->n_vocab, row, (int)id, (int)want);
    if (!c->reports)
        return;
    ln_logprobs_put(other, &got->reports[row], id, top, c->n_top);
    float want_logprob = ln_logprobs_get(sampler, want), logprob = ln_logprobs_get(other, id);
    assert_memory_equal(&logprob, &want_logprob, sizeof logprob);
    for (size_t i = 0; i < c->n_top; i++) {
        assert_int_equal(top[i].id, want_top[i].id);
        assert_memory_equal(&top[i].logprob, &want_top[i].logprob, sizeof(float));
    }
}

static void draws_are_those_of_the_sampler(void **state) {
    (void)state;
    static const size_t vocabularies[] = {1, 3, 700, 1024, 1500, 32000, 50257};
    static row_case cases[ROWS];
    static int32_t edits[ROWS * LN_DRAW_WORDS];
    static drawn got;
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++) {
        size_t n = vocabularies[v], n_edits = 0;
        void *memory[2];
        ln_sampler *samplers[] = {make_sampler(n, &memory[0]), make_sampler(n, &memory[1])};
        ln_draw draws[ROWS];
        int32_t tokens[ROWS], rows[ROWS];
        float *logits = malloc(ROWS * n * sizeof *logits);
        assert_non_null(logits);
        for (size_t row = 0; row < ROWS; row++) {
            row_case *c = &cases[row];
            fill(logits + row * n, n, row + v);
            make_case(c, row + 5 * v, logits + row * n, n);
            assert_true(ln_sampler_is_draw(&c->sampling, &c->context, &draws[row],
                                           edits + n_edits * LN_DRAW_WORDS));
            draws[row].edits_at = (uint32_t)n_edits;
            draws[row].reports = c->reports ? 1 + (uint32_t)c->n_top : 0;
            n_edits += draws[row].n_biases > 0 || draws[row].penalizes;
            rows[row] = (int32_t)row;
            tokens[row] = c->tokens[c->context.n_tokens - 1];
        }
        ln_batch batch = {.n_tokens = ROWS,
                          .n_logits = ROWS,
                          .tokens = tokens,
                          .logit_rows = rows,
                          .draws = draws,
                          .edits = edits,
                          .n_edit_rows = n_edits};
        draw_rows(logits, n, &batch, &got);
        for (size_t row = 0; row < ROWS; row++)
            check_row(samplers[0], samplers[1], &cases[row], logits + row * n, &got, row);
        for (size_t i = 0; i < 2; i++) {
            free(memory[i]);
            free(samplers[i]);
        }
        free(logits);
    }
}

/* Longer lists than there is room for, and rules that look back, are for the host. */
static void what_does_not_fit_is_no_draw(void **state) {
    (void)state;
    static int32_t tokens[2 * LN_DRAW_WORDS], words[LN_DRAW_WORDS];
    linnet_sampling sampling = {.repeat_penalty = 1.1f, .repeat_last_n = LN_DRAW_WORDS};
    ln_sample_context context = {.tokens = tokens, .n_tokens = 2 * LN_DRAW_WORDS};
    ln_draw draw;
    assert_true(ln_sampler_is_draw(&sampling, &context, &draw, words));
    assert_int_equal(draw.n_said, LN_DRAW_WORDS - 1);
    sampling.repeat_last_n++;
    assert_false(ln_sampler_is_draw(&sampling, &context, &draw, words));
    sampling.repeat_penalty = 1;
    assert_true(ln_sampler_is_draw(&sampling, &context, &draw, words));
    assert_int_equal(draw.penalizes, 0);
    static const int32_t bad_ids[] = {1, 2};
    static const size_t bad_ends[] = {2};
    ln_token_rules rules = {.bad_ids = bad_ids, .bad_ends = bad_ends, .n_bad_words = 1};
    context.rules = &rules;
    assert_false(ln_sampler_is_draw(&sampling, &context, &draw, words));
    rules.n_bad_words = 0;
    sampling.dry_multiplier = 1;
    assert_false(ln_sampler_is_draw(&sampling, &context, &draw, words));
}

int main(int argc, char **argv) {
    ln_error err = {0};
    ln_backend_options options = {.isa = "auto", .n_threads = 2, .exact = true};
    ln_step_limits limits = {.max_tokens = 64,
                             .max_seqs = ROWS,
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
        cmocka_unit_test(what_does_not_fit_is_no_draw),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    backend->vtable->destroy(backend);
    return failed;
}
