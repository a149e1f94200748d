/* engine/scheduler and engine/step: budgets, chunks, order, windows, and the batch they make. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/scheduler.h"
#include "engine/step.h"

enum { MAX_TOKENS = 400 };

typedef struct bench {
    ln_kv_cache kv;
    ln_scheduler scheduler;
    ln_step step;
    void *kv_memory, *scheduler_memory, *step_memory;
} bench;

static void setup(bench *b, const ln_step_budget *budget, const ln_kv_shape *shape) {
    ln_layout kv = {0}, scheduler = {0}, step = {0};
    ln_kv_cache_plan(shape, &kv);
    ln_scheduler_plan(budget, &scheduler);
    ln_step_plan(budget, shape, &step);
    b->kv_memory = calloc(1, kv.bytes);
    b->scheduler_memory = calloc(1, scheduler.bytes);
    b->step_memory = calloc(1, step.bytes);
    ln_kv_cache_init(&b->kv, shape, b->kv_memory);
    ln_scheduler_options options = {0};
    ln_scheduler_init(&b->scheduler, budget, &options, &b->kv, b->scheduler_memory);
    ln_step_init(&b->step, budget, shape, b->step_memory);
}

static void teardown(bench *b) {
    free(b->kv_memory);
    free(b->scheduler_memory);
    free(b->step_memory);
}

static ln_kv_shape shape_for(const ln_step_budget *budget, size_t window) {
    ln_kv_shape shape = {.n_groups = 2,
                         .windows = {0, window},
                         .ctx_tokens = MAX_TOKENS,
                         .max_seqs = budget->max_seqs,
                         .max_chunk_tokens = budget->max_tokens};
    for (size_t g = 0; g < 2; g++)
        shape.n_blocks[g] = budget->max_seqs *
                            ln_kv_blocks_needed(MAX_TOKENS, shape.windows[g], budget->max_tokens);
    return shape;
}

static const int32_t *counting(void) {
    static int32_t tokens[MAX_TOKENS];
    for (int32_t i = 0; i < MAX_TOKENS; i++)
        tokens[i] = i;
    return tokens;
}

/* A group of one sequence; init_work sets its pointers. */
typedef struct work {
    ln_sequence_group group;
    ln_sequence sequence;
} work;

static void init_work(work *w, size_t n_prompt, size_t n_output) {
    w->sequence = (ln_sequence){.group = &w->group,
                                .tokens = counting(),
                                .n_tokens = n_prompt,
                                .max_tokens = n_prompt + n_output};
    w->group = (ln_sequence_group){
        .sequences = &w->sequence, .n_sequences = 1, .n_live = 1, .n_prompt = n_prompt};
}

static void add_work(bench *b, work *w, size_t n_prompt, size_t n_output) {
    init_work(w, n_prompt, n_output);
    ln_scheduler_add(&b->scheduler, &w->group);
}

/* A step runs: who got logits of the last token gets a new one, or ends. */
static void run_step(bench *b) {
    ln_scheduler_commit(&b->scheduler);
    for (size_t i = 0; i < b->scheduler.n_chunks; i++) {
        ln_sequence *sequence = b->scheduler.chunks[i].sequence;
        bool all_cached = sequence->n_cached == sequence->n_tokens;
        if (all_cached && !sequence->group->wants_all_logits)
            sequence->n_tokens++;
        if (all_cached && sequence->n_tokens == sequence->max_tokens)
            ln_scheduler_end(&b->scheduler, sequence);
    }
}

static void expect_chunk(const bench *b, size_t index, const work *w, size_t n_tokens,
                         size_t n_logits) {
    assert_true(index < b->scheduler.n_chunks);
    assert_ptr_equal(b->scheduler.chunks[index].sequence, &w->sequence);
    assert_int_equal(b->scheduler.chunks[index].n_tokens, n_tokens);
    assert_int_equal(b->scheduler.chunks[index].n_logits, n_logits);
}

