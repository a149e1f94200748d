/* The scheduler decides what a step computes. Sequences wait, then run, then end.
 *
 * A step has a budget of tokens and of rows of logits. Decodes come first (sequences that lack one
 * token in the cache), then unfinished prefills in the order of their arrival, in chunks that fit
 * the budget, then waiting sequences, first come first served. A sequence is admitted when the KV
 * blocks of its whole possible length are free, so what runs can always go on.
 *
 * With an encoder, a step either runs encoders, each prompt whole, or the decoder; sequences that
 * wait for their encoder come first. */
#ifndef LN_ENGINE_SCHEDULER_H
#define LN_ENGINE_SCHEDULER_H

#include "base/layout.h"
#include "engine/sequence.h"
#include "kv/cache.h"

/* What one step may hold; each at least max_seqs. */
typedef struct ln_step_budget {
    size_t max_seqs;
    size_t max_tokens;
    size_t max_logits;
} ln_step_budget;

/* A sequence's part in a step: the next n_tokens that are not cached yet. The logits of the last
 * n_logits of them are wanted. */
typedef struct ln_chunk {
    ln_sequence *sequence;
    size_t n_tokens, n_logits;
} ln_chunk;

typedef struct ln_scheduler {
    ln_step_budget budget;
    ln_kv_cache *kv; /* the engine's */
    ln_sequence_queue waiting;
    size_t n_waiting;
    ln_sequence **running; /* [max_seqs], oldest first */
    size_t n_running;
    ln_chunk *chunks; /* [max_seqs], what the step computes */
    size_t n_chunks, n_tokens, n_logits;
    bool is_encoding; /* the step runs encoders: chunks are whole encoder prompts */
} ln_scheduler;

/* Adds the scheduler's arrays to an empty layout; init takes that many bytes, which outlive it. */
void ln_scheduler_plan(const ln_step_budget *budget, ln_layout *layout);
void ln_scheduler_init(ln_scheduler *scheduler, const ln_step_budget *budget, ln_kv_cache *kv,
                       void *memory);

bool ln_scheduler_is_idle(const ln_scheduler *scheduler);

/* Chooses the chunks of the next step and gives them KV blocks; returns n_chunks, which is 0 only
 * when idle. Every waiting sequence fits the cache alone (can_allocate does not say never). */
size_t ln_scheduler_schedule(ln_scheduler *scheduler);

/* The step has run: its tokens are cached, and what fell out of windows is freed. */
void ln_scheduler_commit(ln_scheduler *scheduler);

/* Takes a running sequence out and frees its blocks. */
void ln_scheduler_end(ln_scheduler *scheduler, ln_sequence *sequence);

#endif
