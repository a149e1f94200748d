/* Collectives over a transport of threads, and what becomes of one whose rank is lost. */
#include "thread_transport.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dist/collectives.h"

enum { MAX_RANKS = THREAD_MAX_RANKS, MAX_FLOATS = 5000 };

typedef struct rank_job {
    thread_transport transport;
    ln_collectives c;
    size_t n;
    float x[MAX_FLOATS], out[MAX_FLOATS], *scratch;
    uint32_t gathered[MAX_RANKS], of_pair[2];
    ln_status status;
} rank_job;

/* Numbers whose sums depend on their order. */
static float number(size_t rank, size_t i) {
    float size = (float)(1u << (rank * 7 % 24));
    return size * (0.1f + (float)(i * 31 % 97)) * (i % 2 == 0 ? 1.0f : -1.0f);
}

static void *run(void *argument) {
    rank_job *job = argument;
    ln_collectives *c = &job->c;
    size_t begin = ln_rank_begin(job->n, c->rank, c->n_ranks);
    size_t end = ln_rank_begin(job->n, c->rank + 1, c->n_ranks);
    uint32_t own = (uint32_t)c->rank + 7, told = c->rank == 0 ? 42 : 0;
    float part[2][MAX_FLOATS];
    ln_error err = {0};
    for (size_t i = 0; i < job->n; i++)
        job->x[i] = number(c->rank, i);
    for (size_t i = begin; i < end; i++)
        for (size_t row = 0; row < 2; row++)
            part[0][row * (end - begin) + i - begin] = (float)(row * 10000 + i);
    job->status = ln_all_reduce(c, job->x, job->n, job->scratch, &err);
    if (job->status == LINNET_OK)
        job->status = ln_broadcast(c, &told, sizeof told, true, &err);
    if (job->status == LINNET_OK)
        job->status = ln_all_gather(c, &own, sizeof own, job->gathered, &err);
    if (job->status == LINNET_OK && job->n * 2 <= MAX_FLOATS)
        job->status = ln_gather_columns(c, part[0], 2, job->n, part[1], job->out, &err);
    if (job->status == LINNET_OK)
        job->status = ln_barrier(c, &err);
    if (job->status == LINNET_OK)
        assert_int_equal(told, 42);
    if (job->status == LINNET_OK && c->n_ranks == 4) {
        ln_collectives pair = ln_collectives_group(c, c->rank / 2 * 2, 2);
        job->status = ln_all_gather(&pair, &own, sizeof own, job->of_pair, &err);
    }
    return NULL;
}

/* Runs n_ranks jobs of n floats, of which the last n_lost never come. */
static rank_job *run_all(size_t n_ranks, size_t n, size_t n_lost) {
    thread_world w = THREAD_WORLD_INIT;
    rank_job *jobs = calloc(n_ranks, sizeof *jobs);
    pthread_t threads[MAX_RANKS];
    assert_non_null(jobs);
    for (size_t rank = 0; rank < n_ranks; rank++) {
        rank_job *job = &jobs[rank];
        job->transport.base = (ln_transport){.name = "threads",
                                             .rank = rank,
                                             .n_ranks = n_ranks,
                                             .exchange = thread_exchange,
                                             .close = thread_leave};
        job->transport.world = &w;
        job->n = n;
        job->scratch = calloc(ln_collectives_scratch(n_ranks, n), sizeof(float));
        job->c = (ln_collectives){.transport = &job->transport.base,
                                  .rank = rank,
                                  .n_ranks = n_ranks,
                                  .timeout_ns = n_lost > 0 ? 1 : UINT64_C(30000000000)};
    }
    for (size_t rank = 0; rank + n_lost < n_ranks; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, run, &jobs[rank]), 0);
    for (size_t rank = 0; rank + n_lost < n_ranks; rank++)
        pthread_join(threads[rank], NULL);
    return jobs;
}

static void end_all(rank_job *jobs, size_t n_ranks) {
    for (size_t rank = 0; rank < n_ranks; rank++)
        free(jobs[rank].scratch);
    free(jobs);
}

/* The same bits on every rank, and those of a sum in the order of ranks, whatever the size. */
static void sums_in_order(void **state) {
    static const size_t sizes[] = {1, 3, 64, 2048, 2049, 2500};
    (void)state;
    for (size_t n_ranks = 2; n_ranks <= MAX_RANKS; n_ranks++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t n = sizes[s];
            rank_job *jobs = run_all(n_ranks, n, 0);
            for (size_t rank = 0; rank < n_ranks; rank++) {
                assert_int_equal(jobs[rank].status, LINNET_OK);
                for (size_t i = 0; i < n; i++) {
                    float sum = number(0, i);
                    for (size_t other = 1; other < n_ranks; other++)
                        sum += number(other, i);
                    assert_memory_equal(&jobs[rank].x[i], &sum, sizeof sum);
                }
                for (size_t other = 0; other < n_ranks; other++)
                    assert_int_equal(jobs[rank].gathered[other], other + 7);
                for (size_t other = 0; other < 2 && n_ranks == 4; other++)
                    assert_int_equal(jobs[rank].of_pair[other], rank / 2 * 2 + other + 7);
            }
            for (size_t i = 0; i < 2 * n && 2 * n <= MAX_FLOATS; i++)
                assert_true(jobs[0].out[i] == (float)(i / n * 10000 + i % n));
            end_all(jobs, n_ranks);
        }
}