static void decodes_come_first_and_prompts_in_chunks(void **state) {
    (void)state;
    ln_step_budget budget = {.max_seqs = 3, .max_tokens = 10, .max_logits = 10};
    ln_kv_shape shape = shape_for(&budget, 0);
    bench b;
    setup(&b, &budget, &shape);
    work first, second, third, fourth;
    add_work(&b, &first, 4, 20);
    add_work(&b, &second, 23, 5);
    add_work(&b, &third, 7, 3);
    add_work(&b, &fourth, 1, 3);

    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 2);
    expect_chunk(&b, 0, &first, 4, 1);
    expect_chunk(&b, 1, &second, 6, 0);
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 2);
    expect_chunk(&b, 0, &first, 1, 1);
    expect_chunk(&b, 1, &second, 9, 0);
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 3);
    expect_chunk(&b, 1, &second, 8, 1);
    expect_chunk(&b, 2, &third, 1, 0); /* behind the second, whose blocks it might share */
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 3);
    expect_chunk(&b, 0, &first, 1, 1);
    expect_chunk(&b, 1, &second, 1, 1);
    expect_chunk(&b, 2, &third, 6, 1); /* the fourth has tokens to spare, but no sequence */
    run_step(&b);
    assert_ptr_equal(b.scheduler.queues.waiting.first, &fourth.group);
    while (ln_scheduler_schedule(&b.scheduler) > 0) {
        assert_in_range(b.scheduler.n_tokens, 1, 10);
        run_step(&b);
    }
    assert_true(ln_scheduler_is_idle(&b.scheduler));
    assert_int_equal(b.kv.groups[0].pool.n_free, shape.n_blocks[0]);
    teardown(&b);
}

static void rows_of_logits_bound_scores(void **state) {
    (void)state;
    ln_step_budget budget = {.max_seqs = 3, .max_tokens = 20, .max_logits = 4};
    ln_kv_shape shape = shape_for(&budget, 0);
    bench b;
    setup(&b, &budget, &shape);
    work score, generate;
    add_work(&b, &score, 9, 0);
    add_work(&b, &generate, 5, 2);
    score.group.wants_all_logits = true;
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 2);
    expect_chunk(&b, 0, &score, 4, 4);
    expect_chunk(&b, 1, &generate, 4, 0); /* the row of its last token is taken */
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 2);
    expect_chunk(&b, 0, &generate, 1, 1);
    expect_chunk(&b, 1, &score, 3, 3); /* a row is kept for the other */
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 2);
    expect_chunk(&b, 0, &generate, 1, 1);
    expect_chunk(&b, 1, &score, 2, 2);
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 0);
    teardown(&b);
}

static void blocks_make_the_first_wait(void **state) {
    (void)state;
    ln_step_budget budget = {.max_seqs = 4, .max_tokens = 64, .max_logits = 4};
    ln_kv_shape shape = shape_for(&budget, 0);
    shape.n_blocks[0] = 10;
    shape.n_blocks[1] = 10;
    bench b;
    setup(&b, &budget, &shape);
    work large, larger, small;
    add_work(&b, &large, 100, 60);
    add_work(&b, &larger, 80, 80);
    add_work(&b, &small, 1, 4);
    while (large.sequence.n_tokens < 160) {
        assert_int_equal(ln_scheduler_schedule(&b.scheduler), 1); /* nobody overtakes */
        expect_chunk(&b, 0, &large,
                     large.sequence.n_cached == 0    ? 64
                     : large.sequence.n_cached == 64 ? 36
                                                     : 1,
                     large.sequence.n_cached == 0 ? 0 : 1);
        run_step(&b);
    }
    ln_scheduler_schedule(&b.scheduler);
    expect_chunk(&b, 0, &larger, 64, 0);
    run_step(&b);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 2);
    expect_chunk(&b, 1, &small, 1, 1);
    teardown(&b);
}

