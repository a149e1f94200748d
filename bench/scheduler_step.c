/* What the scheduler costs beside the forward pass: schedule, batch and commit of a step in which
 * 256 sequences generate, with the prefix cache on; then with a cache so small that they preempt
 * each other.
 *
 *     build/bench/bench_scheduler_step
 *
 * Prints the mean and the longest of 2,000 steps, in microseconds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/scheduler.h"
#include "engine/step.h"

enum { N_SEQS = 256, CTX = 4096, PROMPT = 512, STEPS = 2000 };

typedef struct work {
    ln_sequence_group group;
    ln_sequence sequence;
    int32_t tokens[CTX];
} work;

static void *memory_for(const ln_layout *layout) {
    void *memory = calloc(1, layout->bytes);
    if (memory == NULL)
        exit(1);
    return memory;
}

static void run(const char *name, size_t n_blocks) {
    ln_step_budget budget = {.max_seqs = N_SEQS, .max_tokens = 2048, .max_logits = N_SEQS};
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {n_blocks},
                         .ctx_tokens = CTX,
                         .max_seqs = N_SEQS,
                         .max_chunk_tokens = budget.max_tokens,
                         .shares_prefixes = true};
    ln_scheduler_options options = {0};
    ln_layout kv_layout = {0}, scheduler_layout = {0}, step_layout = {0};
    static ln_kv_cache kv;
    static ln_scheduler scheduler;
    static ln_step step;
    ln_kv_cache_plan(&shape, &kv_layout);
    ln_scheduler_plan(&budget, &scheduler_layout);
    ln_step_plan(&budget, &shape, &step_layout);
    void *memory[] = {memory_for(&kv_layout), memory_for(&scheduler_layout),
                      memory_for(&step_layout)};
    ln_kv_cache_init(&kv, &shape, memory[0]);
    ln_scheduler_init(&scheduler, &budget, &options, &kv, memory[1]);
    ln_step_init(&step, &budget, &shape, memory[2]);
    work *works = calloc(N_SEQS, sizeof *works);
    if (works == NULL)
        exit(1);
    for (size_t i = 0; i < N_SEQS; i++) {
        work *w = &works[i];
        for (size_t at = 0; at < CTX; at++)
            w->tokens[at] = (int32_t)(i * 31 + at);
        w->sequence = (ln_sequence){
            .group = &w->group, .tokens = w->tokens, .n_tokens = PROMPT, .max_tokens = CTX};
        w->group = (ln_sequence_group){
            .sequences = &w->sequence, .n_sequences = 1, .n_live = 1, .n_prompt = PROMPT};
        ln_scheduler_add(&scheduler, &w->group);
    }
    uint64_t total_ns = 0, longest_ns = 0, n_measured = 0;
    for (size_t turn = 0; n_measured < STEPS; turn++) {
        uint64_t begin_ns = ln_clock_ns();
        ln_scheduler_schedule(&scheduler);
        ln_step_build(&step, &scheduler);
        ln_scheduler_commit(&scheduler);
        uint64_t step_ns = ln_clock_ns() - begin_ns;
        if (turn >= N_SEQS * PROMPT / 2048 + 1) { /* all prompts are read */
            total_ns += step_ns;
            longest_ns = step_ns > longest_ns ? step_ns : longest_ns;
            n_measured++;
        }
        for (size_t i = 0; i < scheduler.n_chunks; i++) {
            ln_sequence *sequence = scheduler.chunks[i].sequence;
            sequence->n_tokens += sequence->n_cached == sequence->n_tokens;
        }
    }
    printf("%-28s %8.1f us a step, longest %8.1f, %zu running, %llu preemptions\n", name,
           (double)total_ns * 1e-3 / STEPS, (double)longest_ns * 1e-3, scheduler.queues.n_running,
           (unsigned long long)scheduler.preemption.n_recomputed);
    for (size_t i = 0; i < 3; i++)
        free(memory[i]);
    free(works);
}

int main(void) {
    run("room for all", N_SEQS * CTX / LN_KV_BLOCK_TOKENS);
    run("room for a quarter", N_SEQS * CTX / LN_KV_BLOCK_TOKENS / 4);
    return 0;
}