static size_t find_second(ln_transport *base) {
    (void)base;
    return 1;
}

static void names_a_rank_that_is_lost(void **state) {
    ln_transport transport = {.n_ranks = 2, .exchange = thread_exchange, .find_lost = find_second};
    ln_collectives c = {.transport = &transport, .n_ranks = 2};
    ln_error err = {0};
    (void)state;
    assert_int_equal(ln_collectives_check(&c, &err), LINNET_ERR_COMPUTE);
    assert_non_null(strstr(err.message, "rank 1 of 2 is lost"));
    assert_int_equal(ln_barrier(&c, &err), LINNET_ERR_COMPUTE); /* and asks nobody any more */
    c = ln_collectives_single();
    assert_int_equal(ln_collectives_check(&c, &err), LINNET_OK);
}

/* What a GPU has found out; of a group, as it counts. */
static void keeps_what_others_find_out(void **state) {
    ln_transport transport = {.n_ranks = 4, .exchange = thread_exchange};
    ln_collectives c = {.transport = &transport, .n_ranks = 4, .rank = 2};
    ln_collectives pair = ln_collectives_group(&c, 2, 2);
    ln_error err = {0};
    (void)state;
    ln_collectives_lose(&pair, 1);
    ln_collectives_lose(&c, 0); /* the first stays */
    assert_int_equal(ln_collectives_check(&c, &err), LINNET_ERR_COMPUTE);
    assert_string_equal(err.message, "rank 3 of 4 does not answer");
}

static size_t n_told[40];

/* Takes what rank 0 sends, but for rank 35. */
static ln_transport_status take(ln_transport *base, const ln_message *messages, size_t n) {
    (void)base;
    assert_true(n > 0 && n <= LN_MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(messages[i].from, LN_NO_RANK);
        assert_int_equal(messages[i].out_bytes, 5);
        assert_string_equal((const char *)messages[i].out, "step");
        if (messages[i].to == 35 && messages[i].timeout_ns == 1)
            return LN_TRANSPORT_TIMEOUT;
        n_told[messages[i].to]++;
    }
    return LN_TRANSPORT_OK;
}

static void tells_every_rank_once(void **state) {
    char step[] = "step";
    ln_transport transport = {.n_ranks = 40, .exchange = take};
    ln_collectives c = {.transport = &transport, .n_ranks = 40, .timeout_ns = 9};
    ln_error err = {0};
    (void)state;
    assert_int_equal(ln_broadcast(&c, step, sizeof step, false, &err), LINNET_OK);
    assert_int_equal(n_told[0], 0);
    for (size_t rank = 1; rank < 40; rank++)
        assert_int_equal(n_told[rank], 1);
    c.timeout_ns = 1;
    assert_int_equal(ln_broadcast(&c, step, sizeof step, false, &err), LINNET_ERR_COMPUTE);
    assert_string_equal(err.message, "one of ranks 33 to 39 of 40 does not answer");
}

static void keeps_the_first_failure(void **state) {
    (void)state;
    rank_job *jobs = run_all(2, 8, 1);
    ln_error err = {0};
    assert_int_equal(jobs[0].status, LINNET_ERR_COMPUTE);
    assert_int_equal(ln_barrier(&jobs[0].c, &err), LINNET_ERR_COMPUTE);
    assert_string_equal(err.message, "rank 1 of 2 does not answer");
    end_all(jobs, 2);
}

static void one_rank_waits_for_nobody(void **state) {
    (void)state;
    ln_collectives c = ln_collectives_single();
    float x[2] = {1, 2}, out[2] = {0};
    assert_int_equal(ln_all_reduce(&c, x, 2, NULL, NULL), LINNET_OK);
    assert_int_equal(ln_gather_columns(&c, x, 1, 2, NULL, out, NULL), LINNET_OK);
    assert_int_equal(ln_barrier(&c, NULL), LINNET_OK);
    assert_int_equal(ln_broadcast(&c, x, sizeof x, false, NULL), LINNET_OK);
    assert_true(x[0] == 1 && x[1] == 2 && out[0] == 1 && out[1] == 2);
    ln_collectives_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_in_order),
        cmocka_unit_test(names_a_rank_that_is_lost),
        cmocka_unit_test(keeps_what_others_find_out),
        cmocka_unit_test(keeps_the_first_failure),
        cmocka_unit_test(tells_every_rank_once),
        cmocka_unit_test(one_rank_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