/* The batch tells where each token's K and V go, and where those that it sees lie. */
static void check_batch(const bench *b) {
    const ln_batch *batch = &b->step.batch;
    assert_int_equal(batch->n_seqs, b->scheduler.n_chunks);
    assert_int_equal(batch->n_tokens, b->scheduler.n_tokens);
    assert_int_equal(batch->n_logits, b->scheduler.n_logits);
    assert_int_equal(batch->seq_starts[0], 0);
    size_t row = 0;
    for (size_t s = 0; s < batch->n_seqs; s++) {
        const ln_chunk *chunk = &b->scheduler.chunks[s];
        size_t begin = (size_t)batch->seq_starts[s], end = (size_t)batch->seq_starts[s + 1];
        assert_int_equal(end - begin, chunk->n_tokens);
        for (size_t i = 0; i < chunk->n_logits; i++)
            assert_int_equal(batch->logit_rows[row++], end - chunk->n_logits + i);
        for (size_t t = begin; t < end; t++) {
            size_t position = chunk->sequence->n_cached + t - begin;
            assert_int_equal(batch->positions[t], position);
            assert_int_equal(batch->tokens[t], position); /* tokens count */
            for (size_t g = 0; g < batch->n_groups; g++) {
                const ln_batch_group *group = &batch->groups[g];
                const int32_t *table = group->block_tables + s * group->max_blocks;
                assert_int_equal(group->lengths[s], chunk->sequence->n_cached + chunk->n_tokens);
                assert_int_equal(group->slots[t], table[position / 16] * 16 + (int)position % 16);
                size_t window = b->kv.groups[g].window;
                size_t seen = window > 0 && position + 1 > window ? position + 1 - window : 0;
                for (; seen <= position; seen++)
                    assert_true(table[seen / 16] >= 0);
            }
        }
    }
}

/* Random prompts and outputs under random budgets: all end, within every budget, and every block
 * comes back. */
static void random_work_keeps_the_contracts(void **state) {
    (void)state;
    srand(7);
    for (int turn = 0; turn < 60; turn++) {
        enum { N = 12 };
        size_t max_seqs = 1 + (size_t)rand() % 5, max_tokens = max_seqs + (size_t)rand() % 40;
        ln_step_budget budget = {max_seqs, max_tokens, max_seqs + (size_t)rand() % 3, 0};
        if (budget.max_logits > max_tokens)
            budget.max_logits = max_tokens;
        ln_kv_shape shape = shape_for(&budget, 1 + (size_t)rand() % 50);
        bench b;
        setup(&b, &budget, &shape);
        work works[N];
        for (size_t i = 0; i < N; i++) {
            bool scores = rand() % 4 == 0;
            add_work(&b, &works[i], 1 + (size_t)rand() % 200,
                     scores ? 0 : 1 + (size_t)rand() % 100);
            works[i].group.wants_all_logits = scores;
        }
        while (ln_scheduler_schedule(&b.scheduler) > 0) {
            assert_in_range(b.scheduler.n_tokens, 1, budget.max_tokens);
            assert_in_range(b.scheduler.n_chunks, 1, budget.max_seqs);
            assert_in_range(b.scheduler.n_logits, 0, budget.max_logits);
            ln_step_build(&b.step, &b.scheduler);
            check_batch(&b);
            run_step(&b);
            assert_true(ln_kv_cache_check(&b.kv));
        }
        for (size_t i = 0; i < N; i++)
            assert_int_equal(works[i].sequence.n_tokens, works[i].sequence.max_tokens);
        for (size_t g = 0; g < 2; g++)
            assert_int_equal(b.kv.groups[g].pool.n_free, shape.n_blocks[g]);
        teardown(&b);
    }
}

/* An unending stream of requests that go first: who waits behind them gets a turn, and ends. */
static void nobody_starves(void **state) {
    (void)state;
    enum { STREAM = 8, LAST = STREAM };
    ln_step_budget budget = {.max_seqs = 3, .max_tokens = 16, .max_logits = 3};
    ln_kv_shape shape = shape_for(&budget, 0);
    shape.n_blocks[0] = shape.n_blocks[1] = 9;
    bench b;
    setup(&b, &budget, &shape);
    b.scheduler.queues.order = LINNET_ORDER_PRIORITY;
    work works[STREAM + 1];
    for (size_t i = 0; i < STREAM; i++)
        add_work(&b, &works[i], 20, 20);
    init_work(&works[LAST], 60, 40);
    works[LAST].group.priority = 1;
    ln_scheduler_add(&b.scheduler, &works[LAST].group);
    size_t n_steps = 0;
    while (!works[LAST].sequence.is_over) {
        assert_true(ln_scheduler_schedule(&b.scheduler) > 0);
        run_step(&b);
        assert_true(ln_kv_cache_check(&b.kv));
        for (size_t i = 0; i < STREAM; i++)
            if (works[i].sequence.is_over)
                add_work(&b, &works[i], 20, 20);
        assert_in_range(++n_steps, 1, 5000);
    }
    assert_in_range(b.scheduler.n_admissions, 64, 200);
    teardown(&b);
}

