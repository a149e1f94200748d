/* The scheduler decides what a step computes: continuous batching with chunked prefill. Groups of
 * sequences wait, run, may be swapped out, and end.
 *
 * Groups have an order: first come, first served; or by priority, where every 64th admission goes
 * to the group that has waited longest. A step has a budget of tokens and of rows of logits.
 * Sequences that lack one token in the cache (decodes) always find room in it; the rest goes to
 * unfinished prefills in order, in chunks whose size is what is left of the budget; then to groups
 * that were swapped out; then to waiting ones.
 *
 * By priority, a waiting group also takes the place of running ones whose priority is lower; they
 * are preempted as below.
 *
 * A group is admitted when there are blocks for its known tokens. When a sequence grows and there
 * is no block, the last group in order is preempted: its blocks go to the swap space, or are freed
 * and computed again later. The first group in order is never preempted, and what is admitted fits
 * alone, so every group ends.
 *
 * With an encoder, a step either runs encoders, each prompt whole, or the decoder; groups that
 * wait for their encoder come first. */
#ifndef LN_ENGINE_SCHEDULER_H
#define LN_ENGINE_SCHEDULER_H

#include "engine/preempt.h"

/* What one step may hold; each at least max_seqs. */
typedef struct ln_step_budget {
    size_t max_seqs;
    size_t max_tokens; /* --max-batch-tokens: the most that a prefill chunk may have */
    size_t max_logits;
    size_t n_adapters; /* slots of adapters */
} ln_step_budget;

typedef struct ln_scheduler_options {
    linnet_policy policy;
    linnet_order order;
    linnet_preemption preemption;
    size_t max_long_prefills;   /* of these at most so many are read at once; 0: any number */
    size_t long_prefill_tokens; /* a prompt is long when more tokens than this are to be read */
} ln_scheduler_options;

/* A sequence's part in a step: the next n_tokens that are not cached yet. The logits of the last
 * n_logits of them are wanted. */
typedef struct ln_chunk {
    ln_sequence *sequence; /* NULL: it has ended since the step was started */
    size_t n_tokens, n_logits;
    size_t n_draft;    /* of n_tokens and n_logits, the last: drafts */
    bool begins_group; /* after commit: the last row is the first of every sequence of the group */
} ln_chunk;

typedef struct ln_scheduler {
    ln_step_budget budget;
    ln_scheduler_options options; /* as given; the order is that of the queues */
    ln_kv_cache *kv;              /* the engine's */
    ln_queues queues;
    ln_preemption preemption;
    uint64_t n_arrivals, n_admissions, n_prompt_tokens; /* so far */
    ln_chunk *chunks;                                   /* [max_seqs], what the step computes */
    size_t n_chunks, n_tokens, n_logits;
    size_t n_decodes_left; /* sequences that the budget keeps room for */
    bool is_encoding;      /* the step runs encoders: chunks are whole encoder prompts */
} ln_scheduler;

/* Adds the scheduler's arrays to an empty layout; init takes that many bytes, which outlive it. */
void ln_scheduler_plan(const ln_step_budget *budget, ln_layout *layout);
void ln_scheduler_init(ln_scheduler *scheduler, const ln_step_budget *budget,
                       const ln_scheduler_options *options, ln_kv_cache *kv, void *memory);

bool ln_scheduler_is_idle(const ln_scheduler *scheduler);

/* Adds a group that fits the cache alone (ln_kv_cache_fits). */
void ln_scheduler_add(ln_scheduler *scheduler, ln_sequence_group *group);

/* Chooses the chunks of the next step and gives them KV blocks; returns n_chunks, which is 0 only
 * when idle. The cache's copies come before the step. */
size_t ln_scheduler_schedule(ln_scheduler *scheduler);

/* Whether the next step is sure to be that of the chunks' sequences, one more token each, unless
 * some end: then it has blocks for these tokens, and follow is called after commit, once the tokens
 * that the step gave are known. It makes chunks of the next step of these, where a sequence that
 * has ended leaves its chunk to nobody. */
bool ln_scheduler_can_follow(ln_scheduler *scheduler);
void ln_scheduler_follow(ln_scheduler *scheduler);

/* The step has run: its tokens are cached, what fell out of windows is freed, and groups whose
 * prompt has been read are forked. */
void ln_scheduler_commit(ln_scheduler *scheduler);

/* The step has failed: what it should have written is not there. All running groups must end. */
void ln_scheduler_fail(ln_scheduler *scheduler);

/* Takes a sequence of a running group out and frees its blocks; the group's last one takes it out
 * as well. */
void ln_scheduler_end(ln_scheduler *scheduler, ln_sequence *sequence);
/* The same for all sequences of a group in any state. */
void ln_scheduler_end_group(ln_scheduler *scheduler, ln_sequence_group *group);

#endif