static bool runs(const work *w) {
    return w->group.state == LN_GROUP_RUNNING;
}

/* Who waits with a higher priority takes the place of who runs with a lower one, the last of them;
 * who has the same waits. */
static void priorities_take_places(void **state) {
    (void)state;
    ln_step_budget budget = {.max_seqs = 2, .max_tokens = 16, .max_logits = 2};
    ln_kv_shape shape = shape_for(&budget, 0);
    bench b;
    setup(&b, &budget, &shape);
    b.scheduler.queues.order = LINNET_ORDER_PRIORITY;
    work works[4];
    static const int32_t priorities[] = {5, 7, 7, 2};
    for (size_t i = 0; i < 4; i++) {
        init_work(&works[i], 4, 10);
        works[i].group.priority = priorities[i];
        ln_scheduler_add(&b.scheduler, &works[i].group);
        ln_scheduler_schedule(&b.scheduler);
        if (i == 2) /* no place for it */
            assert_true(runs(&works[0]) && runs(&works[1]) && !runs(&works[2]));
        run_step(&b);
        assert_true(ln_kv_cache_check(&b.kv));
    }
    assert_true(runs(&works[0]) && runs(&works[3]) && !runs(&works[1]));
    assert_int_equal(b.scheduler.preemption.n_recomputed, 1);
    while (ln_scheduler_schedule(&b.scheduler) > 0)
        run_step(&b);
    for (size_t i = 0; i < 4; i++)
        assert_true(works[i].sequence.is_over);
    assert_int_equal(b.scheduler.preemption.n_recomputed, 1);
    teardown(&b);
}

/* Where all that runs gives way, who waited runs in the same step. */
static void priorities_take_the_only_place(void **state) {
    (void)state;
    ln_step_budget budget = {.max_seqs = 1, .max_tokens = 16, .max_logits = 1};
    ln_kv_shape shape = shape_for(&budget, 0);
    bench b;
    setup(&b, &budget, &shape);
    b.scheduler.queues.order = LINNET_ORDER_PRIORITY;
    work low, high;
    init_work(&low, 4, 10);
    init_work(&high, 4, 10);
    low.group.priority = 1;
    ln_scheduler_add(&b.scheduler, &low.group);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 1);
    run_step(&b);
    ln_scheduler_add(&b.scheduler, &high.group);
    assert_int_equal(ln_scheduler_schedule(&b.scheduler), 1);
    assert_true(runs(&high) && !runs(&low));
    do
        run_step(&b);
    while (ln_scheduler_schedule(&b.scheduler) > 0);
    assert_true(high.sequence.is_over && low.sequence.is_over);
    assert_true(ln_kv_cache_check(&b.kv));
    teardown(&b);
}

/* A group whose turn has come, as it has waited longest, waits for a place of its own and keeps it:
 * it neither takes that of a lower priority nor gives way to a higher one. */
static void overdue_groups_neither_take_nor_lose_places(void **state) {
    (void)state;
    enum { BEFORE_THE_TURN = 63 };
    ln_step_budget budget = {.max_seqs = 1, .max_tokens = 16, .max_logits = 1};
    ln_kv_shape shape = shape_for(&budget, 0);
    bench b;
    setup(&b, &budget, &shape);
    b.scheduler.queues.order = LINNET_ORDER_PRIORITY;
    enum { LOW, OVERDUE, HIGH, COUNT };
    static const int32_t priorities[COUNT] = {[LOW] = 7, [OVERDUE] = 5, [HIGH] = 2};
    work works[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        init_work(&works[i], 4, 10);
        works[i].group.priority = priorities[i];
    }
    ln_scheduler_add(&b.scheduler, &works[LOW].group);
    ln_scheduler_schedule(&b.scheduler);
    run_step(&b);
    b.scheduler.n_admissions = BEFORE_THE_TURN;
    ln_scheduler_add(&b.scheduler, &works[OVERDUE].group);
    ln_scheduler_schedule(&b.scheduler);
    run_step(&b);
    assert_true(works[OVERDUE].group.is_overdue && !runs(&works[OVERDUE]) && runs(&works[LOW]));
    for (size_t next = LOW; next <= OVERDUE;
         next++) { /* they end in the order in which they came */
        while (!works[next].sequence.is_over) {
            ln_scheduler_schedule(&b.scheduler);
            expect_chunk(&b, 0, &works[next], 1, 1);
            run_step(&b);
            assert_true(ln_kv_cache_check(&b.kv));
        }
        if (next == LOW) { /* the place is free */
            ln_scheduler_schedule(&b.scheduler);
            run_step(&b);
            assert_true(runs(&works[OVERDUE]));
            ln_scheduler_add(&b.scheduler, &works[HIGH].group);
        }
    }
    assert_int_equal(b.scheduler.preemption.n_recomputed + b.scheduler.preemption.n_swapped, 0);
    while (ln_scheduler_schedule(&b.scheduler) > 0)
        run_step(&b);
    assert_true(works[HIGH].sequence.is_over);
    teardown(&b);
}

/* So many long prompts are read at once and no more; short ones go by. */
static void long_prompts_wait_for_each_other(void **state) {
    (void)state;
    enum { N = 6 };
    ln_step_budget budget = {.max_seqs = N, .max_tokens = 30, .max_logits = N};
    ln_kv_shape shape = shape_for(&budget, 0);
    for (size_t most = 0; most <= 2; most++) {
        bench b;
        setup(&b, &budget, &shape);
        b.scheduler.options.max_long_prefills = most;
        b.scheduler.options.long_prefill_tokens = 50;
        work works[N];
        for (size_t i = 0; i < N; i++)
            add_work(&b, &works[i], i < 4 ? 100 : 5, 3);
        size_t most_seen = 0, first_short = 0;
        for (size_t n_steps = 1; ln_scheduler_schedule(&b.scheduler) > 0; n_steps++) {
            size_t n_long = 0;
            for (size_t i = 0; i < 4; i++)
                n_long += runs(&works[i]) && works[i].sequence.n_cached < 100;
            most_seen = n_long > most_seen ? n_long : most_seen;
            run_step(&b);
            if (first_short == 0 && works[4].sequence.n_tokens > 5)
                first_short = n_steps;
        }
        for (size_t i = 0; i < N; i++)
            assert_true(works[i].sequence.is_over);
        /* the first takes all of three steps; then there is room beside its last tokens */
        assert_int_equal(most_seen, most == 1 ? 1 : 2);
        assert_int_equal(first_short <= 4, most == 1);
        teardown(&b);
    }
}

/* First come, first served, and far too little room: everybody ends, in the time that all would
 * take one after another. */
static void pressure_delays_but_ends(void **state) {
    (void)state;
    enum { N = 20 };
    ln_step_budget budget = {.max_seqs = 6, .max_tokens = 24, .max_logits = 6};
    ln_kv_shape shape = shape_for(&budget, 0);
    shape.n_blocks[0] = shape.n_blocks[1] = 8;
    for (size_t g = 0; g < 2; g++)
        shape.n_swap_blocks[g] = 4;
    bench b;
    setup(&b, &budget, &shape);
    work works[N];
    for (size_t i = 0; i < N; i++)
        add_work(&b, &works[i], 1 + i * 7 % 30, 80);
    size_t n_steps = 0;
    for (; ln_scheduler_schedule(&b.scheduler) > 0; n_steps++) {
        run_step(&b);
        assert_true(ln_kv_cache_check(&b.kv));
    }
    for (size_t i = 0; i < N; i++)
        assert_true(works[i].sequence.is_over);
    assert_true(b.scheduler.preemption.n_recomputed + b.scheduler.preemption.n_swapped > 0);
    assert_in_range(n_steps, 1, N * 82);
    teardown(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_come_first_and_prompts_in_chunks),
        cmocka_unit_test(rows_of_logits_bound_scores),
        cmocka_unit_test(blocks_make_the_first_wait),
        cmocka_unit_test(random_work_keeps_the_contracts),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(priorities_take_places),
        cmocka_unit_test(priorities_take_the_only_place),
        cmocka_unit_test(overdue_groups_neither_take_nor_lose_places),
        cmocka_unit_test(long_prompts_wait_for_each_other),
        cmocka_unit_test(pressure_delays_but_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
